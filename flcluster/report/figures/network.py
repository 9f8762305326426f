"""Who was linked with whom and assigned to which cluster, at the start of a run without a server and at its end."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray

from flcluster.clustering.agreement import matched_purity, matching
from flcluster.errors import UserError
from flcluster.records.reader import Run
from flcluster.report.style import legend, shade, tidy
from flcluster.topology.files import Edges, as_edges, read_graphs

Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


GREY = "0.72"


SIDE = 6.0
"""Width of a panel in inches."""


class Moment(NamedTuple):
    """What is known of every client at one moment, -1 where nothing is."""

    labels: Ints
    """Assigned clusters."""
    truth: Ints
    """True clusters."""


class Place(NamedTuple):
    """Where the clients of one true cluster are drawn: in a disc."""

    cluster: int
    centre: Floats
    radius: float


def network_figure(run: Run) -> Figure | None:
    """Draw both moments, clients grouped by their true cluster; None for a run without a graph or assignments."""
    if not has_network(run):
        return None
    start, end = moments(run)
    graphs = read_network(run, len(end.labels))
    positions, places = grouped(end.truth)
    partners = with_partners(start, end)
    wide, tall = _extent(places)
    figure = Figure(figsize=(2 * SIDE, SIDE * tall / wide + 1.3), layout="constrained")
    for axes, name, moment, graph in zip(figure.subplots(1, 2), ("start", "end"), (start, end), graphs, strict=True):
        tidy(axes, f"{name}: {panel_title(moment, *graph)}", "", "")
        _discs(axes, places)
        _links(axes, positions, graph[1])
        _dots(axes, positions, moment, partners)
    note = "clients lie in their true cluster, colours are the clusters assigned (matched at the end)"
    figure.suptitle(f"{run.label}: {note}", fontsize=12)
    legend(figure, _handles(start, end, partners))
    return figure


def has_network(run: Run) -> bool:
    """Say whether a run has a graph, and clients that were assigned to clusters."""
    return (run.path / "edges.csv").exists() and bool(np.isfinite(run.clients.get("label", np.empty(0))).any())


def moments(run: Run) -> tuple[Moment, Moment]:
    """Return what each client's first row of ``clients.csv`` tells, and its last; rows without a label do not count."""
    rows = np.flatnonzero(np.isfinite(run.clients["label"]))
    clients, labels = (run.clients[name][rows].astype(np.int64) for name in ("client", "label"))
    truth = _true_clusters(run.clients)[rows]
    n = max(int(run.summary.get("num_clients") or 0), clients.max() + 1)
    start, end = (Moment(np.full(n, -1), np.full(n, -1)) for _ in range(2))
    for moment, order in ((start, slice(None, None, -1)), (end, slice(None))):  # of a client's rows the last one stays
        moment.labels[clients[order]] = labels[order]
        moment.truth[clients[order]] = truth[order]
    return start, end


def _true_clusters(columns: Mapping[str, np.ndarray]) -> Ints:
    """Return the largest part of each row's true mixture, -1 where it is not known."""
    names = sorted((name for name in columns if name.startswith("true_")), key=lambda name: int(name[5:]))
    if not names:
        return np.full(len(columns["label"]), -1)
    shares = np.stack([columns[name] for name in names], axis=1)
    known = np.isfinite(shares).all(axis=1)
    return np.where(known, np.where(known[:, None], shares, 0.0).argmax(axis=1), -1)


def read_network(run: Run, clients: int) -> tuple[tuple[int, Edges], tuple[int, Edges]]:
    """Read the graphs of the first and the last round in a run's ``edges.csv``, with the rounds."""
    try:
        graphs = list(read_graphs(run.path / "edges.csv", clients).items()) or [(0, as_edges([]))]
    except UserError as error:
        raise UserError(f"{error}. Restore the file, or delete it to do without network.png") from error
    return graphs[0], graphs[-1]


def with_partners(start: Moment, end: Moment) -> dict[int, int]:
    """Give each assigned cluster the true cluster, and so the colour, that it is matched with at the end.

    Those without a partner get a number that is left, of true clusters first.
    """
    partners = matching(end.labels, end.truth)
    for label in np.unique(np.concatenate([start.labels, end.labels])).tolist():
        if label >= 0 and label not in partners:
            partners[label] = next(k for k in range(len(partners) + 1) if k not in partners.values())
    return dict(sorted(partners.items(), key=lambda pair: pair[1]))


