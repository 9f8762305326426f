"""What the coordinator spends on a drift event (moves, trigger, re-clustering), beside the times that FIELDING gives.

The clients' histograms are drawn: each holds 10 to 30 of 100 labels, by the taste of its group. The trigger is asked
for the Δ that make it easy or hard: far below the largest distance of a cluster, just above it, and at the maximum;
the hard case needs clients that share labels, or the largest distance is the maximum, so there each holds one sample
of every label besides. Run: python tests/benchmarks/coordinator.py --part small
"""

import argparse
import functools
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from told import Told

from flcluster.algorithms.drift.triggers import PairDistance
from flcluster.clustering.diameter import max_pair_distance
from flcluster.clustering.distances import L1
from flcluster.clustering.kmeans import KMeansBySilhouette, centres_of, nearest, plus_plus
from flcluster.clustering.silhouette import mean_distances
from flcluster.engine.process import peak_gb
from flcluster.seeds import rng

LABELS, GROUPS = 100, 6
Points = NDArray[np.float32]


def clients(n: int, cycle: int, shared: bool) -> Points:
    """Draw the histograms of n clients at one time; a client stays in its group."""
    taste = np.log(rng(0, "taste").dirichlet(np.full(LABELS, 0.3), GROUPS) + 1e-3)
    group, draw = rng(0, "groups").integers(GROUPS, size=n), rng(0, "clients", cycle)
    order = np.argsort(-(taste[group] + draw.gumbel(size=(n, LABELS))), axis=1)
    held = np.argsort(order, axis=1) < draw.integers(10, 31, (n, 1))
    counts = np.ceil(draw.exponential(size=(n, LABELS)) * 10) * held + shared
    return (counts / counts.sum(1, keepdims=True)).astype(np.float32)


def timed(repeats: int, action: Callable[[], object]) -> float:
    """Return the median seconds of an action."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def show(what: str, seconds: float, paper: float | None = None) -> None:
    """Print one line of the table."""
    beside = "" if paper is None else f"   paper {paper:6.1f} s"
    print(f"  {what:<60}{seconds:9.3f} s   peak {peak_gb() or 0.0:5.2f} GB{beside}", flush=True)


PAPER = {"moves": 2.0, "clusters": 15.6}
"""Seconds that FIELDING gives for 5,078 clients."""


def event(n: int, shared: bool, repeats: int, paper: bool) -> dict[str, float]:
    """Time a drift event of n clients in which every client has drifted; return the longest times."""
    before, now = clients(n, 0, shared), clients(n, 1, shared)
    clusterer, trigger, distance = KMeansBySilhouette(), PairDistance(), L1()
    centres = clusterer.cluster(before, distance, 0, 0).centres
    moved = nearest(now, centres, distance)
    largest = max_pair_distance(now, moved, distance)

    def adjust(delta: float) -> bool:
        labels = nearest(now, centres, distance)
        after = centres_of(now, labels, len(centres), centres)
        return trigger.fires(now, labels, centres, after, delta, distance, 0)

    print(f" {'one sample of every label besides' if shared else '10 to 30 labels'}: largest distance {largest:.4f}")
    longest = {"moves": 0.0}
    for delta in (0.1, largest - 1e-3, min(largest + 1e-3, 2.0), 2.0):
        seconds = timed(repeats, functools.partial(adjust, delta))
        longest["moves"] = max(longest["moves"], seconds)
        told = f"moves, centres, trigger at Δ = {delta:.4f}: {adjust(delta)}"
        show(told, seconds, PAPER["moves"] if paper else None)
    seconds = timed(repeats, lambda: clusterer.cluster(now, distance, 0, 1))
    longest["clusters"] = seconds
    told = f"re-clustering: K from 2 to 10, 10 starts; {len(centres)} clusters"
    show(told, seconds, PAPER["clusters"] if paper else None)
    show("mean client distance", timed(repeats, lambda: mean_distances(now, moved, distance)))
    return longest


def rows(quick: bool = False) -> list[Told]:
    """Return what a drift event of 5,078 clients costs beside the seconds that FIELDING gives, at the hardest."""
    n, repeats = (300, 1) if quick else (5_078, 5)
    found = [event(n, shared, repeats, paper=True) for shared in (False, True)]
    names = {"moves": "moves, centres and trigger", "clusters": "re-clustering"}
    return [
        Told(f"A drift event of {n:,} clients, {told}: seconds / FIELDING's", max(f[key] for f in found) / PAPER[key])
        for key, told in names.items()
    ]


def events(n: int, repeats: int, paper: bool) -> None:
    """Time both kinds of clients."""
    print(f"{n:,} clients x {LABELS} labels, L1, every client has drifted")
    for shared in (False, True):
        event(n, shared, repeats, paper)


def k_means(n: int, memory: float) -> None:
    """Time one start of k-means with k = 10 on one thread, on as many coordinates as fit, without any structure."""
    dims = min(10_000, int(0.8 * memory * 1e9 / (2 * 4 * n)))  # scikit-learn makes one more copy
    print(f"k-means, k = 10, one thread, one start, float32, {n:,} points x {dims:,} coordinates")
    points = np.empty((n, dims), dtype=np.float32)
    draw = rng(0, "points")
    for row in points:
        draw.random(out=row, dtype=np.float32)
    with threadpool_limits(1):
        began = time.perf_counter()
        starts = plus_plus(points, 10, draw)
        fit = KMeans(10, init=starts, n_init=1, copy_x=False).fit(points)
        seconds = time.perf_counter() - began
    show(f"{fit.n_iter_} iterations", seconds)
    scale = 100_000 * 10_000 / (n * dims)
    show("the same, scaled to 100,000 x 10,000", seconds * scale, 477.8)


def main() -> None:
    """Measure the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["small", "large", "k-means", "all"], default="all")
    parser.add_argument("--clients", type=int, default=5_078, help="clients of the small part")
    parser.add_argument("--large", type=int, default=100_000, help="clients of the large part, and points of k-means")
    parser.add_argument("--memory", type=float, default=4.0, help="GB that k-means may take")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of the small part; the median counts")
    given = parser.parse_args()
    if given.part in ("small", "all"):
        events(given.clients, given.repeats, paper=given.clients == 5_078)
    if given.part in ("large", "all"):
        events(given.large, 1, paper=False)
    if given.part in ("k-means", "all"):
        k_means(given.large, given.memory)


if __name__ == "__main__":
    main()
