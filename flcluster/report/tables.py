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

from flcluster.errors import harmless
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
    """Return a table for printing: numbers to the right, they and the first column in one line, heads in several.

    In a terminal too narrow for that the last columns are left out, and the caption says which.
    """
    console = Console()
    heads = fitting(grid, console.width) if console.is_terminal else grid.heads
    absent = [head for head in grid.heads if head not in heads]
    left = f" Left out in {console.width} columns: {', '.join(absent)}." if absent else ""
    table = Table(title=_shown(grid.title), box=box.SIMPLE_HEAD, padding=0, caption_justify="left")
    table.caption = _shown(f"{grid.caption}{left}".strip())
    widths = _widths(grid, heads, console.width) if console.is_terminal else [None] * len(heads)
    for head, width in zip(heads, widths, strict=True):
        side: Literal["left", "right"] = "right" if _numbers(grid, head) else "left"
        first, least = head == heads[0], _narrowest(grid, head)
        table.add_column(_shown(head), justify=side, overflow="fold", no_wrap=first, min_width=least, width=width)
    for at, row in enumerate(grid.rows):
        style = "dim" if at in grid.dim else None
        table.add_row(*(_shown(row.get(head, "")) for head in heads), style=style)
    return table


def _shown(text: str) -> str:
    """Return text as a terminal shows it, whatever is in it."""
    return escape(harmless(text))


def _numbers(grid: Grid, head: str) -> bool:
    return head != grid.heads[0] and any(re.match(r"-?\.?\d", cell) for cell in grid.cells(head))


def _narrowest(grid: Grid, head: str) -> int:
    """Return how narrow a column may become: numbers stay in one line, words are not broken if they are short."""
    longest = max(map(len, grid.cells(head)), default=0)
    words = min(12, max(map(len, head.split())))
    if head == grid.heads[0]:
        return max(longest, words)
    return max(longest, words) if _numbers(grid, head) else words


def fitting(grid: Grid, width: int) -> list[str]:
    """Return the columns that fit beside each other, from the first on, with a blank between two; always the first."""
    taken, found = 1, list[str]()
    for head in grid.heads:
        taken += _narrowest(grid, head) + 1
        if found and taken > width:
            break
        found.append(head)
    return found


def _widths(grid: Grid, heads: Sequence[str], room: int) -> list[int]:
    """Return how wide columns are: as narrow as they may become, and what is left goes to those that need most."""
    widths = [_narrowest(grid, head) for head in heads]
    natural = [max(len(head), *map(len, grid.cells(head))) for head in heads]
    for _ in range(room - 1 - sum(width + 1 for width in widths)):
        missing = [wanted - width for wanted, width in zip(natural, widths, strict=True)]
        if max(missing) <= 0:
            break
        widths[missing.index(max(missing))] += 1
    return widths


def markdown(grid: Grid) -> str:
    """Return a table and its caption as Markdown."""
    heads = grid.heads
    lines = [heads, ["---"] * len(heads), *([row.get(head, "") for head in heads] for row in grid.rows)]
    text = "\n".join("| " + " | ".join(map(in_markdown, line)) + " |" for line in lines)
    return f"{text}\n\n{grid.caption.replace('<', '&lt;')}" if grid.caption else text


def in_markdown(text: str) -> str:
    """Return text as a cell of a Markdown table shows it: no end of the cell, no mark-up of HTML.

    >>> in_markdown("a|b <script>")
    'a\\\\|b &lt;script>'
    """
    return " ".join(harmless(text).replace("|", "\\|").replace("<", "&lt;").split("\n"))


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