def grouped(truth: Ints) -> tuple[Floats, list[Place]]:
    """Put the clients of each true cluster into a disc of their own (clients without one, too), discs on a circle."""
    clusters = sorted(np.unique(truth).tolist(), key=lambda k: (k < 0, k))
    largest = math.sqrt(max(np.sum(truth == k) for k in clusters)) + 1
    ring = 1.15 * largest / math.sin(math.pi / len(clusters)) if len(clusters) > 1 else 0.0
    positions, places = np.zeros((len(truth), 2)), []
    for at, k in enumerate(clusters):
        angle = math.pi / 2 + (1 - 2 * at) * math.pi / len(clusters)
        centre = ring * np.array([math.cos(angle), math.sin(angle)])
        members = np.flatnonzero(truth == k)
        positions[members] = centre + sunflower(len(members))
        places.append(Place(k, centre, math.sqrt(len(members)) + 1))
    return positions, places


def sunflower(n: int) -> Floats:
    """Spread points evenly over a disc of radius √n, like seeds."""
    at = np.arange(n) + 0.5
    angle = at * math.pi * (3 - math.sqrt(5))
    places: Floats = np.sqrt(at)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return places


def panel_title(moment: Moment, t: int, edges: Edges) -> str:
    """Say how pure the clusters are and how many links there are."""
    purity = matched_purity(*moment)
    known = "" if math.isnan(purity) else f"purity {purity:.2f}, "
    links = "1 link" if len(edges) == 1 else f"{len(edges):,} links"
    return f"{known}{links} (graph of round {t})"


def _extent(places: list[Place]) -> tuple[float, float]:
    """Return half the width and height that the discs take, with room for their names."""
    wide, tall = np.max([np.abs(place.centre) + place.radius for place in places], axis=0).tolist()
    return wide + 0.3, tall + 0.3 + 0.07 * wide  # a name takes 9 points


def _discs(axes: Axes, places: list[Place]) -> None:
    """Draw the discs with their names, and fit the axes to them."""
    wide, tall = _extent(places)
    axes.set(xlim=(-wide, wide), ylim=(-tall, tall), aspect="equal")
    axes.set_axis_off()
    for cluster, (x, y), radius in places:
        ink, name = (shade(cluster), f"true cluster {cluster}") if cluster >= 0 else (GREY, "true cluster unknown")
        axes.add_patch(Circle((x, y), radius, color=ink, alpha=0.13, linewidth=0))
        side, anchor = (-1, "top") if y < -0.1 else (1, "bottom")
        axes.text(x, y + side * (radius + 0.2), name, ha="center", va=anchor, fontsize=9, color=ink)


def _links(axes: Axes, positions: Floats, edges: Edges) -> None:
    faint = min(0.35, 0.01 + 50 / max(len(edges), 1))
    axes.add_collection(LineCollection(list(positions[edges]), colors="0.25", linewidths=0.5, alpha=faint, zorder=2))


def _dots(axes: Axes, positions: Floats, moment: Moment, partners: Mapping[int, int]) -> None:
    """Draw the clients, with a black outline where the assigned cluster is not the true one."""
    assigned = np.array([partners.get(label, -1) for label in moment.labels.tolist()])
    wrong = (assigned >= 0) & (moment.truth >= 0) & (assigned != moment.truth)
    size = min(12.0, 1.1 * SIDE * 72 / (axes.get_xlim()[1] * 2))  # neighbours in a disc are about 1.7 apart
    for which, edge, width in ((~wrong, "white", 0.4), (wrong, "black", 1.2)):
        inks = [shade(k) if k >= 0 else GREY for k in assigned[which].tolist()]
        x, y = positions[which].T
        axes.scatter(x, y, s=size**2, c=inks, edgecolors=edge, linewidths=width, zorder=3)


def _handles(start: Moment, end: Moment, partners: Mapping[int, int]) -> list[Line2D]:
    def dot(ink: str, label: str, edge: str = "white") -> Line2D:
        return Line2D([], [], linestyle="", marker="o", markersize=8, color=ink, markeredgecolor=edge, label=label)

    handles = [dot(shade(k), f"assigned cluster {label}") for label, k in partners.items()]
    if (start.truth >= 0).any():
        handles.append(dot("white", "not its true cluster", "black"))
    return handles + ([dot(GREY, "never took part")] if (end.labels < 0).any() else [])
