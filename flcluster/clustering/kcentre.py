"""k-centre clustering: a known number of clusters whose widest one is as narrow as a greedy choice makes it."""

from dataclasses import dataclass

import numpy as np

from flcluster.clustering.distances import Distance
from flcluster.clustering.kmeans import Clusterer, Clustering, centres_of, nearest, without_empty
from flcluster.clustering.points import Points
from flcluster.errors import at_least
from flcluster.seeds import rng


@dataclass(frozen=True)
class KCentre(Clusterer):
    """Farthest-first choice of K points (Gonzalez, 1985): the largest distance to one's own is at most twice the best.

    The first is drawn, each next one is the point farthest from those chosen; then every point goes to the nearest of
    them. There are fewer clusters if there are fewer different points.
    """

    num_clusters: int = 4
    """K."""

    def __post_init__(self) -> None:
        at_least("num_clusters", self.num_clusters, 1, "clusterer.")

    def cluster(self, points: Points, distance: Distance, seed: int, event: int) -> Clustering:
        """Choose, assign, and take the members' means as centres."""
        points = np.ascontiguousarray(points, dtype=np.float32)
        chosen = farthest_first(
            points, self.num_clusters, distance, int(rng(seed, "k-centre", event).integers(len(points)))
        )
        labels, kept = without_empty(nearest(points, points[chosen], distance), len(chosen))
        return Clustering(labels, centres_of(points, labels, len(kept)))


def farthest_first(points: Points, count: int, distance: Distance, first: int) -> list[int]:
    """Return the indices of at most ``count`` points, from ``first`` on each the farthest from those before.

    Example:
        >>> from flcluster.clustering.distances import L1
        >>> farthest_first(np.array([[0.0], [1.0], [5.0], [6.0]], dtype=np.float32), 3, L1(), 1)
        [1, 3, 0]
    """
    chosen = [first]
    apart = distance.between(points, points[chosen])[:, 0]
    while len(chosen) < count and float(apart.max()) > 0:
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, distance.between(points, points[chosen[-1:]])[:, 0])
    return chosen
