"""How accuracy, or another score, went over a run's updates: of clients, of cluster models, on both test sets."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flcluster.records.reader import Run
from flcluster.report.curves import common, has, points
from flcluster.report.style import band, legend, tidy
from flcluster.report.summaries import Groups
from flcluster.score import common_score

Repeats = Sequence[Run]
"""Runs that differ in their seed: one line, with a band of a standard deviation."""


Inked = Sequence[tuple[Repeats, str]]
"""Repeats and their methods' colours."""


def accuracy_figure(groups: Groups, inks: Mapping[str, str]) -> Figure | None:
    """Draw one row of two panels for each dataset and K among the runs; None if there is nothing to draw."""
    settings = list(dict.fromkeys(key[:2] for key in groups))
    figure = Figure(figsize=(10, 3.9 * max(len(settings), 1) + 0.6), layout="constrained")
    for i, (dataset, K) in enumerate(settings):
        left, right = (figure.add_subplot(len(settings), 2, 2 * i + j) for j in (1, 2))
        here = [(group, inks[key[2]]) for key, group in groups.items() if key[:2] == (dataset, K)]
        score = common_score(run.score for group, _ in here for run in group).text
        if any(has(run, "acc_global") for group, _ in here for run in group):
            _both_tests(left, right, dataset, here, score)
            continue
        tidy(left, f"{dataset}, K = {K}: clients", "updates (server epochs)", f"client {score}")
        tidy(right, f"{dataset}, K = {K}: cluster models", "updates (server epochs)", f"mean cluster {score}")
        for group, ink in here:
            _client_lines(left, group, ink)
            _line(right, group, "cluster_acc", ink)
        if not right.lines:
            right.text(0.5, 0.5, "no cluster models", transform=right.transAxes, ha="center", color="0.4")
            right.set(xticks=[], yticks=[])
    methods = dict.fromkeys(key[2] for key in groups)
    handles = [Line2D([], [], color=inks[method], linewidth=2, label=method) for method in methods]
    drawn = {str(line.get_label()).rpartition(" ")[2] for axes in figure.axes for line in axes.lines}
    legend(figure, [*handles, *_patterns(drawn)])
    return figure if drawn else None


def _patterns(drawn: set[str]) -> list[Line2D]:
    """Explain the lines' patterns by the columns that were drawn."""
    grey = partial(Line2D, [], [], color="0.4")
    handles = [grey(linewidth=2.2, label="mean over all clients")] if "client_acc" in drawn else []
    if {"acc_local_dropouts", "acc_global_dropouts"} & drawn:
        handles += [grey(linestyle="-", label="clients that stay"), grey(linestyle="--", label="dropouts")]
    if {"client_acc_after", "client_acc_before"} & drawn or not {"client_acc", "acc_global"} & drawn:
        handles += [grey(linestyle="-", label="client after"), grey(linestyle="--", label="client before")]
    return handles


def _both_tests(left: Axes, right: Axes, dataset: str, runs: Inked, score: str) -> None:
    """Draw how good clients' models are on their own test data and on all classes alike, dropouts' dashed."""
    for axes, name, where in ((left, "acc_local", "clients' own test data"), (right, "acc_global", "global test set")):
        tidy(axes, f"{dataset}\n{where}", "updates (server epochs)", f"mean {score}")
        axes.title.set_fontsize(10)
        for group, ink in runs:
            _line(axes, group, name, ink)
            _line(axes, group, f"{name}_dropouts", ink, "--")


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
