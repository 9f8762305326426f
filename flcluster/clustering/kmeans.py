"""Clusters of clients: centres, who is nearest to which, and k-means with the number of clusters by silhouette."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from flcluster.clustering.distances import Distance
from flcluster.clustering.points import Labels, Points
from flcluster.clustering.silhouette import silhouettes
from flcluster.errors import UserError, at_least
from flcluster.seeds import rng


@dataclass(frozen=True, eq=False)
class Clustering:
    """Which cluster every client belongs to, and the clusters' centres. No cluster is empty when it is made."""

    labels: Labels
    """[n]"""
    centres: Points
    """[K, D]: the means of the members' representations."""


def centres_of(points: Points, labels: Labels, count: int, before: Points | None = None) -> Points:
    """Return the mean of every cluster's members, [count, D]; an empty one keeps its row of ``before``, or is 0."""
    shape = (count, points.shape[1])
    centres = np.zeros(shape, dtype=np.float32) if before is None else before.astype(np.float32)
    for cluster in range(count):
        members = labels == cluster
        if members.any():
            centres[cluster] = points[members].mean(0, dtype=np.float64)
    return centres


def nearest(points: Points, centres: Points, distance: Distance) -> Labels:
    """Return every point's nearest centre, the first of equally near ones."""
    labels: Labels = distance.between(points, centres).argmin(1).astype(np.int64)
    return labels


def without_empty(labels: Labels, count: int) -> tuple[Labels, Labels]:
    """Number the clusters that have members anew, in order; return the new labels and the old numbers kept."""
    kept = np.flatnonzero(np.bincount(labels, minlength=count))
    return np.searchsorted(kept, labels).astype(np.int64), kept.astype(np.int64)


class Clusterer(ABC):
    """How all clients are put into clusters."""

    @abstractmethod
    def cluster(self, points: Points, distance: Distance, seed: int, event: int) -> Clustering:
        """Cluster the points; the same (seed, event) gives the same clusters."""


@dataclass(frozen=True)
class KMeansBySilhouette(Clusterer):
    """k-means for several numbers of clusters K, of which the best silhouette under the distance wins.

    Centres are means, found by Euclidean Lloyd iterations from seeded k-means++ starts; then every point goes to the
    nearest centre under the distance, empty clusters are dropped and centres recomputed once. There are never more
    clusters than different points: one if all coincide. One K alone (min = max) needs no silhouette.
    """

    min_clusters: int = 2
    """Smallest K tried; 1 may win where every larger K has a negative silhouette."""
    max_clusters: int = 10
    """Largest K tried."""
    n_init: int = 10
    """k-means++ starts per K; the smallest sum of squares counts."""
    sample: int = 10_000
    """Beyond so many points, K and the first centres are found on a random sample of this size."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_clusters <= self.max_clusters:
            raise UserError(
                f"min_clusters {self.min_clusters} and max_clusters {self.max_clusters}: give 1 <= min <= max"
            )
        for name in ("n_init", "sample"):
            at_least(name, getattr(self, name), 1, "clusterer.")

    def cluster(self, points: Points, distance: Distance, seed: int, event: int) -> Clustering:
        """Try every K on the points or a sample of them, and finish the best on all."""
        points = np.ascontiguousarray(points, dtype=np.float32)
        some = points
        if len(points) > self.sample:
            draw = rng(seed, "clustering sample", event)
            some = points[np.sort(draw.choice(len(points), self.sample, replace=False))]
        with threadpool_limits(1):  # threads would add up centres in any order, and results differ by a rounding
            found = self._best(some, distance, seed, event)
            if some is points:
                return found
            full = KMeans(len(found.centres), init=found.centres, n_init=1).fit(points)
        return _finish(points, full.cluster_centers_, distance)

    def _best(self, points: Points, distance: Distance, seed: int, event: int) -> Clustering:
        """Return the clustering with the best silhouette, the one with fewer clusters if two are equal."""
        most = _different(points, self.max_clusters)
        candidates = [
            _finish(points, self._centres(points, count, seed, event), distance)
            for count in range(min(self.min_clusters, most), most + 1)
        ]
        if len(candidates) == 1:
            return candidates[0]
        scores = silhouettes(points, [each.labels for each in candidates], distance, seed)
        return candidates[int(np.argmax(scores))]

    def _centres(self, points: Points, count: int, seed: int, event: int) -> Points:
        """Return the Euclidean k-means centres for one K."""
        draw = rng(seed, "k-means", event, count)

        def start(x: Points, clusters: int, random_state: object) -> Points:
            return plus_plus(x, clusters, draw)

        centres: Points = KMeans(count, init=start, n_init=self.n_init, random_state=0).fit(points).cluster_centers_
        return centres


def plus_plus(points: Points, count: int, draw: np.random.Generator) -> Points:
    """Return k-means++ starts: each next one is drawn by its squared distance, the best of a few draws counts.

    The same as scikit-learn's, which spends most of its time on converting single precision to double.
    """
    trials, norms = 2 + int(np.log(count)), np.einsum("nd,nd->n", points, points)
    chosen = [int(draw.integers(len(points)))]
    left = _squared(points, norms, chosen)[:, 0]
    for _ in range(count - 1):
        steps = np.cumsum(left, dtype=np.float64)
        picks = np.searchsorted(steps, draw.random(trials) * steps[-1], side="right").clip(max=len(points) - 1)
        after = np.minimum(left[:, None], _squared(points, norms, picks.tolist()))
        best = int(after.sum(0, dtype=np.float64).argmin())
        chosen.append(int(picks[best]))
        left = after[:, best]
    return points[chosen]


def _squared(points: Points, norms: Points, chosen: list[int]) -> Points:
    """Return the squared Euclidean distances to some of the points; 0, not a rounding, to themselves."""
    out = norms[:, None] + norms[chosen] - 2 * (points @ points[chosen].T)
    out[chosen, range(len(chosen))] = 0.0
    return np.maximum(out, 0.0)


def _finish(points: Points, centres: Points, distance: Distance) -> Clustering:
    """Assign every point by the distance, drop empty clusters and recompute the means."""
    labels, kept = without_empty(nearest(points, centres, distance), len(centres))
    return Clustering(labels, centres_of(points, labels, len(kept)))


def _different(points: Points, most: int) -> int:
    """Count the different points, up to ``most``."""
    count, left = 0, points
    while len(left) and count < most:
        count, left = count + 1, left[(left != left[0]).any(1)]
    return count
