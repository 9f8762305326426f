"""Clients whose data mix several clusters and are drawn anew (CDFL and CCFL)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flcluster import seeds
from flcluster.data import Shard, View, apportion
from flcluster.errors import UserError

from .cluster import Cluster, refuse, val_size

MAIN_SHARE = (0.4, 0.9)
"""The papers' smallest and largest share of the main cluster."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixed:
    """Most samples of a client come from its main cluster, the rest from the others; so do its test samples."""

    clusters: Callable[[], Sequence[Cluster]]
    num_clusters: int
    samples: tuple[int, int]
    main_share: tuple[float, float]
    rest_split: str
    redraw: bool
    test_size: int
    seed: int
    val_share: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.samples[0] <= self.samples[1]:
            raise UserError(f"data.samples is {self.samples}: give the fewest and the most, as in (500, 2000)")
        if not 0 < self.main_share[0] <= self.main_share[1] <= 1:
            raise UserError(f"data.main_share is {self.main_share}: give two shares above 0 and up to 1, as (0.4, 0.9)")
        if self.rest_split not in ("dirichlet", "uniform"):
            raise UserError(f"data.rest_split is {self.rest_split!r}: it must be 'dirichlet' or 'uniform'")

    def check(self, train: Sequence[int], test: Sequence[int], name: str) -> None:
        """Refuse what the smallest cluster cannot give; ``train`` and ``test`` are the sizes of what can be drawn."""
        share, least = largest_share(self.main_share, self.num_clusters), min(train)
        if needed(self.samples[1], share) > least:
            refuse("samples", self.samples[1], "training", least, largest_size(least, share), name)
        share, least = min(1.0, share + 1 / self.samples[0]), min(test)  # a test set repeats rounded shares
        if needed(self.test_size, share) > least:
            refuse("test_size", self.test_size, "evaluation", least, largest_size(least, share), name)

    def size(self, client: int, cycle: int) -> int:
        """Return how many training samples a client draws, before any file is read."""
        return self._size(client, cycle)[0]

    def shard(self, client: int, cycle: int) -> Shard:
        """Draw a client's samples, without replacement within a cluster."""
        n, rng = self._size(client, cycle)
        main, clusters = client % self.num_clusters, self.clusters()
        counts = draw_counts(rng, n, main, self.num_clusters, self.main_share, self.rest_split)
        train = [
            (c.train, draw_without_replacement(rng, c.train_index, k)) for c, k in zip(clusters, counts, strict=True)
        ]
        tested = apportion(counts, self.test_size)
        test = [(c.test, draw_without_replacement(rng, c.test_index, k)) for c, k in zip(clusters, tested, strict=True)]
        val = None
        if self.val_share:
            wanted = apportion(counts, val_size(self.val_share, n))
            val = View(
                tuple(
                    (c.train, draw_without_replacement(rng, c.val_index, min(k, len(c.val_index))))
                    for c, k in zip(clusters, wanted.tolist(), strict=True)
                )
            )
        return Shard(View(tuple(train)), View(tuple(test)), torch.from_numpy(counts / n).float(), val)

    def _size(self, client: int, cycle: int) -> tuple[int, np.random.Generator]:
        """Draw the size of a shard; what follows is drawn from the same generator."""
        rng = seeds.rng(self.seed, "shard", client, cycle if self.redraw else 0)
        return int(rng.integers(self.samples[0], self.samples[1], endpoint=True)), rng


def main_count(n: int, share: float, bounds: tuple[float, float]) -> int:
    """Round ``share * n``, staying within the bounds wherever a whole number can."""
    low, high = math.ceil(bounds[0] * n - 1e-9), math.floor(bounds[1] * n + 1e-9)
    count = round(share * n)
    return min(max(count, low), high) if low <= high else count


def draw_counts(
    rng: np.random.Generator, n: int, main: int, num_clusters: int, bounds: tuple[float, float], rest_split: str
) -> np.ndarray:
    """Draw how many of ``n`` samples come from each cluster: a share of ``main`` within bounds, the rest elsewhere."""
    if num_clusters == 1:
        return np.array([n])
    counts = np.zeros(num_clusters, dtype=np.int64)
    counts[main] = main_count(n, rng.uniform(*bounds), bounds)
    others = (main + 1 + np.arange(num_clusters - 1)) % num_clusters  # so that remainders favour no cluster
    weights = rng.dirichlet(np.ones(len(others))) if rest_split == "dirichlet" else np.ones(len(others))
    counts[others] = apportion(weights, n - counts[main])
    return counts


def draw_without_replacement(rng: np.random.Generator, pool: Tensor, count: int) -> Tensor:
    """Choose ``count`` different entries of ``pool``, in the pool's order."""
    chosen = rng.choice(len(pool), count, replace=False, shuffle=False)
    return pool[torch.from_numpy(np.sort(chosen))]


def largest_share(bounds: tuple[float, float], num_clusters: int) -> float:
    """Return the largest share of one client's samples that a single cluster may have to give."""
    return 1.0 if num_clusters == 1 else max(bounds[1], 1 - bounds[0])


def needed(size: int, share: float) -> int:
    """Return how many samples a cluster must have so that no draw of ``size`` can exceed it."""
    return min(size, math.floor(size * share) + 1)


def largest_size(available: int, share: float) -> int:
    """Return the largest size whose ``needed`` fits into ``available``."""
    return max(available, math.ceil(available / share) - 1)
