"""How accuracy, or another score, went over a run's updates: of clients, of cluster models, on both test sets."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flcluster.records.reader import Run
from flcluster.report.curves import has
from flcluster.report.style import legend, tidy
from flcluster.report.summaries import Groups
from flcluster.score import common_score

Inked = Sequence[tuple[Run, str]]
"""Runs and their methods' colours."""


def accuracy_figure(groups: Groups, inks: Mapping[str, str]) -> Figure | None:
    """Draw one row of two panels for each dataset and K among the runs; None if there is nothing to draw."""
    settings = list(dict.fromkeys(key[:2] for key in groups))
    figure = Figure(figsize=(10, 3.9 * max(len(settings), 1) + 0.6), layout="constrained")
    for i, (dataset, K) in enumerate(settings):
        left, right = (figure.add_subplot(len(settings), 2, 2 * i + j) for j in (1, 2))
        here = [(run, inks[key[2]]) for key, group in groups.items() if key[:2] == (dataset, K) for run in group]
        score = common_score(run.score for run, _ in here).text
        if any(has(run, "acc_global") for run, _ in here):
            _both_tests(left, right, dataset, here, score)
            continue
        tidy(left, f"{dataset}, K = {K}: clients", "updates (server epochs)", f"client {score}")
        tidy(right, f"{dataset}, K = {K}: cluster models", "updates (server epochs)", f"mean cluster {score}")
        for run, ink in here:
            _client_lines(left, run, ink)
            _line(right, run, "cluster_acc", ink)
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
        for run, ink in runs:
            _line(axes, run, name, ink)
            _line(axes, run, f"{name}_dropouts", ink, "--")


def _client_lines(axes: Axes, run: Run, ink: str) -> None:
    """Draw what is known of the clients: all of them if they were measured, else those that uploaded.

    Where no reply parts a before from an after there is one accuracy, and one solid line.
    """
    if _line(axes, run, "client_acc", ink, linewidth=2.2):
        return
    before, after = (run.metrics.get(f"client_acc_{when}", np.empty(0)) for when in ("before", "after"))
    if not _line(axes, run, "client_acc_after", ink):
        _line(axes, run, "client_acc_before", ink)
    elif not np.array_equal(before, after, equal_nan=True):
        _line(axes, run, "client_acc_before", ink, "--")


def _line(axes: Axes, run: Run, column: str, ink: str, style: str = "-", linewidth: float = 1.5) -> bool:
    x = run.metrics["update"]
    y = run.metrics.get(column, np.full(len(x), math.nan))
    if not (known := np.isfinite(x) & np.isfinite(y)).any():
        return False
    marker = "o" if known.sum() < 3 else None
    label = f"{run.label}: {column}"
    axes.plot(x[known], y[known], style, color=ink, marker=marker, label=label, linewidth=linewidth)
    return True
