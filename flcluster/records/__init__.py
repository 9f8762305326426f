"""What a run leaves behind: exchanges, CSV files, checkpoints; and reading them back."""

from flcluster.records.reader import Run, load_runs

__all__ = ["Run", "load_runs"]
