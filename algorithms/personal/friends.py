"""AP-FL's personal models: what a friend learns from, and how it is mixed with the client's model."""

import csv
import io
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SHARES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
"""The friend's shares that every run tries: both readings of the paper's λ, its two models alone, and the middle."""


def interpolated(client: Tensor, friend: Tensor, share: float) -> Tensor:
    """Return (1 - share) · θ_client + share · θ_friend, BatchNorm's statistics too; exactly one of them at 0 and 1."""
    if share in (0.0, 1.0):
        return (friend if share else client).clone()
    return torch.add((1 - share) * client, friend, alpha=share)


def friend_share(coefficient: float, reading: str) -> float:
    """Return the friend's share for the paper's λ.

    The paper's text calls λ the confidence in the friend; its equation gives λ to the client's model.
    """
    return coefficient if reading == "friend" else round(1 - coefficient, 12)


def friend_labels(counts: NDArray[np.int64], per_class: int) -> Tensor:
    """Return the classes of a client's synthetic samples: ``per_class`` for each class it holds, in its own label mix.

    What rounding leaves goes to the largest remainders, so that there are always ``per_class`` times classes of them.

    Example:
        >>> torch.bincount(friend_labels(np.array([30, 0, 10]), per_class=10)).tolist()
        [15, 0, 5]
    """
    total = per_class * int((counts > 0).sum())
    exact = total * counts / max(int(counts.sum()), 1)
    wanted = np.floor(exact).astype(np.int64)
    rest = total - int(wanted.sum())
    wanted[np.argsort(wanted - exact, kind="stable")[:rest]] += 1
    return torch.from_numpy(np.repeat(np.arange(len(counts)), wanted))


def even_labels(classes: int, per_class: int) -> Tensor:
    """Return the classes of synthetic samples of all classes alike, whoever holds them.

    Example:
        >>> even_labels(3, per_class=2).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    return torch.arange(classes).repeat_interleave(per_class)


def sweep_table(sweep: Tensor, shares: Iterable[float], dropouts: Iterable[int]) -> str:
    """Write accuracies ``[clients, shares, 2]`` as CSV, without those that are not known."""
    out, gone, places = io.StringIO(), set(dropouts), list(shares)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("client", "dropout", "friend_share", "acc_global", "acc_local"))
    for client, rows in enumerate(sweep.tolist()):
        for share, (everywhere, local) in zip(places, rows, strict=True):
            cells = ["" if np.isnan(value) else repr(value) for value in (everywhere, local)]
            if any(cells):
                writer.writerow((client, int(client in gone), repr(share), *cells))
    return out.getvalue()
