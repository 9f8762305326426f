"""From counts to samples: whole tables of clients by classes, and the owner of every sample."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.datamodules.sources.counts import Ints

NOBODY = -1
"""The owner of a sample that no client holds."""


class Parts(NamedTuple):
    """One client's samples by purpose."""

    train: Ints
    val: Ints
    test: Ints


def deal(labels: Ints, counts: Ints, rng: np.random.Generator) -> Ints:
    """Hand out shuffled samples so that client k owns ``counts[k, c]`` of class c; return each sample's owner.

    The columns of ``counts`` must add up to the samples of each class, so that every sample has an owner.
    """
    clients, classes = counts.shape
    order = np.lexsort((rng.random(len(labels)), labels))
    owner = np.empty(len(labels), dtype=np.int64)
    owner[order] = np.repeat(np.tile(np.arange(clients), classes), counts.T.reshape(-1))
    return owner


def parts_of(owner: Ints, num_clients: int) -> list[Ints]:
    """Return the positions of each client's samples, ascending.

    >>> [part.tolist() for part in parts_of(np.array([1, NOBODY, 0, 1]), 3)]
    [[2], [0, 3], []]
    """
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(num_clients + 1)))[1:-1]


def count_table(owner: Ints, labels: Ints, num_clients: int, num_classes: int) -> Ints:
    """Return how many samples of each class each client owns, ``[num_clients, num_classes]``."""
    held = owner != NOBODY
    cell = owner[held] * num_classes + labels[held]
    return np.bincount(cell, minlength=num_clients * num_classes).reshape(num_clients, num_classes)


def log_dirichlet(alpha: float, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw rows from Dir(alpha) as logarithms, up to a constant each, so that the smallest shares keep their order.

    A variable of Gamma(alpha) is one of Gamma(alpha + 1) times the (1/alpha)-th power of a uniform one.
    """
    return np.log(rng.gamma(alpha + 1, size=shape)) + np.log1p(-rng.random(shape)) / alpha


def fill_quotas(log_wishes: NDArray[np.float64], quota: Ints, stock: Ints, rng: np.random.Generator) -> Ints:
    """Fill each client's quota from a limited stock of classes, in proportion to its wishes as long as that lasts.

    Every client draws the classes of all its places from its wishes; where a class is asked for more often than there
    are samples, random ones of the requests are served. Who goes without asks again among the classes that are left,
    so that each turn fills all places or empties a class: there are no more turns than classes.

    Args:
        log_wishes: Logarithm of each client's weight of each class, ``[clients, classes]``, up to a constant each.
        quota: Samples each client gets; together no more than the stock.
        stock: Samples there are of each class.
        rng: Where the draws come from.
    """
    counts, left = np.zeros(log_wishes.shape, dtype=np.int64), stock.copy()
    while (need := quota - counts.sum(axis=1)).any():
        weights = np.where(left > 0, log_wishes, -np.inf)
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        asked = rng.multinomial(need, weights / weights.sum(axis=1, keepdims=True))
        for c in np.flatnonzero(asked.sum(axis=0) > left):
            asked[:, c] = rng.multivariate_hypergeometric(asked[:, c], left[c])
        counts += asked
        left -= asked.sum(axis=0)
    return counts


def share_like(counts: Ints, totals: Ints, rng: np.random.Generator) -> Ints:
    """Share ``totals[c]`` further samples of each class out as ``counts`` says that class is held.

    Every count is one of the two whole numbers nearest to its exact share, and what rounding takes from a client in one
    class it gets back in another as far as it can, so that small clients are not left without. Of a class that nobody
    holds nobody gets anything.
    """
    shared, owed = np.zeros_like(counts), np.zeros(len(counts))
    for c in rng.permutation(np.flatnonzero(counts.any(axis=0))):
        exact = totals[c] * counts[:, c] / counts[:, c].sum()
        shared[:, c] = np.floor(exact + 1e-9)
        rest = exact - shared[:, c]
        owed += rest
        missing = int(totals[c] - shared[:, c].sum())
        order = np.lexsort((rng.random(len(owed)), -owed, rest <= 1e-9))
        shared[order[:missing], c] += 1
        owed[order[:missing]] -= 1
    return shared


def set_apart(part: Ints, val_share: float, test_share: float, rng: np.random.Generator) -> Parts:
    """Draw shares of one client's samples that validate and test; one of each at least, if one is left to train.

    >>> [len(part) for part in set_apart(np.arange(10), 0.0, 0.2, np.random.default_rng(0))]
    [8, 0, 2]
    >>> [len(part) for part in set_apart(np.arange(2), 0.1, 0.1, np.random.default_rng(0))]
    [1, 0, 1]
    """
    order = rng.permutation(part)
    test = _count(test_share, len(order), len(order) - 1)
    val = _count(val_share, len(order), len(order) - 1 - test)
    return Parts(np.sort(order[test + val :]), np.sort(order[test : test + val]), np.sort(order[:test]))


def _count(share: float, total: int, most: int) -> int:
    return int(np.clip(np.rint(share * total), min(1, most), max(most, 0))) if share > 0 else 0
