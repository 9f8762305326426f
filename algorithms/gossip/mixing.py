"""Averages between neighbours: sparse weights over the rows of a table, and one pass that applies them in place.

Client ``i``'s model of cluster ``j`` is row ``i · k + j`` of a table with ``N · k`` rows.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from flcluster.federation.bank import Table

CACHED = 2**20
"""Numbers of a block of columns that is mixed at a time: about what a processor's cache holds."""


def neighbour_means(links: csr_array, sent: NDArray[np.bool_], receive: NDArray[np.bool_] | None = None) -> csr_array:
    """Return the weights of θ_ij ← (θ_ij + Σ θ_mj) / (1 + |N_ij|) over the neighbours m that sent model j.

    Args:
        links: Who hears whom, ``[N, N]`` without a diagonal; client i receives from the columns of its row.
        sent: Which models each client sends, ``[N, k]``.
        receive: Which models each client averages; all if not given.
    """
    clients, k = sent.shape
    heard, sender = links.nonzero()
    at, cluster = np.nonzero(sent[sender])  # one message per link and model that its sender sends
    row, column = heard[at] * k + cluster, sender[at] * k + cluster
    if receive is not None:
        wanted = receive.reshape(-1)[row]
        row, column = row[wanted], column[wanted]
    share = 1.0 / (1 + np.bincount(row, minlength=clients * k))
    own = np.arange(clients * k)
    places = np.concatenate([row, own]), np.concatenate([column, own])
    return csr_array(coo_array((np.concatenate([share[row], share]), places), shape=(clients * k, clients * k)))


def metropolis(links: csr_array) -> csr_array:
    """Return symmetric doubly stochastic weights: w_il = 1 / (1 + max(deg_i, deg_l)), the rest on the diagonal."""
    clients = links.shape[0]
    degree = np.diff(csr_array(links).indptr)
    row, column = links.nonzero()
    weight = 1.0 / (1 + np.maximum(degree[row], degree[column]))
    own = 1.0 - np.bincount(row, weight, clients)
    every = np.arange(clients)
    places = np.concatenate([row, every]), np.concatenate([column, every])
    return csr_array(coo_array((np.concatenate([weight, own]), places), shape=(clients, clients)))


def mix_rows(table: Table, weights: csr_array) -> None:
    """Replace the rows Θ of a table by WΘ: sparse, in place, a block of columns at a time."""
    kept = weights.diagonal() == 1  # rows of weights sum to 1: such a row is left as it is
    rows = np.flatnonzero(~kept)
    if len(rows) == 0:
        return
    chosen = csr_array(weights[rows])
    reads, index = np.unique(chosen.indices, return_inverse=True)
    at, bags = torch.from_numpy(index.astype(np.int64)), torch.from_numpy(chosen.indptr.astype(np.int64))
    shares = torch.from_numpy(chosen.data.astype(np.float32))

    def mixed(block: Tensor) -> Tensor:
        return F.embedding_bag(at, block, bags, mode="sum", per_sample_weights=shares, include_last_offset=True)

    table.rewrite(rows, reads.astype(np.int64), mixed, max(CACHED // len(reads), 64))


def running_average(own: Tensor, message: Tensor, r: int) -> Tensor:
    """Take the r-th message (from 1) into an average, in place: θ ← r/(r + 1) · θ + 1/(r + 1) · θ_m (Eq. 8)."""
    return own.lerp_(message, 1.0 / (r + 1))


def average_in_turn(table: Table, messages: Sequence[tuple[int, int]]) -> None:
    """Take messages (row that receives, row that was sent) in one after the other, each as it was before the first."""
    if not messages:
        return
    pairs = np.array(messages, dtype=np.int64)
    rows, to = np.unique(pairs[:, 0], return_inverse=True)
    reads, index = np.unique(pairs, return_inverse=True)
    source = index.reshape(pairs.shape)[:, 1].tolist()
    own = torch.from_numpy(np.searchsorted(reads, rows))

    def averaged(block: Tensor) -> Tensor:
        out, heard = block[own], [0] * len(rows)
        for target, message in zip(to.tolist(), source, strict=True):
            heard[target] += 1
            running_average(out[target], block[message], heard[target])
        return out

    table.rewrite(rows, reads, averaged, max(32 * CACHED // len(reads), 64))


def disagreement(table: Table, clients: int, k: int, numbers: int) -> float:
    """Return the mean over clusters of 1/N · Σ_i ‖θ_ij − mean_j‖², over the first ``numbers`` (the parameters)."""
    total, rows = 0.0, np.arange(clients * k)
    at_once = max(CACHED // len(rows), 64)
    for first in range(0, numbers, at_once):
        block = table.block(rows, slice(first, min(first + at_once, numbers))).view(clients, k, -1)
        total += float((block - block.mean(0)).square_().sum(dtype=torch.float64))
    return total / (clients * k)
