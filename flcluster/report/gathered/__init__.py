"""Numbers of finished runs as small CSV files that outlive their directories."""
