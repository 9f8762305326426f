"""A picture of a stream: which labels are held over time, by all clients together and by some of them."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from flcluster.datamodules.sources.counts import Ints
from flcluster.datamodules.streams.module import StreamDataModule
from flcluster.files import replacing
from flcluster.report.style import shade

MAX_STACKED = 13
"""With more classes than this, shares are shown as a heat map instead of stacked areas."""


Floats = NDArray[np.float64]


def draw_stream(data: StreamDataModule, path: str | Path, clients: int = 4, until: int | None = None) -> Path:
    """Write a PNG of a stream and return its path.

    From above: the shares of labels among all training samples held, how many a client holds and how many clients
    each event changes, and the shares of single clients. Grey lines are events.

    Args:
        data: A stream.
        path: The PNG file to write.
        clients: How many single clients to show, spread evenly over all.
        until: The last round to draw; a little after the last event if not given.
    """
    events = data.events if until is None else data.events[data.events <= until]
    end = _end(events, data.window) if until is None else until
    rounds = np.concatenate([[0], events])
    shown = np.unique(np.linspace(0, data.num_clients - 1, min(clients, data.num_clients)).astype(np.int64))
    everyone, single, sizes = held_labels(data, rounds, shown)
    figure = Figure(figsize=(11, 4.6 + 1.3 * len(shown)), layout="constrained")
    panels: Any = figure.subplots(2 + len(shown), 1, sharex=True, height_ratios=[2.2, 1.2, *[1] * len(shown)])
    _draw_shares(figure, panels[0], rounds, everyone, end, "all clients", legend=True)
    _draw_sizes(panels[1], rounds, sizes, [len(data.drifted(int(event))) / data.num_clients for event in events], end)
    for axes, client, counts in zip(panels[2:], shown, single, strict=True):
        _draw_shares(figure, axes, rounds, counts, end, f"client {client}")
    for axes in panels:
        axes.vlines(events, 0, 1, transform=axes.get_xaxis_transform(), color="0.25", lw=0.6, alpha=_alpha(events))
        axes.set_xlim(0, end)
    panels[-1].set_xlabel("round")
    held = "everything, always" if data.static else f"the last {data.window} rounds"
    figure.suptitle(f"{data.name}: {data.num_clients} clients, {len(events)} events, clients hold {held}", fontsize=12)
    with replacing(Path(path)) as draft:
        figure.savefig(draft, format="png", dpi=110)
    return Path(path)


def held_labels(data: StreamDataModule, rounds: Ints, clients: Ints) -> tuple[Ints, Ints, Floats]:
    """Return what is held at some rounds.

    That is the labels of all clients together ``[rounds, classes]``, of some clients ``[clients, rounds, classes]``,
    and the 10th, 50th and 90th percentile of a client's training samples ``[3, rounds]``.
    """
    together, single, sizes = [], [], []
    for cycle in rounds.tolist():
        counts = data.label_counts(np.arange(data.num_clients), cycle)
        together.append(counts.sum(axis=0))
        single.append(counts[clients])
        sizes.append(np.percentile(data.sizes(cycle), [10, 50, 90]))
    return np.stack(together), np.stack(single, axis=1), np.stack(sizes, axis=1)


def _draw_shares(
    figure: Figure, axes: Axes, rounds: Ints, counts: Ints, end: int, title: str, legend: bool = False
) -> None:
    """Draw shares of labels over time: stacked, or as a heat map where there are many."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    classes = shares.shape[1]
    edges = np.append(rounds, end)
    if classes > MAX_STACKED:
        mesh = axes.pcolormesh(edges, np.arange(classes + 1), shares.T, cmap="magma_r", vmin=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        figure.colorbar(mesh, ax=axes, pad=0.01, format=PercentFormatter(1))
    else:
        colours = [shade(label) for label in range(classes)]
        areas = axes.stackplot(edges, np.vstack([shares, shares[-1:]]).T, step="post", colors=colours)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if legend:
            names = [str(label) for label in reversed(range(classes))]
            figure.legend(areas[::-1], names, title="label", loc="outside right upper", frameon=False)
    axes.set_ylabel(title)


def _draw_sizes(axes: Axes, rounds: Ints, sizes: Floats, drifted: list[float], end: int) -> None:
    """Draw how many samples clients hold, and over it the share of clients that each event changes."""
    edges, (low, middle, high) = np.append(rounds, end), np.column_stack([sizes, sizes[:, -1]])
    axes.fill_between(edges, low, high, step="post", color=shade(0), alpha=0.25, lw=0, label="10 % to 90 % of clients")
    axes.step(edges, middle, where="post", color=shade(0), label="median client")
    axes.set_ylim(0, max(float(high.max()), 1) * 1.15)
    axes.set_ylabel("training\nsamples")
    other = axes.twinx()
    other.plot(rounds[1:], drifted, "o", color=shade(1), ms=4 if len(drifted) < 100 else 2, label="clients changed")
    other.set_ylim(0, 1.15)
    other.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles = [*axes.get_legend_handles_labels()[0], *other.get_legend_handles_labels()[0]]
    axes.legend(handles=handles, ncols=3, fontsize=8, loc="upper right", frameon=False, bbox_to_anchor=(1, 1.28))


def _end(events: Ints, window: int) -> int:
    """Return the round to draw up to: as long after the last event as it came after the one before."""
    if not len(events):
        return window
    return int(events[-1] + (events[-1] - events[-2] if len(events) > 1 else window))


def _alpha(events: Ints) -> float:
    return min(0.7, 15 / max(len(events), 1))
