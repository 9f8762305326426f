"""A picture of label skew: how many samples of each class each client holds, dropouts marked."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from numpy.typing import NDArray

from flcluster.data import FederatedDataModule
from flcluster.datamodules.sources.counts import Ints
from flcluster.files import replacing
from flcluster.report.style import OKABE_ITO

STAYS, DROPS = OKABE_ITO[:2]


MOST_BUBBLES = 40
"""With more clients or classes than this, counts are colours instead of areas, and classes go by their numbers."""


def draw_counts(data: FederatedDataModule, path: str | Path, cycle: int = 0, max_clients: int = 120) -> Path:
    """Write a PNG of counts by client and class and return its path.

    Above are the sizes of clients, on the right those of classes. Dropouts have another colour, so that a class they
    alone hold is seen at once.

    Args:
        data: Any federated datamodule, set up.
        path: The PNG file to write.
        cycle: The cycle to draw.
        max_clients: With more clients than this, only the first ones are shown.
    """
    shown = min(data.num_clients, max_clients)
    counts = data.label_counts(np.arange(shown), cycle)
    drops = np.isin(np.arange(shown), data.dropouts)
    figure = Figure(
        figsize=(_inches(shown, 0.45, 12) + 2.6, _inches(data.num_classes, 0.33, 7) + 2.2), layout="constrained"
    )
    wide, tall = figure.get_size_inches()
    grid: Any = figure.subplots(
        2, 2, sharex="col", sharey="row", width_ratios=[wide - 2.2, 1.4], height_ratios=[1.1, tall - 2.2]
    )
    (above, corner), (middle, right) = grid
    corner.set_axis_off()
    _draw_sizes(above, counts.sum(axis=1), drops)
    _draw_classes(right, counts, drops)
    draw = _draw_bubbles if max(counts.shape) <= MOST_BUBBLES else _draw_colours
    draw(figure, middle, counts, drops)
    _label(middle, shown, list(data.class_names), drops)
    if drops.any():
        handles, labels = above.get_legend_handles_labels()
        corner.legend(handles, labels, loc="center", frameon=False, fontsize=9)
    figure.suptitle(_title(data, shown, int(counts.sum()), cycle), fontsize=11)
    with replacing(Path(path)) as draft:
        figure.savefig(draft, format="png", dpi=110)
    return Path(path)


def _inches(count: int, each: float, most: float) -> float:
    return float(np.clip(each * count, 2.8, most))


def _title(data: FederatedDataModule, shown: int, samples: int, cycle: int) -> str:
    how = f"\n{data.described['partition']}" if "partition" in data.described else ""
    clients = f"{shown} clients" if shown == data.num_clients else f"first {shown} of {data.num_clients} clients"
    when = f", cycle {cycle}" if cycle else ""
    return f"{data.name}: {samples:,} training samples, {clients}{when}{how}"


def _draw_sizes(axes: Axes, sizes: Ints, drops: NDArray[np.bool_]) -> None:
    for chosen, colour, label in ((~drops, STAYS, "stays"), (drops, DROPS, "drops out")):
        axes.bar(np.flatnonzero(chosen), sizes[chosen], 0.8, color=colour, linewidth=0, label=label)
    axes.set_ylabel("samples")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelbottom=False)


def _draw_classes(axes: Axes, counts: Ints, drops: NDArray[np.bool_]) -> None:
    classes, stays = np.arange(counts.shape[1]), counts[~drops].sum(axis=0)
    thick = 0.8 if len(classes) <= MOST_BUBBLES else 1.0
    axes.barh(classes, stays, thick, color=STAYS, linewidth=0)
    axes.barh(classes, counts[drops].sum(axis=0), thick, stays, color=DROPS, linewidth=0)
    axes.set_xlabel("samples")
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelleft=False)


def _draw_bubbles(figure: Figure, axes: Axes, counts: Ints, drops: NDArray[np.bool_]) -> None:
    """Draw areas in proportion to counts, the largest as large as its place allows."""
    client, label = np.nonzero(counts)
    wide, tall = figure.get_size_inches()
    place = 0.85 * 72 * min((wide - 2.6) / counts.shape[0], (tall - 2.2) / counts.shape[1])
    areas = np.maximum(place**2 * counts[client, label] / max(counts.max(), 1), 2)  # one sample can be seen too
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.scatter(client, label, areas, np.where(drops, DROPS, STAYS)[client], linewidths=0)


def _draw_colours(figure: Figure, axes: Axes, counts: Ints, drops: NDArray[np.bool_]) -> None:
    """Draw counts as colours on a logarithmic scale, nothing where there is nothing, and a frame around dropouts."""
    held = np.ma.masked_equal(counts.T, 0)
    low = counts[counts > 0].min(initial=counts.max())
    scale = LogNorm(max(low, 1), max(counts.max(), low + 1, 2))
    image = axes.imshow(held, aspect="auto", cmap="viridis_r", interpolation="nearest", norm=scale)
    ticks = LogLocator(subs=(1.0, 2.0, 5.0))
    bar = figure.colorbar(
        image, ax=axes, label="samples", pad=0.01, location="bottom", aspect=60, ticks=ticks, format="%d"
    )
    bar.minorticks_off()
    for client in np.flatnonzero(drops):
        axes.axvspan(client - 0.5, client + 0.5, facecolor="none", edgecolor=DROPS, linewidth=1.5)


def _label(axes: Axes, clients: int, names: list[str], drops: NDArray[np.bool_]) -> None:
    axes.set(xlabel="client", ylabel="class", xlim=(-0.6, clients - 0.4), ylim=(len(names) - 0.4, -0.6))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=24, steps=[1, 2, 5, 10]))
    if clients <= MOST_BUBBLES:
        axes.set_xticks(range(clients))
        for tick, out in zip(axes.get_xticklabels(), drops, strict=True):
            tick.set(color=DROPS if out else "black", fontweight="bold" if out else "normal")
    if len(names) <= MOST_BUBBLES:
        axes.set_yticks(range(len(names)), names)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=12, steps=[1, 2, 5, 10]))
