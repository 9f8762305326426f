"""Arithmetic of counts and runs of numbers."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def systematic(shares: NDArray[np.float64], total: Ints, phase: NDArray[np.float64]) -> Ints:
    """Round ``total * shares`` (last axis) to whole numbers that add up to ``total``; each is one of the two nearest.

    Equal shares with equal phases give equal counts. Shares must sum to 1.

    >>> systematic(np.array([[0.5, 0.25, 0.25]]), np.array([2]), np.array([0.4])).tolist()
    [[1, 0, 1]]
    """
    edges = np.cumsum(shares, axis=-1) * total[..., None]
    edges[..., -1] = total
    cut = np.floor(edges + phase[..., None]).astype(np.int64)
    return np.diff(cut, axis=-1, prepend=0)


def flatten(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the row and the position of everything in the spans, row after row.

    >>> flatten(np.array([5, 0]), np.array([7, 1]))
    (array([0, 0, 1]), array([5, 6, 0]))
    """
    lengths = ends - starts
    row = np.repeat(np.arange(len(starts)), lengths)
    return row, rank_in_runs(lengths) + starts[row]


def rank_in_runs(lengths: Ints) -> Ints:
    """Return 0, 1, 2 … within each run of the given lengths.

    >>> rank_in_runs(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
