"""A cluster's samples: what trains, what evaluates, what the server holds."""

from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from flcluster import seeds
from flcluster.data import Source
from flcluster.errors import UserError


@dataclass(frozen=True, eq=False)
class Cluster:
    """One cluster's two splits, the test split divided into proxy and evaluation."""

    train: Source
    test: Source
    train_index: Tensor
    test_index: Tensor
    proxy_index: Tensor
    val_index: Tensor
    """What of the training split validates and never trains."""


def make_cluster(
    train: Source, test: Source, proxy_size: int, train_limit: int | None, seed: int, val_share: float = 0.0
) -> Cluster:
    """Set the proxy and what validates apart, and keep what the limit allows.

    Clusters of equal length give the same positions.
    """
    order = torch.from_numpy(seeds.rng(seed, "proxy").permutation(len(test)))
    proxy, rest = order[:proxy_size].sort().values, order[proxy_size:].sort().values
    kept = _kept(len(train), train_limit, seed)
    chosen = torch.zeros(len(kept), dtype=torch.bool)
    chosen[seeds.rng(seed, "validation").permutation(len(kept))[: val_size(val_share, len(kept))]] = True
    return Cluster(train, test, kept[~chosen], rest, proxy, kept[chosen])


def val_size(share: float, total: int) -> int:
    """Return how many samples of a total validate: one at least if any are wanted.

    >>> val_size(0.1, 50), val_size(0.1, 2), val_size(0.0, 50)
    (5, 1, 0)
    """
    return max(1, round(share * total)) if share > 0 else 0


def refuse(argument: str, value: int, split: str, available: int, works: int, name: str) -> NoReturn:
    """Say that a dataset cannot give what an argument asks for, and what would work."""
    raise UserError(
        f"data.{argument} asks for {value}, but a cluster of {name} has {available} {split} images: "
        f"at most {works} would work"
    )


def _kept(length: int, limit: int | None, seed: int) -> Tensor:
    if limit is None:
        return torch.arange(length)
    return torch.from_numpy(seeds.rng(seed, "train limit").permutation(length)[:limit]).sort().values
