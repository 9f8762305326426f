"""Metrics the papers define that torchmetrics does not have."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def kl_divergence(true: Tensor, estimate: Tensor, floor: float = 1e-4) -> Tensor:
    """KL(true ‖ estimate) of mixtures over the last axis.

    The estimate is floored and renormalised first, the same for every method, because counts can be zero.

    Example:
        >>> float(kl_divergence(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.5])))
        0.0
    """
    q = estimate.clamp_min(floor)
    q = q / q.sum(-1, keepdim=True)
    return torch.where(true > 0, true * (true.clamp_min(1e-30) / q).log(), 0.0).sum(-1)


def matching(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> dict[int, int]:
    """Match assigned clusters one-to-one with true ones so that most clients agree, ``{assigned: true}``.

    The indices of assigned clusters have no meaning of their own. Clients with a negative label or truth (unknown) are
    left out; of unequally many clusters, some stay without a partner.

    >>> matching(np.array([1, 1, 0, 0, 1]), np.array([0, 0, 1, 1, 1]))
    {0: 1, 1: 0}
    """
    assigned, true, counts = _contingency(labels, truth)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return dict(zip(assigned[rows].tolist(), true[columns].tolist(), strict=True))


def matched_purity(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    """Return the share of clients whose assigned cluster is their true one under the best ``matching``; NaN if none.

    >>> matched_purity(np.array([1, 1, 0, 0, 1]), np.array([0, 0, 1, 1, 1]))
    0.8
    """
    _, _, counts = _contingency(labels, truth)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / counts.sum()) if counts.size else math.nan


def _contingency(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return the assigned clusters, the true ones, and the number of clients that are in each pair of them."""
    known = (labels >= 0) & (truth >= 0)
    assigned, i = np.unique(labels[known], return_inverse=True)
    true, j = np.unique(truth[known], return_inverse=True)
    counts = np.zeros((len(assigned), len(true)), dtype=np.int64)
    np.add.at(counts, (i, j), 1)
    return assigned, true, counts
