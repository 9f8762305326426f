"""The largest distance within a cluster: is any pair further apart than a limit? Exact, without a pairwise matrix.

Most questions are settled at once: by the largest possible distance, by the two largest distances from the centre, or
by a pair found on a sweep (the farthest point from the centre, the farthest from that, …). For the rest one matrix
product per tile bounds all its distances from above, and only pairs that the bound leaves open are computed.
"""

from collections.abc import Iterator

import numpy as np

from flcluster.clustering.distances import Distance
from flcluster.clustering.points import Labels, Points
from flcluster.seeds import rng

TOLERANCE = 1e-6
"""How far beyond a limit counts as beyond: single precision tells no smaller difference."""


_SWEEPS = 4


_TILE, _CELLS = 2048, 2**24  # points whose features are held, and the most cells these may have


_STRIP = 256  # of them compared at a time


_PAIRS = 2**14  # open pairs computed at a time


def any_pair_beyond(points: Points, labels: Labels, limit: float, distance: Distance) -> bool:
    """Return whether two points of one cluster are further apart than the limit (by more than `TOLERANCE`)."""
    if limit + TOLERANCE >= distance.maximum:
        return False
    metric, limit = distance.metric, _root(limit, distance.power)
    clusters = [points[index] for index in _clusters(labels)]
    return any(_sweep(x, metric) > limit + TOLERANCE for x in clusters) or any(
        _search(x, limit, metric, first=True) > limit for x in clusters
    )


def max_pair_distance(points: Points, labels: Labels, distance: Distance) -> float:
    """Return the largest distance of two points of one cluster, 0 if all are alone; exact to `TOLERANCE`."""
    metric, clusters = distance.metric, [points[index] for index in _clusters(labels)]
    best = max([_sweep(x, metric) for x in clusters], default=0.0)
    for x in clusters:
        if best < metric.maximum - TOLERANCE:
            best = _search(x, best, metric, first=False)
    return best**distance.power


def pair_sample(points: Points, labels: Labels, distance: Distance, count: int, seed: int, event: int = 0) -> Points:
    """Return the distances of ``count`` pairs drawn evenly from all same-cluster pairs; of all if there are fewer."""
    clusters = _clusters(labels)
    sizes = np.array([len(index) for index in clusters], dtype=np.int64)
    pairs = sizes * (sizes - 1) // 2
    if pairs.sum() <= count:
        picks = [(index[i], index[j]) for index in clusters for i, j in [np.triu_indices(len(index), 1)]]
    else:
        draw = rng(seed, "pairs", event)
        picks = []
        for index, many in zip(clusters, draw.multinomial(count, pairs / pairs.sum()), strict=True):
            i, step = draw.integers(len(index), size=many), draw.integers(1, len(index), size=many)
            picks.append((index[i], index[(i + step) % len(index)]))
    left, right = (np.concatenate([np.zeros(0, np.int64), *(pick[side] for pick in picks)]) for side in (0, 1))
    return distance.paired(points[left], points[right])


def _clusters(labels: Labels) -> list[Labels]:
    """Return the members of every cluster that has at least two."""
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    return [index for index in np.split(order, cuts) if len(index) > 1]


def _root(limit: float, power: int) -> float:
    return limit if power == 1 or limit <= 0 else float(limit ** (1 / power))


def _sweep(points: Points, metric: Distance) -> float:
    """Return a large distance within one cluster: go from the centre to the farthest point, from there on, …"""
    at, best = points.mean(0, keepdims=True), -1.0
    for step in range(_SWEEPS):
        away = metric.between(points, at)[:, 0]
        farthest = int(away.argmax())
        if step and away[farthest] <= best:
            break
        best = float(away[farthest]) if step else best
        at = points[farthest : farthest + 1]
    return best


def _search(points: Points, limit: float, metric: Distance, first: bool) -> float:
    """Return the largest distance within one cluster, or the limit if none is beyond; ``first``: any beyond will do."""
    radii = metric.between(points, points.mean(0, keepdims=True))[:, 0]
    order = np.argsort(-radii, kind="stable")
    points, radii = points[order], radii[order]
    if radii[:2].sum() <= limit:
        return limit
    best = limit
    for x, y, bound in _tiles(points, radii, limit, metric):
        best = _search_tile(x, y, bound, best, metric, first)
        if first and best > limit:
            break
    return best


def _tiles(points: Points, radii: Points, limit: float, metric: Distance) -> Iterator[tuple[Points, Points, Points]]:
    """Yield two groups of points and bounds of the powers of their distances, for all pairs that may be beyond.

    The points come by falling distance from the centre; pairs whose two distances sum to the limit or less fall away.
    """
    sketch, size = metric.sketch(points), int(np.clip(_CELLS // (16 * max(1, points.shape[1])), 64, _TILE))
    for row in range(0, len(points), size):
        x = points[row : row + size]
        left = sketch(x)
        for column in range(row, _end(radii, row, limit), size):
            y = points[column : column + size]
            rows, columns = _factors(left, left if column == row else sketch(y))
            for at in range(0, len(x), _STRIP):
                i, j = slice(at, at + _STRIP), slice(at if column == row else 0, _end(radii, row + at, limit) - column)
                if j.stop > j.start:
                    yield x[i], y[j], rows[i] @ columns[j].T


def _factors(left: tuple[Points, Points], right: tuple[Points, Points]) -> tuple[Points, Points]:
    """Return two matrices whose product is mass + mass − features·features, plus what float32 may round off."""
    (mass, features), (other, others) = left, right
    slack = 1e-5 * (1 + mass.max() + other.max())
    rows = np.column_stack([-features, mass + slack, np.ones_like(mass)])
    return rows, np.column_stack([others, np.ones_like(other), other])


def _end(radii: Points, row: int, limit: float) -> int:
    """Return how many points are so far from the centre that, with this row's distance, they pass the limit."""
    return int(np.searchsorted(-radii, radii[row] - limit, side="left"))


def _search_tile(x: Points, y: Points, bound: Points, limit: float, metric: Distance, first: bool) -> float:
    """Do what `_search` does for the distances between two groups of points."""
    power = max(limit, 0.0) ** metric.order
    if bound.max() <= power:
        return limit
    open_pairs = bound > power
    if 8 * np.count_nonzero(open_pairs) > bound.size:  # computing the whole block is cheaper than picking pairs
        return _larger(limit, metric.between(x, y))
    i, j = np.nonzero(open_pairs)
    best = limit
    for at in range(0, len(i), _PAIRS):
        some = slice(at, at + _PAIRS)
        best = _larger(best, metric.paired(x[i[some]], y[j[some]]))
        if first and best > limit:
            break
    return best


def _larger(limit: float, distances: Points) -> float:
    """Return the largest distance if it is beyond the limit, else the limit."""
    largest = float(distances.max())
    return largest if largest > limit + TOLERANCE else limit
