"""A picture of who holds what: samples per client and cluster, classes per client, one image per cluster.

Of data with one cluster it is a picture of counts by client and class.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from flcluster.data import FederatedDataModule, Shard, labels_of
from flcluster.files import replacing
from flcluster.report.style import shade

from .counts import draw_counts


def draw_clients(data: FederatedDataModule, path: str | Path, cycle: int = 0, max_clients: int = 120) -> Path:
    """Write a PNG of what each client holds in a cycle and return its path.

    With one cluster there is nothing to tell of clusters: it is a picture of counts by class, ``draw_counts``.

    Args:
        data: Any federated datamodule, set up.
        path: The PNG file to write.
        cycle: The cycle to draw.
        max_clients: With more clients than this, only the first ones are shown.
    """
    if data.num_clusters == 1:
        return draw_counts(data, path, cycle, max_clients)
    shown = min(data.num_clients, max_clients)
    shards = [data.shard(client, cycle) for client in range(shown)]
    width = min(7 + 0.09 * shown, 18)
    figure = Figure(figsize=(width, 7.5), layout="constrained")
    columns: Any = figure.subfigures(1, 2, width_ratios=[width - 1.6, 1.6])
    panels, samples = columns
    above, below = panels.subplots(2, 1, sharex=True, height_ratios=[1.2, 1])
    colours = [shade(k) for k in range(data.num_clusters)]
    _draw_counts(above, cluster_counts(shards), colours)
    _draw_classes(panels, below, class_shares(shards, data.num_classes))
    _draw_samples(samples, data, colours)
    more = f", first {shown} of {data.num_clients} clients" if shown < data.num_clients else f", {shown} clients"
    figure.suptitle(f"{data.name}: {data.num_clusters} clusters{more}, cycle {cycle}", fontsize=12)
    return _save(figure, Path(path))


def cluster_counts(shards: list[Shard]) -> np.ndarray:
    """Return training samples per client and cluster, ``[clients, clusters]``."""
    return np.stack([np.rint(shard.mixture.double().numpy() * len(shard.train)) for shard in shards]).astype(np.int64)


def class_shares(shards: list[Shard], num_classes: int) -> np.ndarray:
    """Return the share of each class among a client's training samples, ``[clients, classes]``."""
    counts = np.stack([np.bincount(labels_of(shard.train), minlength=num_classes) for shard in shards])
    shares: np.ndarray = counts / counts.sum(1, keepdims=True)
    return shares


def _draw_counts(axes: Axes, counts: np.ndarray, colours: list[str]) -> None:
    clients, bottom = np.arange(len(counts)), np.zeros(len(counts))
    for cluster, colour in enumerate(colours):
        axes.bar(clients, counts[:, cluster], 0.85, bottom, color=colour, label=f"cluster {cluster}", linewidth=0)
        bottom += counts[:, cluster]
    axes.set_ylabel("training samples")
    axes.set_ylim(0, bottom.max() * 1.02)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=min(len(colours), 8), loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=9)


def _draw_classes(figure: Any, axes: Axes, shares: np.ndarray) -> None:
    image = axes.imshow(shares.T, aspect="auto", cmap="viridis", interpolation="nearest", vmin=0)
    figure.colorbar(image, ax=axes, label="share of a client's samples", pad=0.01)
    axes.set(xlabel="client", ylabel="class", xlim=(-0.6, len(shares) - 0.4))
    for axis, ticks in ((axes.xaxis, 24), (axes.yaxis, 10)):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=ticks, steps=[1, 2, 5, 10]))


def _draw_samples(figure: Any, data: FederatedDataModule, colours: list[str]) -> None:
    """Show the first evaluation image of every cluster (data that are no images: nothing)."""
    if len(data.input_shape) != 3 or data.input_shape[0] not in (1, 3):
        return
    shown = min(data.num_clusters, 10)
    grid = np.atleast_1d(figure.subplots(shown, 1))
    for cluster, axes in enumerate(grid):
        source, index = data.cluster_test(cluster).parts[0]
        x = source.take(index[:1])[0][0].permute(1, 2, 0)
        low, high = x.amin((0, 1)), x.amax((0, 1))
        axes.imshow(((x - low) / (high - low).clamp_min(1e-6)).squeeze(-1).numpy(), cmap="gray")
        axes.set_title(f"cluster {cluster}", color=colours[cluster], fontsize=9, fontweight="bold")
        axes.set_axis_off()


def _save(figure: Figure, path: Path) -> Path:
    with replacing(path) as draft:
        figure.savefig(draft, format="png", dpi=110)
    return path
