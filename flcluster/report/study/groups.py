"""A study's figure of one number per run as groups of bars: the same methods in several settings."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from flcluster.report.curves import label_of
from flcluster.report.study.file import Picture, Runs, Study
from flcluster.report.study.paper import printed
from flcluster.report.study.series import grouped
from flcluster.report.study.values import over_seeds
from flcluster.report.style import hue, legend, tidy
from flcluster.report.summaries import mean_std


def groups_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw one column of the table: bars of one colour differ in their group alone, black marks are a paper's."""
    (y,) = picture.columns
    bars = grouped(picture.of or list(study.variants), picture.groups)
    papers = printed(study, runs, y)
    said = {name: row.mean for rows in papers.values() for name, row in rows.items()}
    values = {name: mean_std(over_seeds(study, runs, name, y)) for name in runs}
    values = {name: pair for name, pair in values.items() if math.isfinite(pair[0])}
    width = 0.84 / len(bars)
    figure = Figure(figsize=(max(6.0, 1.5 + 0.55 * len(bars) * len(picture.groups)), 4.6), layout="constrained")
    axes = figure.subplots()
    tidy(axes, picture.title or study.title, "", label_of(y))
    handles: list[Patch | Line2D] = []
    for i, (name, members) in enumerate(bars.items()):
        at = {
            variant: picture.groups.index(group) + (i - (len(bars) - 1) / 2) * width
            for group, variant in members.items()
        }
        known = [variant for variant in at if variant in values]
        for variant in known:
            _bar(axes, at[variant], values[variant], 0.92 * width, hue(i))
        marked = [variant for variant in known if variant in said]
        axes.plot(
            [at[v] for v in marked], [said[v] for v in marked], "_", color="black", markersize=12, markeredgewidth=2
        )
        handles += [Patch(color=hue(i), label=name or "all")] if known else []
    if not handles:
        return None
    axes.set_xticks(np.arange(len(picture.groups)), list(picture.groups))
    axes.margins(y=0.12)
    mark = [Line2D([], [], color="black", marker="_", markersize=12, linestyle="", label=paper) for paper in papers]
    legend(figure, [*handles, *mark])
    return figure


def _bar(axes: Axes, at: float, value: tuple[float, float], width: float, ink: str) -> None:
    mean, std = value
    error = std if math.isfinite(std) else None
    bar = axes.bar(at, mean, width, color=ink, alpha=0.9, yerr=error, capsize=2)
    axes.bar_label(bar, fmt="%.3g", fontsize=7, padding=2)
