"""What all pictures share: colours, axes, legends, files."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from flcluster.files import replacing

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#000000", "#56B4E9", "#999933")
"""A palette that colour-blind readers can tell apart (its yellow, too faint for lines, replaced by olive)."""


PRINTED = {"pdf": "CreationDate", "svg": "Date"}
"""Formats for papers, and what they call the time of writing, which is left out: the same runs give the same file."""


OTHERS = ("#882255", "#44AA99", "#AA4499", "#117733", "#332288")


ON_DARK = {
    "#000000": "#F0F0F0",
    "#882255": "#D1578F",
    "#AA4499": "#CF6BBE",
    "#117733": "#4DA768",
    "#332288": "#8A7BE0",
}
"""What takes the place of the palette's dark colours where the ground is dark too."""


def inks(names: Iterable[str]) -> dict[str, str]:
    """Give each name a colour, in order of appearance: methods have it in all pictures of a report."""
    return {name: shade(index) for index, name in enumerate(dict.fromkeys(names))}


def shade(index: int) -> str:
    """Return the colour of the index-th thing of a kind (cluster, variant)."""
    return (OKABE_ITO + OTHERS)[index % len(OKABE_ITO + OTHERS)]


def hue(index: int) -> str:
    """Return the index-th colour that is not black."""
    return shade(index if index < 5 else index + 1)  # the sixth is black


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many places to draw in, two in a row; a place that is left over stays empty."""
    wide = min(count, 2)
    tall = math.ceil(count / wide)
    figure = Figure(figsize=(7.5 if wide == 1 else 11, 4.4 * tall + 0.4), layout="constrained")
    places = list(figure.subplots(tall, wide, squeeze=False).flat)
    for axes in places[count:]:
        axes.set_axis_off()
    return figure, places[:count]


def save(figure: Figure | None, path: str | Path, formats: Iterable[str] = ()) -> Path | None:
    """Write a figure as PNG, and beside it in other formats; return where the PNG is, nothing for no figure."""
    if figure is None:
        return None
    path = Path(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
    for ending in formats:
        with (
            replacing(path.with_suffix(f".{ending}")) as temporary,
            rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}),  # text that stays text, in journals' fonts too
        ):
            figure.savefig(temporary, metadata={PRINTED[ending]: None}, format=ending)
    return path


def band(axes: Axes, x: NDArray[np.float64], values: NDArray[np.float64], ink: str) -> None:
    """Shade one standard deviation around the mean of some runs, ``[runs, places]``; nothing for one run."""
    if len(values) > 1:
        mean, spread = values.mean(0), values.std(0, ddof=1)
        axes.fill_between(x, mean - spread, mean + spread, color=ink, alpha=0.18, linewidth=0)


def tidy(axes: Axes, title: str, x: str, y: str) -> None:
    """Title and label axes, with a faint grid behind what is drawn."""
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Put one legend below the panels, in as many columns as its words leave room for."""
    widest = max((len(str(handle.get_label())) for handle in handles), default=0)
    fitting = max(1, min(6, int(figure.get_figwidth() * 12.5 / (widest + 7))))
    rows = math.ceil(len(handles) / fitting)
    figure.legend(
        handles=handles, loc="outside lower center", ncols=math.ceil(len(handles) / max(rows, 1)), frameon=False
    )
