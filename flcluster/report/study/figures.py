"""A study's figures, drawn from its runs; ``None`` means that no run has anything to draw."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flcluster.records.reader import Run
from flcluster.report.curves import cluster_sizes, label_of, points, time_unit
from flcluster.report.figures.drift import draw_sizes
from flcluster.report.study.against import against_figure
from flcluster.report.study.file import Picture, Study
from flcluster.report.study.groups import groups_figure
from flcluster.report.study.values import Runs, over_seeds
from flcluster.report.style import hue, legend, panels, shade, tidy
from flcluster.report.summaries import mean_std

Curve = tuple[np.ndarray, np.ndarray]


Style = tuple[str, Literal["-", "--"]]
"""A line's colour and pattern."""


def draw(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw one figure of a study from the runs that are there."""
    kinds = {"lines": lines_figure, "difference": difference_figure, "sizes": sizes_figure, "bars": bars_figure}
    kinds |= {"against": against_figure}
    return kinds[picture.kind](study, picture, runs)


def styles(study: Study) -> dict[str, Style]:
    """Give every variant its colour in all figures of a study.

    Pairs of a variant and a baseline of its own share a colour, the baseline dashed; one common target is black.
    """
    target, names = study.target, list(study.variants)
    pairs = target.baselines if target is not None else {}
    if len(set(pairs.values())) == len(pairs) and not set(pairs) & set(pairs.values()):
        names = [name for name in names if name not in pairs]
    black = target.variant if target is not None and not pairs else None
    inks = iter(hue(i) for i in range(len(names)))
    found: dict[str, Style] = {name: ("#000000" if name == black else next(inks), "-") for name in names}
    for variant, baseline in pairs.items():
        if variant not in found:
            ink = found[baseline][0]
            found |= {variant: (ink, "-"), baseline: (ink, "--")}
    return found


def common(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Bring curves over the same range to the same places: ``[places]`` and ``[curves, places]``, linear in between."""
    if all(np.array_equal(x, curves[0][0]) for x, _ in curves):
        return curves[0][0], np.stack([y for _, y in curves])
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    places = np.unique(np.concatenate([x for x, _ in curves]))
    places = places[(places >= start) & (places <= end)]
    return places, np.stack([np.interp(places, x, y) for x, y in curves])


def _curves(runs: Runs, variant: str, x: str, y: str) -> list[Curve]:
    found = [points(run, x, y) for run in runs.get(variant, {}).values()]
    return [curve for curve in found if len(curve[0])]


def _axis(picture: Picture, runs: Runs) -> tuple[float, str]:
    """Return the unit and label of the x axis."""
    return time_unit(_all(runs)) if picture.x == "time" else (1.0, label_of(picture.x))


def _all(runs: Runs) -> list[Run]:
    return [run for seeds in runs.values() for run in seeds.values()]


def _chosen(study: Study, picture: Picture, runs: Runs) -> list[str]:
    return [name for name in picture.of or study.variants if name in runs]


def lines_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw each variant's mean over seeds, with a band of one standard deviation; a panel for each column."""
    chosen = _chosen(study, picture, runs)
    drawn = [name for name in chosen if any(_curves(runs, name, picture.x, y) for y in picture.columns)]
    if not drawn:
        return None
    look, (unit, x_label) = styles(study), _axis(picture, runs)
    figure, places = panels(len(picture.columns))
    for axes, y in zip(places, picture.columns, strict=True):
        tidy(axes, "", x_label, label_of(y))
        for name in drawn:
            _line(axes, _curves(runs, name, picture.x, y), unit, look[name], name)
        if picture.target and study.target is not None and y == study.target.y:
            _target_lines(axes, study, picture, runs, drawn, unit)
    figure.suptitle(picture.title or study.title, fontsize=12)
    handles = [_handle(study, picture, runs, name, look[name]) for name in drawn]
    if picture.target:
        handles.append(Line2D([], [], color="0.3", linestyle=":", label="target accuracy"))
    legend(figure, handles)
    return figure


def _line(axes: Axes, curves: Sequence[Curve], unit: float, style: Style, name: str) -> None:
    if not curves:
        return
    x, values = common(curves)
    mean = values.mean(0)
    marker = "o" if len(x) < 3 else None
    axes.plot(x / unit, mean, style[1], color=style[0], label=name, linewidth=1.5, marker=marker)
    if len(values) > 1:
        spread = values.std(0, ddof=1)
        axes.fill_between(x / unit, mean - spread, mean + spread, color=style[0], alpha=0.18, linewidth=0)


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
    scale, points_unit = (100.0, " (percentage points)") if "acc" in y else (1.0, "")
    unit, x_label = _axis(picture, runs)
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    title = f"{picture.title or study.title}\n{first} − {second}"
    tidy(axes, title, x_label, f"difference in\n{label_of(y)}{points_unit}")
    axes.axhline(0, color="0.3", linewidth=1)
    _line(axes, [(x, scale * gap) for x, gap in gaps], unit, (shade(0), "-"), f"{first} − {second}")
    return figure


def _gap(first: Curve, second: Curve) -> Curve:
    x, (a, b) = common([first, second])
    return x, a - b


def sizes_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Stack the clusters' sizes over rounds, a panel for each variant (its first seed)."""
    first = {name: runs[name][min(runs[name])] for name in _chosen(study, picture, runs)}
    chosen = {name: run for name, run in first.items() if len(cluster_sizes(run)[0])}
    if not chosen:
        return None
    wide = len(chosen) if len(chosen) < 4 else math.ceil(len(chosen) / math.ceil(len(chosen) / 3))
    tall = math.ceil(len(chosen) / wide)
    figure = Figure(figsize=(4.6 * wide + 0.4, 3.2 * tall + 0.6), layout="constrained")
    for at, (name, run) in enumerate(chosen.items(), start=1):
        draw_sizes(figure.add_subplot(tall, wide, at), run, name)
    note = "each colour a cluster, numbered anew at a re-clustering (dotted line)"
    figure.suptitle(f"{picture.title or study.title}\n{note}", fontsize=11)
    return figure


def bars_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw one column of the table as bars, one a variant, with a standard deviation over seeds."""
    if picture.groups:
        return groups_figure(study, picture, runs)
    (y,) = picture.columns
    values = {name: mean_std(over_seeds(study, runs, name, y)) for name in _chosen(study, picture, runs)}
    values = {name: pair for name, pair in values.items() if math.isfinite(pair[0])}
    if not values:
        return None
    look = styles(study)
    figure = Figure(figsize=(max(5.0, 1.5 + 0.8 * len(values)), 4.4), layout="constrained")
    axes = figure.subplots()
    tidy(axes, picture.title or study.title, "", label_of(y))
    for at, (name, (mean, std)) in enumerate(values.items()):
        ink, pattern = look[name]
        error = std if math.isfinite(std) else None
        bar = axes.bar(at, mean, 0.8, color=ink, alpha=0.5 if pattern == "--" else 0.9, yerr=error, capsize=3)
        axes.bar_label(bar, fmt="%.3g", fontsize=8)
    long = max(map(len, values)) > 8
    axes.set_xticks(range(len(values)), list(values), rotation=30 if long else 0, ha="right" if long else "center")
    axes.margins(y=0.12)
    return figure
