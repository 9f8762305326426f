"""Features whose inner products bound what two histograms share, so that one matrix product bounds many distances."""

from collections.abc import Callable

import numpy as np

from flcluster.clustering.points import Doubles, Points

Kernel = Callable[[Doubles, Doubles], Doubles]


Sketch = Callable[[Points], tuple[Points, Points]]
"""Turns points into (mass, features); see `flcluster.clustering.distances.Distance.sketch` for what they bound."""


def shared_sketch(points: Points, kernel: Kernel, nodes: int, rank: int) -> Sketch:
    """Return a map to (mass, features) such that features(x)·features(y) − mass(x) − mass(y) <= Σ kernel(x, y).

    The kernel of two numbers >= 0 is positive definite, concave in each and 0 where one is 0. Interpolated linearly
    between a few nodes it only gets smaller; its matrix at the nodes is cut to ``rank`` features a coordinate, and
    what that leaves out, at most √(E(a)·E(b)) <= E(a)/2 + E(b)/2, goes into the mass.
    """
    positive = points[points > 0]
    if not len(positive):
        return lambda x: (np.zeros(len(x), dtype=np.float32), np.zeros((len(x), 1), dtype=np.float32))
    few = positive[:: 1 + len(positive) // 10_000]
    quantiles = np.quantile(few, (np.arange(nodes - 1) + 0.5) / (nodes - 1), method="lower")
    at = np.unique(np.concatenate([quantiles, [positive.max()]])).astype(np.float64)
    starts, gaps = np.concatenate([[0.0], at[:-1]]).astype(np.float32), np.diff(at, prepend=0.0).astype(np.float32)
    steps = np.diff(_factor(kernel(at[:, None], at), rank), axis=0, prepend=0.0).T.astype(np.float32)

    def sketch(x: Points) -> tuple[Points, Points]:
        ramps = np.empty((len(starts), x.size), dtype=np.float32)  # how much of each gap a coordinate has climbed
        with np.errstate(over="ignore"):  # of tiny gaps
            for ramp, start, gap in zip(ramps, starts, gaps, strict=True):
                np.clip((x.ravel() - start) / gap, 0.0, 1.0, out=ramp)
        values = (steps @ ramps).reshape(len(steps), *x.shape)
        return values[0].sum(1), np.concatenate(list(values[1:]), axis=1)

    return sketch


def _factor(gram: Doubles, rank: int) -> Doubles:
    """Return a row per node: half of what the features miss of the kernel with itself, then the features."""
    values, vectors = np.linalg.eigh(gram)
    features = vectors[:, -rank:] * np.sqrt(values[-rank:].clip(min=0.0))
    missed = (np.diag(gram) - (features**2).sum(1)).clip(min=0.0)
    return np.column_stack([missed / 2, features])
