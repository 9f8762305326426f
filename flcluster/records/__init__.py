"""What a run leaves behind: exchanges, CSV files, checkpoints; and reading them back."""
