"""How well a clustering fits: silhouettes and the mean distance of a client to the others in its cluster.

Under L1 both are exact at any size, without a pairwise matrix: along one coordinate the distances of a point to all
members of a cluster follow from the sorted values' running sums. Other distances are computed in blocks, and beyond a
few thousand points on a seeded sample.
"""

from collections.abc import Sequence

import numpy as np

from flcluster.clustering.distances import L1, Distance, spans
from flcluster.clustering.points import Doubles, Labels, Points
from flcluster.seeds import rng

_EXACT = 2_500  # points up to which other distances than L1 are all computed


_PARTNERS = 500  # members of a larger cluster that stand for all


def silhouette(points: Points, labels: Labels, distance: Distance, seed: int = 0) -> float:
    """Return the mean silhouette of a clustering; see `silhouettes`."""
    return silhouettes(points, [labels], distance, seed)[0]


def silhouettes(points: Points, labellings: Sequence[Labels], distance: Distance, seed: int = 0) -> list[float]:
    """Return the mean silhouette of each clustering: (b − a)/max(a, b), a to a point's own cluster, b to the next.

    Points alone in their cluster score 0, and so does a single cluster. All clusterings share one pass over the
    distances. Under other distances than L1 more than 2,500 points are represented by a sample of so many.
    """
    if not isinstance(distance, L1) and len(points) > _EXACT:
        chosen = np.sort(rng(seed, "silhouette").choice(len(points), _EXACT, replace=False))
        points, labellings = points[chosen], [labels[chosen] for labels in labellings]
    members = [_members(labels) for labels in labellings]
    sums = _sums(points, np.concatenate(members, axis=1), distance)
    cuts = np.cumsum([each.shape[1] for each in members])[:-1]
    return [_score(part, each) for part, each in zip(np.split(sums, cuts, axis=1), members, strict=True)]


def mean_distances(points: Points, labels: Labels, distance: Distance, seed: int = 0) -> Doubles:
    """Return each client's mean distance to the others in its cluster, 0 if it is alone.

    Under other distances than L1 a cluster of more than 2,500 members is represented by 500 of them, drawn by the
    seed, so that its values are estimates.
    """
    out = np.zeros(len(points))
    for cluster in np.unique(labels):
        index = np.flatnonzero(labels == cluster)
        if len(index) > _EXACT and not isinstance(distance, L1):
            partners = np.zeros(len(index), dtype=bool)
            partners[rng(seed, "partners", int(cluster)).choice(len(index), _PARTNERS, replace=False)] = True
        else:
            partners = np.ones(len(index), dtype=bool)
        sums = _sums(points[index], partners[:, None].astype(np.float64), distance)[:, 0]
        out[index] = sums / np.maximum(partners.sum() - partners, 1)  # a point is no partner of its own
    return out


def _members(labels: Labels) -> Doubles:
    """Return the [n, K] indicators of the clusters that have members."""
    found, labels = np.unique(labels, return_inverse=True)
    return np.eye(len(found))[labels]


def _score(sums: Doubles, members: Doubles) -> float:
    """Return the mean silhouette from every point's summed distances to every cluster."""
    sizes, own = members.sum(0), members > 0
    if len(sizes) < 2:
        return 0.0
    size = (members @ sizes).clip(min=1)
    inside = sums[own] / np.maximum(size - 1, 1)
    outside = np.where(own, np.inf, sums / sizes).min(1)
    largest = np.maximum(inside, outside)
    values = np.divide(outside - inside, largest, out=np.zeros_like(largest), where=(largest > 0) & (size > 1))
    return float(values.mean())


def _sums(points: Points, members: Doubles, distance: Distance) -> Doubles:
    """Return [n, C]: the summed distances of every point to the members of every cluster."""
    if isinstance(distance, L1):
        return _sorted_sums(points, members)
    partners = np.flatnonzero(members.any(1))
    others, members = points[partners], members[partners]
    out = np.empty((len(points), members.shape[1]))
    for rows in spans(len(points), len(others), 2**22):
        out[rows] = distance.between(points[rows], others).astype(np.float64) @ members
    return out


def _sorted_sums(points: Points, members: Doubles) -> Doubles:
    """Return what `_sums` does for L1, in O(n log n) a coordinate.

    A point at the smallest value v₀ of a coordinate is Σ(vⱼ − v₀) away from a cluster. Only points above it are
    sorted (few, in histograms), and differ from that by v·(2·before + at v₀ − above) − 2·(sum before), v from v₀ up.
    """
    sizes = members.sum(0)
    base, out = np.zeros(members.shape[1]), np.zeros((len(points), members.shape[1]))
    for column in points.T.astype(np.float64):
        above = column - column.min()
        order = np.flatnonzero(above)
        if not len(order):
            continue
        order = order[np.argsort(above[order], kind="stable")]
        values, inside = above[order, None], members[order]
        before, total = np.cumsum(inside, axis=0), np.cumsum(inside * values, axis=0)
        base += total[-1]
        before *= 2  # in place: these arrays are as large as it gets
        before += sizes - before[-1]
        before *= values
        total *= 2
        before -= total
        out[order] += before
    out += base
    return out
