"""What there is to choose from, told by the classes themselves: their names, docstrings, papers and files."""

import inspect
import re
from collections.abc import Iterable
from importlib import import_module

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flcluster.report.tables import Cells


def classes_of(library: str, base: type) -> list[type]:
    """Return the classes of a library that can be configured where ``base`` is asked for, by their files."""
    module = import_module(f"flcluster.{library}")
    found = [getattr(module, name) for name in module.__all__]
    kinds = [
        each for each in found if inspect.isclass(each) and issubclass(each, base) and not inspect.isabstract(each)
    ]
    return sorted(kinds, key=lambda kind: (kind.__module__, inspect.getsourcelines(kind)[1]))


def file_of(kind: type) -> str:
    """Return the file that a class of ours is in, as its library's folder has it."""
    return kind.__module__.split(".", 2)[2].replace(".", "/") + ".py"


def summary_of(kind: type) -> str:
    """Return the first sentence of a class's docstring.

    >>> class Median:
    ...     '''The median of the models: one of many. More of it.'''
    >>> summary_of(Median)
    'The median of the models: one of many'
    """
    text = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    text = re.sub(r":\w+:`\.?([\w.]+)`|``(.+?)``|\*(\w+)\*", lambda m: m[1] or m[2] or m[3], text)
    return text.partition(". ")[0].rstrip(".")


def show(title: str, rows: Iterable[Cells], words: Iterable[str], caption: str) -> None:
    """Print rows that have all of some words in them, one line each; in a terminal cut to its width."""
    words = [word.lower() for word in words]
    rows = [row for row in rows if all(word in " ".join(row.values()).lower() for word in words)]
    heads = list(rows[0]) if rows else []
    widths = {head: max(len(text) for text in [head, *(row[head] for row in rows)]) for head in heads}
    console = Console()
    if console.is_terminal:
        console.print(_table(title, rows, widths, caption, console.width))
        return
    for row in rows:
        print("  ".join(row[head].ljust(widths[head]) for head in heads).rstrip())


def _table(title: str, rows: list[Cells], widths: dict[str, int], caption: str, room: int) -> Table:
    """Return a table whose second column, the longest, has what room the others leave, or is left out."""
    long = list(widths)[1] if widths else ""
    left = room - sum(width + 2 for head, width in widths.items() if head != long)
    heads = [head for head in widths if head != long or left >= SOME]
    told = "" if long in heads else f" A wider terminal or a pipe also shows: {long.lower()}."
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, caption=caption + told, caption_justify="left")
    for head in heads:
        table.add_column(head, no_wrap=True, overflow="ellipsis", max_width=max(left, SOME) if head == long else None)
    for row in rows:
        table.add_row(*(escape(row[head]) for head in heads))
    return table


SOME = 24
"""Letters of a sentence that say something."""
