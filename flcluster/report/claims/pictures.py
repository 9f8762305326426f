"""Pictures of gathered runs, each with a digest of what is drawn, so that a test can tell when one is old."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from flcluster.files import replacing
from flcluster.records.columns import column
from flcluster.report.claims.results import Results
from flcluster.report.curves import common
from flcluster.report.figures.bars import Bars, bars_figure
from flcluster.report.gathered.studies import Gathered, mean_and_deviation
from flcluster.report.style import band, inks, legend, panels, shade, tidy

DIGEST = "Drawn"
"""The name under which a PNG has the digest of what it shows."""


@dataclass
class Pictures:
    """The pictures of a page; a template asks for them by name and gets links, nothing for runs that are not there."""

    results: Results
    place: str
    """The folder that links name."""
    drawn: dict[str, Figure] = field(default_factory=dict)

    def lines(self, name: str, study: str, *ys: str, title: str, x: str = "epoch", only: Sequence[str] = ()) -> str:
        """Draw columns of some variants over time."""
        told = self.results.studies.get(study)
        return self._link(name, title, lines_figure(told, ys, x, title, only) if told else None)

    def bars(self, name: str, study: str, *ys: str, title: str, only: Sequence[str] = ()) -> str:
        """Draw final numbers of some variants."""
        told = self.results.studies.get(study)
        return self._link(name, title, means_figure(told, ys, title, only) if told else None)

    def _link(self, name: str, title: str, figure: Figure | None) -> str:
        if figure is None:
            return ""
        self.drawn[f"{name}.png"] = figure
        return f"![{title}]({self.place}/{name}.png)"


def lines_figure(study: Gathered, ys: Sequence[str], x: str, title: str, only: Sequence[str] = ()) -> Figure | None:
    """Draw the mean over seeds of each variant and column, with a band of one standard deviation."""
    figure, (axes,) = panels(1)
    handles: list[Line2D] = []
    for variant, y in _pairs(study, ys, only):
        if curves := study.curves(variant, x, y):
            places, values = common([(x[x > 0], y[x > 0]) for x, y in curves.values()])  # 0: nothing was trained yet
            ink = shade(len(handles))
            axes.plot(places, values.mean(0), color=ink, linewidth=1.5)
            band(axes, places, values, ink)
            label = variant.replace("_", " ") if len(ys) == 1 else column(y).label
            handles.append(Line2D([], [], color=ink, linewidth=2, label=label))
    tidy(axes, title, column(x).label, column(ys[0]).label if len(ys) == 1 else "accuracy")
    legend(figure, handles)
    return figure if handles else None


def means_figure(study: Gathered, ys: Sequence[str], title: str, only: Sequence[str] = ()) -> Figure | None:
    """Draw the mean over seeds of each variant and column as a bar, with its standard deviation."""
    groups: dict[str, dict[str, tuple[float, float]]] = {}
    for variant, y in _pairs(study, ys, only):
        found = mean_and_deviation(study.values(variant, y))
        groups.setdefault(column(y).title, {})[variant.replace("_", " ")] = found
    names = [name for bars in groups.values() for name in bars]
    return bars_figure([Bars(title, "accuracy", groups)], inks(names))


def _pairs(study: Gathered, ys: Sequence[str], only: Sequence[str]) -> list[tuple[str, str]]:
    return [(variant, y) for variant in only or study.variants if variant in study.variants for y in ys]


def digest(figure: Figure) -> str:
    """Return a digest of what a figure shows: its words and numbers, not its pixels."""
    told = "\n".join(part for axes in figure.axes for part in _parts(axes))
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return hashlib.sha256("\n".join([told, *labels]).encode()).hexdigest()[:16]


def _parts(axes: Axes) -> Iterator[str]:
    yield from (axes.get_title(), axes.get_xlabel(), axes.get_ylabel())
    yield from (text.get_text() for text in axes.get_xticklabels() if not axes.lines)
    shapes: list[ArrayLike] = [line.get_xydata() for line in axes.lines]
    shapes += [path.vertices for filled in axes.collections for path in filled.get_paths()]
    shapes += [bar.get_patch_transform().transform(bar.get_path().vertices) for bar in axes.patches]
    yield from (" ".join(f"{number:.6g}" for number in np.ravel(shape)) for shape in shapes)


def save_drawn(figure: Figure, path: Path) -> None:
    """Write a picture in few colours, which makes it small, with its digest."""
    drawn, told = BytesIO(), PngInfo()
    figure.savefig(drawn, dpi=90, format="png")
    told.add_text(DIGEST, digest(figure))
    with replacing(path) as temporary:
        Image.open(drawn).convert("RGB").quantize(64).save(temporary, "png", pnginfo=told, optimize=True)


def digest_of(path: Path) -> str:
    """Return the digest that a picture was written with."""
    with Image.open(path) as image:
        return str(image.info[DIGEST])
