"""A CSV file that a run appends to."""

import math
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flcluster.errors import UserError, writing


class CsvFile:
    """A CSV file that grows row by row and can go back to where a checkpoint ``left`` it: its length and checksum."""

    def __init__(self, path: Path | None, columns: list[str], left: Sequence[int] | None) -> None:
        self.columns, self.sum = columns, 0
        self.path = path
        if path is not None and left is not None:
            self.sum = whole_until(path, *left)
            with writing(path):
                os.truncate(path, left[0])
            with open(path, encoding="utf-8") as begun:  # by an older version, perhaps, which knew fewer columns
                self.columns = begun.readline().rstrip("\n").split(",")
        with writing(path):
            self.file = open(path or os.devnull, "w" if left is None else "a", encoding="utf-8", newline="\n")  # noqa: SIM115
        if left is None:
            self._append(",".join(columns) + "\n")

    def write(self, row: dict[str, Any]) -> None:
        """Append a row; None and NaN become empty cells."""
        self._append(",".join(cell(row.get(name)) for name in self.columns) + "\n")

    def flush(self) -> None:
        """Show readers of the file what is known."""
        with writing(self.path):
            self.file.flush()

    def close(self) -> None:
        """Close the file; what could not be written has been told, and no checkpoint counts on it."""
        with suppress(OSError):
            self.file.close()

    def _append(self, line: str) -> None:
        with writing(self.path):
            self.file.write(line)
        self.sum = zlib.crc32(line.encode(), self.sum)

    def position(self) -> tuple[int, int]:
        """Flush to disk and return the length in bytes and their checksum."""
        self.flush()
        if self.file.name != os.devnull:
            with writing(self.path):
                os.fsync(self.file.fileno())
        return self.file.tell(), self.sum


def whole_until(path: Path, length: int, checksum: int | None = None) -> int:
    """Return the checksum of a file's first bytes; refuse a file that is shorter or has changed."""
    if not path.exists() or path.stat().st_size < length:
        raise UserError(f"{path} is missing or shorter than the checkpoint left it: the run cannot go on")
    with open(path, "rb") as file:
        found = zlib.crc32(file.read(length))
    if checksum is not None and found != checksum:
        raise UserError(f"{path} is not as the run wrote it (damaged or edited): the run cannot go on")
    return found


def cell(value: Any) -> str:
    """Write one value so that reading it back gives the same value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)
