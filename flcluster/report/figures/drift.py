"""How a run lived through drift: accuracy, clusters, threshold and heterogeneity over rounds and simulated time."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from flcluster.records.columns import column as described
from flcluster.records.reader import Run
from flcluster.report.curves import cluster_sizes, counts_rounds, has, points, time_unit
from flcluster.report.style import shade, tidy

TITLES = {"heterogeneity": "heterogeneity", "clusters": "clusters", "reclusterings": "global re-clusterings"}


def draw_sizes(axes: Axes, run: Run, title: str) -> None:
    """Stack the clusters' sizes over rounds, with a dotted line at each global re-clustering."""
    rounds, sizes = cluster_sizes(run)
    tidy(axes, title, described("epoch").label, "clients")
    areas = axes.stackplot(rounds, sizes, step="post", colors=[shade(k) for k in range(len(sizes))], alpha=0.8)
    for area in areas:
        area.set(edgecolor="white", linewidth=0.3)
    at, so_far = points(run, "epoch", "reclusterings")
    for place in at[1:][np.diff(so_far) > 0]:
        axes.axvline(place, color="0.15", linewidth=0.6, linestyle=":")
    axes.set(xlim=(rounds[0], max(rounds[-1], rounds[0] + 1)), ylim=(0, sizes.sum(0).max()))


def drift_figure(run: Run) -> Figure | None:
    """Draw the panels that a run has columns for; None if it has nothing but accuracy over rounds."""
    panels = dict(_panels(run))
    if all(title.startswith(f"{run.score.name} over") for title in panels):
        return None
    wide = len(panels) if len(panels) < 4 else math.ceil(len(panels) / 2)
    tall = math.ceil(len(panels) / wide)
    figure = Figure(figsize=(4.6 * wide, 3.4 * tall + 0.3), layout="constrained")
    for at, (title, draw) in enumerate(panels.items(), start=1):
        draw(figure.add_subplot(tall, wide, at), title)
    figure.suptitle(run.label, fontsize=12)
    return figure


Draw = Callable[[Axes, str], object]


def _panels(run: Run) -> Mapping[str, Draw]:
    def lines(x: str, *columns: str, y: str = "") -> Draw:
        return lambda axes, title: _lines(axes, run, title, x, columns, y)

    panels: dict[str, Draw] = {}
    if has(run, "client_acc"):
        panels[f"{run.score.name} over rounds"] = lines("epoch", "client_acc")
        if not counts_rounds(run):
            panels[f"{run.score.name} over simulated time"] = lines("time", "client_acc")
    for column, title in TITLES.items():
        if has(run, column) and np.ptp(points(run, "epoch", column)[1]) > 0:  # a level line says nothing
            panels[title] = lines("epoch", column)
    if has(run, "delta") or has(run, "max_distance"):
        panels["threshold and distances"] = lines("epoch", "delta", "max_distance", "p95_distance", y="distance")
    if len(cluster_sizes(run)[1]) > 1:
        panels["cluster sizes (dotted: re-clustered)"] = lambda axes, title: draw_sizes(axes, run, title)
    return panels


def _lines(axes: Axes, run: Run, title: str, x: str, columns: tuple[str, ...], y: str) -> None:
    unit, label = time_unit([run]) if x == "time" else (1.0, described(x).label)
    tidy(axes, title, label, y or described(columns[0], run.score).label)
    drawn = [column for column in columns if has(run, column)]
    for at, column in enumerate(drawn):
        xs, ys = points(run, x, column)
        ink = shade(at)
        style = "default" if column in ("client_acc", "heterogeneity") else "steps-post"
        axes.plot(
            xs / unit,
            ys,
            color=ink,
            drawstyle=style,
            marker="o" if len(xs) < 3 else None,
            label=described(column).label,
        )
    if len(columns) > 1:
        axes.set_ylim(0, 1.4 * max(points(run, x, column)[1].max() for column in drawn))  # room for the legend
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    if {"clusters", "reclusterings"} & set(columns):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
