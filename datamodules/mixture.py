"""Who holds how much of which cluster: integer counts that add up, and draws without replacement."""

import math

import numpy as np
import torch
from torch import Tensor


def apportion(weights: np.ndarray, total: int) -> np.ndarray:
    """Split ``total`` in proportion to ``weights`` into integers that sum to it exactly (largest remainders)."""
    quota = weights / weights.sum() * total
    counts = np.floor(quota).astype(np.int64)
    left = total - int(counts.sum())
    counts[np.argsort(counts - quota, kind="stable")[:left]] += 1
    return counts


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
    """Return the largest size whose :func:`needed` fits into ``available``."""
    return max(available, math.ceil(available / share) - 1)
