"""Tables before they are shown: one way into the terminal, one into Markdown, one into CSV files."""

import csv
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flcluster.files import replacing

Cells = Mapping[str, str]
"""A row: head of a column -> text."""


@dataclass(frozen=True)
class Grid:
    """A table's rows; a column that is empty in all of them is left out."""

    title: str
    rows: Sequence[Cells]
    caption: str = ""
    dim: Collection[int] = ()
    """Indices of rows that stand back: what papers print."""
    empty: Collection[str] = ("",)
    """Cells that say nothing."""

    @property
    def heads(self) -> list[str]:
        """The columns that say something, in order of appearance."""
        heads = dict.fromkeys(head for row in self.rows for head in row)
        return [head for head in heads if any(row.get(head, "") not in self.empty for row in self.rows)]

    def cells(self, head: str) -> list[str]:
        """Return a column."""
        return [row.get(head, "") for row in self.rows]


def terminal(grid: Grid) -> Table:
    """Return a table for printing: numbers to the right, they and the first column in one line, heads in several."""
    table = Table(title=escape(grid.title), box=box.SIMPLE_HEAD, padding=0, caption_justify="left")
    table.caption = escape(grid.caption)
    for at, head in enumerate(grid.heads):
        numbers = at > 0 and any(re.match(r"-?\.?\d", cell) for cell in grid.cells(head))
        side: Literal["left", "right"] = "right" if numbers else "left"
        widest = max(map(len, grid.cells(head))) if numbers else min(12, max(map(len, head.split())))
        table.add_column(escape(head), justify=side, overflow="fold", no_wrap=at == 0, min_width=widest)
    for at, row in enumerate(grid.rows):
        style = "dim" if at in grid.dim else None
        table.add_row(*(escape(row.get(head, "")) for head in grid.heads), style=style)
    return table


def markdown(grid: Grid) -> str:
    """Return a table and its caption as Markdown."""
    heads = grid.heads
    lines = [heads, ["---"] * len(heads), *([row.get(head, "") for head in heads] for row in grid.rows)]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{text}\n\n{grid.caption}" if grid.caption else text


def write_csv(path: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file whole or not at all; NaN becomes an empty cell."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows(["" if isinstance(c, float) and math.isnan(c) else c for c in row] for row in rows)


def wide_console() -> Console:
    """Return a console wide enough for the tables, also where output is piped."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 140))
