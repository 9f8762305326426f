"""A CSV file that a run appends to."""

import math
import os
from pathlib import Path
from typing import Any

from flcluster.errors import UserError


class CsvFile:
    """A CSV file that grows row by row and can go back to where a checkpoint left it."""

    def __init__(self, path: Path | None, columns: list[str], position: int | None) -> None:
        self.columns = columns
        if path is not None and position is not None:
            if not path.exists() or path.stat().st_size < position:
                raise UserError(f"{path} is missing or shorter than the checkpoint left it: the run cannot go on")
            os.truncate(path, position)
        self.file = open(path or os.devnull, "w" if position is None else "a", encoding="utf-8")  # noqa: SIM115
        if position is None:
            self.file.write(",".join(columns) + "\n")

    def write(self, row: dict[str, Any]) -> None:
        """Append a row; None and NaN become empty cells."""
        self.file.write(",".join(cell(row.get(name)) for name in self.columns) + "\n")

    def position(self) -> int:
        """Flush to disk and return the length in bytes."""
        self.file.flush()
        if self.file.name != os.devnull:
            os.fsync(self.file.fileno())
        return self.file.tell()


def cell(value: Any) -> str:
    """Write one value so that reading it back gives the same value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)
