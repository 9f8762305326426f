"""A study's figures along an axis: metrics over rounds or time, their difference."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flcluster.records.columns import column
from flcluster.records.reader import Run
from flcluster.report.curves import Curve, common, points, time_unit
from flcluster.report.study.file import Picture, Runs, Study
from flcluster.report.study.looks import Style, chosen, styles
from flcluster.report.study.values import over_seeds, score_of
from flcluster.report.style import band, legend, panels, shade, tidy
from flcluster.report.summaries import mean_std


def _curves(runs: Runs, variant: str, x: str, y: str) -> list[Curve]:
    found = [points(run, x, y) for run in runs.get(variant, {}).values()]
    return [curve for curve in found if len(curve[0])]


def _axis(picture: Picture, runs: Runs) -> tuple[float, str]:
    """Return the unit and label of the x axis."""
    return time_unit(_all(runs)) if picture.x == "time" else (1.0, column(picture.x).label)


def _all(runs: Runs) -> list[Run]:
    return [run for seeds in runs.values() for run in seeds.values()]


def lines_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw each variant's mean over seeds, with a band of one standard deviation; a panel for each column."""
    drawn = [
        name for name in chosen(study, picture, runs) if any(_curves(runs, name, picture.x, y) for y in picture.columns)
    ]
    if not drawn:
        return None
    look, (unit, x_label) = styles(study), _axis(picture, runs)
    figure, places = panels(len(picture.columns))
    for axes, y in zip(places, picture.columns, strict=True):
        tidy(axes, "", x_label, column(y, score_of(runs)).label)
        for name in drawn:
            _line(axes, _curves(runs, name, picture.x, y), unit, look[name], name)
        if picture.target and study.target is not None and y == study.target.y:
            _target_lines(axes, study, picture, runs, drawn, unit)
    figure.suptitle(picture.title or study.title, fontsize=12)
    handles = [_handle(study, picture, runs, name, look[name]) for name in drawn]
    if picture.target:
        handles.append(Line2D([], [], color="0.3", linestyle=":", label=f"target {score_of(runs).name}"))
    legend(figure, handles)
    return figure


def _line(axes: Axes, curves: Sequence[Curve], unit: float, style: Style, name: str) -> None:
    if not curves:
        return
    x, values = common(curves)
    marker = "o" if len(x) < 3 else None
    axes.plot(x / unit, values.mean(0), style[1], color=style[0], label=name, linewidth=1.5, marker=marker)
    band(axes, x / unit, values, style[0])


def _handle(study: Study, picture: Picture, runs: Runs, name: str, style: Style) -> Line2D:
    """Name a line; where the target is shown, with the speed-up towards it."""
    factor = _in_all(study, runs, name, "speedup") if picture.target else math.nan
    is_target = study.target is not None and study.target.of(name) == name
    label = name if is_target or not math.isfinite(factor) else f"{name} ({factor:.2f}×)"
    return Line2D([], [], color=style[0], linestyle=style[1], linewidth=2, label=label)


def _in_all(study: Study, runs: Runs, name: str, column: str) -> float:
    """Return the mean over seeds, NaN if one of them did not get there."""
    return float(np.mean(over_seeds(study, runs, name, column)))


def _target_lines(axes: Axes, study: Study, picture: Picture, runs: Runs, drawn: Sequence[str], unit: float) -> None:
    """Draw the level of each target, and a mark where a variant has reached its own for good."""
    assert study.target is not None
    look = styles(study)
    for name in drawn:
        baseline = study.target.of(name)
        level = mean_std(over_seeds(study, runs, name, "target"))[0]
        if baseline is None or not math.isfinite(level):
            continue
        if baseline == name or baseline not in drawn:
            axes.axhline(level, color=look[baseline][0], linestyle=":", linewidth=1.1)
        reached = _in_all(study, runs, name, "tta")
        if name != baseline and picture.x == study.target.x and math.isfinite(reached):
            axes.plot(reached / unit, level, "o", color=look[name][0], markeredgecolor="white", markersize=7, zorder=5)


def difference_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw the first variant minus the second, mean over the seeds that both have."""
    first, second = picture.of
    (y,) = picture.columns
    seeds = sorted(set(runs.get(first, {})) & set(runs.get(second, {})))
    pairs = [[points(runs[name][seed], picture.x, y) for name in (first, second)] for seed in seeds]
    gaps = [_gap(*pair) for pair in pairs if all(len(x) for x, _ in pair)]
    gaps = [gap for gap in gaps if len(gap[0])]
    if not gaps:
        return None
    score = score_of(runs)
    scale, points_unit = (100.0, " (percentage points)") if "acc" in y and score.is_accuracy else (1.0, "")
    unit, x_label = _axis(picture, runs)
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    title = f"{picture.title or study.title}\n{first} − {second}"
    tidy(axes, title, x_label, f"difference in\n{column(y, score).label}{points_unit}")
    axes.axhline(0, color="0.3", linewidth=1)
    _line(axes, [(x, scale * gap) for x, gap in gaps], unit, (shade(0), "-"), f"{first} − {second}")
    return figure


def _gap(first: Curve, second: Curve) -> Curve:
    x, (a, b) = common([first, second])
    return x, a - b
