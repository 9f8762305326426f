"""How accuracy, or another score, went over a run's updates: of clients, of cluster models, on both test sets."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Panel:
    """One of the two panels of a dataset and K."""

    title: str
    y: str
    columns: tuple[str, ...]
    """What there must be one of, or the panel is left out."""
    draw: Callable[[Axes, Run, str], object]


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
            axes.title.set_fontsize(10 if "\n" in panel.title else 12)
            for run, ink in here:
                panel.draw(axes, run, ink)
    methods = dict.fromkeys(key[2] for key in groups)
    handles = [Line2D([], [], color=inks[method], linewidth=2, label=method) for method in methods]
    drawn = {str(line.get_label()).rpartition(" ")[2] for axes in figure.axes for line in axes.lines}
    legend(figure, [*handles, *_patterns(drawn)])
    return figure


def _rows(groups: Groups, inks: Mapping[str, str]) -> Iterator[tuple[Inked, list[Panel]]]:
    """Yield the runs of each dataset and K, and the panels that they have something for."""
    for dataset, K in dict.fromkeys(key[:2] for key in groups):
        here = [(run, inks[key[2]]) for key, group in groups.items() if key[:2] == (dataset, K) for run in group]
        score = common_score(run.score for run, _ in here).text
        panels = _both_tests(dataset, score)
        if not any(has(run, "acc_global") for run, _ in here):
            panels = [
                Panel(f"{dataset}, K = {K}: clients", f"client {score}", CLIENTS, _client_lines),
                Panel(f"{dataset}, K = {K}: cluster models", f"mean cluster {score}", ("cluster_acc",), _cluster_line),
            ]
        yield here, [each for each in panels if any(has(run, column) for run, _ in here for column in each.columns)]


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

    def lines(axes: Axes, run: Run, ink: str, name: str) -> None:
        _line(axes, run, name, ink)
        _line(axes, run, f"{name}_dropouts", ink, "--")

    return [
        Panel(f"{dataset}\n{where}", f"mean {score}", (name, f"{name}_dropouts"), partial(lines, name=name))
        for name, where in (("acc_local", "clients' own test data"), ("acc_global", "global test set"))
    ]


def _cluster_line(axes: Axes, run: Run, ink: str) -> None:
    _line(axes, run, "cluster_acc", ink)


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
