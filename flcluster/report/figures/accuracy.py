"""How accuracy, or another score, went over a run's updates: of clients, of cluster models, on both test sets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from flcluster.records.reader import Run
from flcluster.report.curves import common, has, points
from flcluster.report.style import band, legend, tidy
from flcluster.report.summaries import Groups
from flcluster.score import common_score

Repeats = Sequence[Run]
"""Runs that differ in their seed: one line, with a band of a standard deviation."""


Inked = Sequence[tuple[Repeats, str]]
"""Repeats and their methods' colours."""


@dataclass(frozen=True)
class Panel:
    """One of the two panels of a dataset and K."""

    title: str
    y: str
    columns: tuple[str, ...]
    """What there must be one of, or the panel is left out."""
    draw: Callable[[Axes, Repeats, str], object]


CLIENTS = ("client_acc", "client_acc_after", "client_acc_before")


def accuracy_figure(groups: Groups, inks: Mapping[str, str]) -> Figure | None:
    """Draw one row of panels for each dataset and K among the runs; None if there is nothing to draw."""
    rows = [(here, panels) for here, panels in _rows(groups, inks) if panels]
    if not rows:
        return None
    wide = max(len(panels) for _, panels in rows)
    figure = Figure(figsize=(10 if wide > 1 else 6.4, 3.9 * len(rows) + 0.6), layout="constrained")
    for i, (here, panels) in enumerate(rows):
        for j, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(len(rows), wide, wide * i + j)
            tidy(axes, panel.title, "updates (server epochs)", panel.y)
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
            axes.title.set_fontsize(10 if "\n" in panel.title else 12)
            for group, ink in here:
                panel.draw(axes, group, ink)
    methods = dict.fromkeys(key[2] for key in groups)
    handles = [Line2D([], [], color=inks[method], linewidth=2, label=method) for method in methods]
    drawn = {str(line.get_label()).rpartition(" ")[2] for axes in figure.axes for line in axes.lines}
    legend(figure, [*handles, *_patterns(drawn)])
    return figure


def _rows(groups: Groups, inks: Mapping[str, str]) -> Iterator[tuple[Inked, list[Panel]]]:
    """Yield the runs of each dataset and K, and the panels that they have something for."""
    for dataset, K in dict.fromkeys(key[:2] for key in groups):
        here = [(group, inks[key[2]]) for key, group in groups.items() if key[:2] == (dataset, K)]
        runs = [run for group, _ in here for run in group]
        score = common_score(run.score for run in runs).text
        panels = _both_tests(dataset, score)
        if not any(has(run, "acc_global") for run in runs):
            panels = [
                Panel(f"{dataset}, K = {K}: clients", f"client {score}", CLIENTS, _client_lines),
                Panel(f"{dataset}, K = {K}: cluster models", f"mean cluster {score}", ("cluster_acc",), _cluster_line),
            ]
        yield here, [each for each in panels if any(has(run, column) for run in runs for column in each.columns)]


def _patterns(drawn: set[str]) -> list[Line2D]:
    """Explain the lines' patterns by the columns that were drawn."""
    grey = partial(Line2D, [], [], color="0.4")
    handles = [grey(linewidth=2.2, label="mean over all clients")] if "client_acc" in drawn else []
    if {"acc_local_dropouts", "acc_global_dropouts"} & drawn:
        handles += [grey(linestyle="-", label="clients that stay"), grey(linestyle="--", label="dropouts")]
    if {"client_acc_after", "client_acc_before"} & drawn or not {"client_acc", "acc_global"} & drawn:
        handles += [grey(linestyle="-", label="client after"), grey(linestyle="--", label="client before")]
    return handles


def _both_tests(dataset: str, score: str) -> list[Panel]:
    """Say how good clients' models are on their own test data and on all classes alike, dropouts' dashed."""

    def lines(axes: Axes, group: Repeats, ink: str, name: str) -> None:
        _line(axes, group, name, ink)
        _line(axes, group, f"{name}_dropouts", ink, "--")

    return [
        Panel(f"{dataset}\n{where}", f"mean {score}", (name, f"{name}_dropouts"), partial(lines, name=name))
        for name, where in (("acc_local", "clients' own test data"), ("acc_global", "global test set"))
    ]


def _cluster_line(axes: Axes, group: Repeats, ink: str) -> None:
    _line(axes, group, "cluster_acc", ink)


def _client_lines(axes: Axes, group: Repeats, ink: str) -> None:
    """Draw what is known of the clients: all of them if they were measured, else those that uploaded.

    Where no reply parts a before from an after there is one accuracy, and one solid line.
    """
    if _line(axes, group, "client_acc", ink, linewidth=2.2):
        return
    if not _line(axes, group, "client_acc_after", ink):
        _line(axes, group, "client_acc_before", ink)
    elif any(_parted(run) for run in group):
        _line(axes, group, "client_acc_before", ink, "--")


def _parted(run: Run) -> bool:
    before, after = (run.metrics.get(f"client_acc_{when}", np.empty(0)) for when in ("before", "after"))
    return not np.array_equal(before, after, equal_nan=True)


def _line(axes: Axes, group: Repeats, column: str, ink: str, style: str = "-", linewidth: float = 1.5) -> bool:
    curves = [points(run, "update", column) for run in group]
    if not (curves := [curve for curve in curves if len(curve[0])]):
        return False
    x, values = common(curves)
    if not len(x):
        return False
    marker = "o" if len(x) < 3 else None
    label = f"{group[0].label}: {column}"
    axes.plot(x, values.mean(0), style, color=ink, marker=marker, label=label, linewidth=linewidth)
    band(axes, x, values, ink)
    return True
