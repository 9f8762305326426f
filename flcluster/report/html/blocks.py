"""What a page is made of, as plain data: sections of blocks, which ``assets/*.js`` draws.

A block says its ``kind``; a plot's traces are Plotly's, with colours in the palette's words: ``#RRGGBB``, such a colour
with ``/18`` for eighteen per cent of it, or ``ink``, ``faint`` and ``paper``, which are the page's own.
"""

import html
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from flcluster.report.tables import Grid

Block = dict[str, Any]


DIGITS = 4
"""Significant digits of what is drawn."""


def rounded(values: Iterable[float], digits: int = DIGITS) -> list[float | int | None]:
    """Return numbers with few digits, whole ones as such, None for what is not finite.

    >>> rounded([0.123456, 3.0, float("nan"), 1234567.0])
    [0.1235, 3, None, 1235000]
    """
    return [_short(float(value), digits) for value in values]


def _short(value: float, digits: int) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


def whole(values: Iterable[float]) -> list[int | None]:
    """Return whole numbers with all their digits, None for what is not known."""
    return [int(value) if math.isfinite(value) else None for value in values]


def words(text: object) -> str:
    """Return a text that Plotly shows as it is: it would read ``<b>`` and ``<a href>`` as mark-up."""
    return html.escape(str(text), quote=False)


def label(text: object, width: int = 36) -> str:
    """Return a name for a legend or an axis, in lines that fit a narrow screen.

    >>> label("AP-FL (semantics=ShippedNames, rounds=100)"), label("<b>")
    ('AP-FL (semantics=ShippedNames,<br>rounds=100)', '&lt;b&gt;')
    """
    return "<br>".join(map(words, textwrap.wrap(str(text), width))) or "?"


def tint(colour: str, percent: int) -> str:
    """Return a colour of which only a part is seen."""
    return f"{colour}/{percent}"


def thin(count: int, most: int) -> np.ndarray:
    """Choose evenly among indices, the first and the last among them, where there are too many to draw.

    >>> thin(5, 9).tolist(), thin(9, 3).tolist()
    ([0, 1, 2, 3, 4], [0, 4, 8])
    """
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))


def section(ident: str, title: str, blocks: Iterable[Block | None], intro: str = "") -> Block | None:
    """Return a section of the blocks that there are; None for none."""
    kept = [block for block in blocks if block]
    return {"id": ident, "title": title, "intro": intro, "blocks": kept} if kept else None


def table(grid: Grid) -> Block | None:
    """Return a table; None for one without rows."""
    heads = grid.heads
    rows = [[row.get(head, "") for head in heads] for row in grid.rows]
    said = {"title": grid.title, "heads": heads, "rows": rows, "caption": grid.caption.strip()}
    return {"kind": "table", **said, "dim": sorted(grid.dim)} if rows and heads else None


def plot(
    title: str, traces: Sequence[Mapping[str, Any]], x: str, y: str, height: int = 320, **layout: Any
) -> Block | None:
    """Return a plot with labelled axes; ``layout`` is laid over it. None without traces."""
    if not traces:
        return None
    axes = {"xaxis": {"title": {"text": words(x)}}, "yaxis": {"title": {"text": words(y)}}}
    for name in axes:
        axes[name] |= layout.pop(name, {})
    return {"kind": "plot", "title": title, "height": height, "traces": list(traces), "layout": {**axes, **layout}}


def choice(label: str, options: Mapping[str, Sequence[Block | None]]) -> Block | None:
    """Return blocks of which one group is shown, the first at first; no choice where there is but one."""
    kept = {name: [block for block in blocks if block] for name, blocks in options.items()}
    kept = {name: blocks for name, blocks in kept.items() if blocks}
    listed = [{"name": name, "blocks": blocks} for name, blocks in kept.items()]
    return {"kind": "choice", "label": label, "options": listed} if listed else None


def notes(lines: Sequence[str], title: str = "") -> Block | None:
    """Return a list of sentences; None for none."""
    return {"kind": "notes", "title": title, "lines": list(lines)} if lines else None


def details(title: str, text: str) -> Block:
    """Return a text that is folded away."""
    return {"kind": "details", "title": title, "text": text}
