"""CSV files as columns of text, and columns as numbers: what is no number is told by its line."""

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.files import read_text

Columns = dict[str, list[str]]


LARGEST = 3.4e38
"""Numbers are below it, so that they stay finite with 32 bits."""


class Table(NamedTuple):
    """Columns of text, and where each row stands."""

    columns: Columns
    places: list[tuple[Path, int]]

    def refuse(self, name: str, wrong: Callable[[str], bool], why: str) -> None:
        """Refuse a column some cell of which is wrong, by the first of these."""
        cells = self.columns[name]
        if not (kinds := {cell for cell in set(cells) if wrong(cell)}):
            return
        (path, line), cell = next((place, c) for place, c in zip(self.places, cells, strict=True) if c in kinds)
        raise UserError(f"{path}, line {line}: {cell!r} in the column {name!r} {why}")


def read_table(path: Path, delimiter: str) -> Table:
    """Read a CSV file as columns of text."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter)
    try:
        found = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}") from error
    if len(found) < 2:
        raise UserError(f"{path} is empty: a heading and rows are needed")
    (_, heading), *rows = found
    names = [name.strip() for name in heading]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{path} has the column {twice[0]!r} more than once")
    for line, row in rows:
        if len(row) != len(names):
            raise UserError(f"{path}, line {line}: {len(row)} cells, but the heading has {len(names)}")
    columns = {name: [row[i].strip() for _, row in rows] for i, name in enumerate(names)}
    return Table(columns, [(path, line) for line, _ in rows])


def joined(tables: Sequence[Table]) -> Table:
    """Return tables as one, with the columns of the first."""
    columns = {name: [cell for table in tables for cell in table.columns[name]] for name in tables[0].columns}
    return Table(columns, [place for table in tables for place in table.places])


def is_number(cell: str) -> bool:
    """Whether a cell is a finite number.

    >>> is_number("1e3"), is_number("soon"), is_number("nan")
    (True, False, False)
    """
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def is_whole(cell: str) -> bool:
    """Whether a cell is a whole number.

    >>> is_whole("-3"), is_whole("1.5")
    (True, False)
    """
    return re.fullmatch(r"[+-]?\d{1,18}", cell) is not None


def finite(name: str, table: Table, empty: bool = False) -> NDArray[np.float32]:
    """Return a column of finite numbers, of which some may be empty and then are NaN."""
    cells = table.columns[name]
    try:
        values = np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:  # a word: told below
        values = np.full(len(cells), np.inf)
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if not np.isfinite(found).all():
        known = "leave it empty if it is not known, and name columns of words, if this is one, in data.words"
        advice = known if empty else "data.task is regression"
        table.refuse(
            name,
            lambda cell: not (empty and not cell) and not (is_number(cell) and abs(float(cell)) < LARGEST),
            f"is no finite number: {advice}",
        )
    return found
