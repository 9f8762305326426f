"""Means as bars, with a deviation over seeds: the one way in which reports and studies draw them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from flcluster.report.style import legend, tidy

Values = Mapping[str, tuple[float, float]]
"""Name of a bar -> mean and standard deviation."""


@dataclass(frozen=True)
class Bars:
    """One panel: bars in groups, those of one name in one colour."""

    title: str
    label: str
    """Of the axis."""
    groups: Mapping[str, Values]
    """What stands below a group -> its bars; what is not finite is left out."""
    marks: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """Who says so -> group -> bar -> a number to mark beside ours."""

    @property
    def known(self) -> dict[str, Values]:
        """The groups without bars that have no height, and without groups that have no bars."""
        found = {g: {n: v for n, v in bars.items() if math.isfinite(v[0])} for g, bars in self.groups.items()}
        return {group: bars for group, bars in found.items() if bars}

    @property
    def is_plain(self) -> bool:
        """Whether every bar is a group of its own, so that its name stands below it."""
        return all(list(bars) == [group] for group, bars in self.groups.items())


def bars_figure(panels: Sequence[Bars], inks: Mapping[str, str], faint: Collection[str] = ()) -> Figure | None:
    """Draw panels that have bars; bars of some names are faint. None if there is nothing to draw."""
    kept = [panel for panel in panels if panel.known]
    if not kept:
        return None
    slots = max(sum(len(bars) + 1 for bars in panel.groups.values()) for panel in kept)
    width = max(5.0, 1.5 + 0.45 * slots)
    rows, columns = (1, len(kept)) if width < 9 else (len(kept), 1)
    figure = Figure(figsize=(width * columns, 3.8 * rows + 0.6), layout="constrained")
    for axes, panel in zip(figure.subplots(rows, columns, squeeze=False).flat, kept, strict=True):
        tidy(axes, panel.title, "", panel.label)
        _draw(axes, panel, inks, faint)
    named = dict.fromkeys(n for panel in kept if not panel.is_plain for bars in panel.known.values() for n in bars)
    papers = dict.fromkeys(paper for panel in kept for paper in panel.marks)
    handles = [Patch(color=inks[name], label=name or "all") for name in inks if name in named]
    marks = [Line2D([], [], color="black", marker="_", markersize=12, linestyle="", label=p) for p in papers]
    if handles or marks:
        legend(figure, [*handles, *marks])
    return figure


def _draw(axes: Axes, panel: Bars, inks: Mapping[str, str], faint: Collection[str]) -> None:
    """Draw one panel: a group's bars side by side, each name at its place among those that the group has."""
    ticks, at = {}, 0.0
    gap = 0.2 if panel.is_plain else 1.2
    for group, bars in panel.groups.items():
        if group not in panel.known:
            continue
        ticks[group] = at + (len(bars) - 1) / 2
        for place, name in enumerate(bars):
            if name in panel.known[group]:
                mean, std = bars[name]
                error = std if math.isfinite(std) else None
                alpha = 0.5 if name in faint else 0.9
                bar = axes.bar(at + place, mean, 0.88, color=inks[name], alpha=alpha, label=name, yerr=error, capsize=3)
                axes.bar_label(bar, fmt="%.3g", fontsize=8, padding=2)
                said = [marks[group][name][0] for marks in panel.marks.values() if name in marks.get(group, {})]
                axes.plot([at + place] * len(said), said, "_", color="black", markersize=12, markeredgewidth=2)
        at += len(bars) + gap
    long = panel.is_plain and max(map(len, ticks)) > 8
    axes.set_xticks(
        list(ticks.values()), list(ticks), rotation=30 if long else 0, ha="right" if long else "center", fontsize=9
    )
    axes.margins(y=0.12)
