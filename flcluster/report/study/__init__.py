"""Studies: their file, their values, their figures."""
