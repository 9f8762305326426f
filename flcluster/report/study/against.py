"""A study's figure of one number per run against a setting that its variants differ in."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flcluster.records.columns import COLUMNS, column
from flcluster.report.figures.bars import Values
from flcluster.report.study.file import Picture, Runs, Study
from flcluster.report.study.series import series
from flcluster.report.study.values import known_means, score_of
from flcluster.report.style import hue, legend, panels, tidy


def against_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw columns of the table against a setting, a panel each: a line joins variants alike but for their number.

    Variants that do not have the setting are levels, dashed from side to side.
    """
    variants = {name: study.variants[name] for name in picture.of or study.variants}
    lines, levels = series(study.common, variants, picture.x)
    values = {y: known_means(study, runs, y) for y in picture.columns}
    if not any(name in found for found in values.values() for line in lines.values() for _, name in line):
        return None
    inks = {name: hue(i) for i, name in enumerate([*lines, *levels])}
    figure, places = panels(len(picture.columns))
    for axes, y in zip(places, picture.columns, strict=True):
        tidy(axes, "", setting_label(picture.x), column(y, score_of(runs)).label)
        for name, line in lines.items():
            _points(axes, line, values[y], inks[name], name)
        for name in levels:
            _level(axes, values[y], inks[name], name)
    figure.suptitle(picture.title or study.title, fontsize=12)
    _legend(figure, lines, levels, inks)
    return figure


def setting_label(path: str) -> str:
    """Return what a setting is called on an axis: by its path if that has a name, else by the path's end."""
    parts = [part for part in path.split(".") if part != "init_args"]
    return column(name if (name := ".".join(parts)) in COLUMNS else parts[-1]).label


def _points(axes: Axes, line: Sequence[tuple[float, str]], values: Values, ink: str, name: str) -> None:
    """Draw a line through means, with a bar of one standard deviation up and down where several seeds ran."""
    known = [(x, *values[variant]) for x, variant in line if variant in values]
    if not known:
        return
    x, mean, std = zip(*known, strict=True)
    axes.plot(x, mean, "-o", color=ink, linewidth=1.5, markersize=4, label=name)
    axes.errorbar(x, mean, yerr=std, fmt="none", ecolor=ink, elinewidth=1, capsize=3)


def _level(axes: Axes, values: Values, ink: str, name: str) -> None:
    if name not in values:
        return
    mean, std = values[name]
    axes.axhline(mean, color=ink, linestyle="--", linewidth=1.5, label=name)
    if math.isfinite(std):
        axes.axhspan(mean - std, mean + std, color=ink, alpha=0.15, linewidth=0)


def _legend(figure: Figure, lines: Mapping[str, object], levels: Sequence[str], inks: Mapping[str, str]) -> None:
    drawn = {str(line.get_label()) for axes in figure.axes for line in axes.lines}
    solid = [Line2D([], [], color=inks[n], marker="o", markersize=4, label=n) for n in lines if n and n in drawn]
    dashed = [Line2D([], [], color=inks[n], linestyle="--", label=n) for n in levels if n in drawn]
    if solid or dashed:
        legend(figure, [*solid, *dashed])
