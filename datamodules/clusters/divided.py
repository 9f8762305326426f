"""Clusters divided among their clients, every sample to exactly one of them (IFCA's partition)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from flcluster import seeds
from flcluster.data import Shard, View
from flcluster.errors import UserError

from .cluster import Cluster, refuse
from .mixed import draw_without_replacement


@dataclass(frozen=True, kw_only=True, eq=False)
class Divided:
    """Each cluster is shuffled once and divided among the clients whose main cluster it is; nothing is ever redrawn."""

    clusters: Callable[[], Sequence[Cluster]]
    num_clusters: int
    num_clients: int
    test_size: int | None
    seed: int
    val_share: float = 0.0

    def __post_init__(self) -> None:
        if self.num_clients < self.num_clusters:
            raise UserError(
                f"data.num_clients is {self.num_clients}: with data.samples null each of the {self.num_clusters} "
                "clusters is divided among clients of its own, so that at least as many clients are needed"
            )

    def check(self, train: Sequence[int], test: Sequence[int], name: str) -> None:
        """Refuse what leaves a client without samples; ``train`` and ``test`` are the sizes of what can be given."""
        check_division(train, "training", self.num_clients, name)
        if self.test_size is None:
            check_division(test, "evaluation", self.num_clients, name)
        elif self.test_size > min(test):
            refuse("test_size", self.test_size, "evaluation", min(test), min(test), name)

    def size(self, client: int, cycle: int) -> int:
        """Return how many training samples a client holds, in every cycle."""
        return len(self._train(client))

    def shard(self, client: int, cycle: int) -> Shard:
        """Return a client's part of its cluster, the same in every cycle."""
        main = client % self.num_clusters
        held, mixture = self.clusters()[main], torch.zeros(self.num_clusters)
        mixture[main] = 1.0
        train, test = View(((held.train, self._train(client)),)), View(((held.test, self._test(client)),))
        val = View(((held.train, self._part(self._val_orders, client)),)) if self.val_share else None
        return Shard(train, test, mixture, val)

    def _train(self, client: int) -> Tensor:
        return self._part(self._train_orders, client)

    def _test(self, client: int) -> Tensor:
        if self.test_size is None:
            return self._part(self._test_orders, client)
        rng = seeds.rng(self.seed, "test samples", client)
        return draw_without_replacement(rng, self.clusters()[client % self.num_clusters].test_index, self.test_size)

    def _part(self, orders: list[Tensor], client: int) -> Tensor:
        turn, main = divmod(client, self.num_clusters)
        return piece(orders[main], members(main, self.num_clients, self.num_clusters), turn)

    @cached_property
    def _train_orders(self) -> list[Tensor]:
        return [_shuffled(c.train_index, self.seed, "train", k) for k, c in enumerate(self.clusters())]

    @cached_property
    def _val_orders(self) -> list[Tensor]:
        return [_shuffled(c.val_index, self.seed, "val", k) for k, c in enumerate(self.clusters())]

    @cached_property
    def _test_orders(self) -> list[Tensor]:
        return [_shuffled(c.test_index, self.seed, "test", k) for k, c in enumerate(self.clusters())]


def members(cluster: int, num_clients: int, num_clusters: int) -> int:
    """Return how many clients ``m`` have ``m % num_clusters == cluster``."""
    return len(range(cluster, num_clients, num_clusters))


def most_clients(lengths: Sequence[int]) -> int:
    """Return the largest number of clients that leaves each of them a sample of its cluster.

    >>> most_clients([10, 10]), most_clients([10, 3])
    (20, 7)
    """
    return min(k + len(lengths) * length for k, length in enumerate(lengths))


def piece(order: Tensor, parts: int, part: int) -> Tensor:
    """Return one of ``parts`` pieces whose sizes differ by at most one, ascending.

    >>> [piece(torch.tensor([3, 1, 4, 0, 2]), 2, part).tolist() for part in range(2)]
    [[1, 3, 4], [0, 2]]
    """
    size, longer = divmod(len(order), parts)
    start = part * size + min(part, longer)
    return order[start : start + size + (part < longer)].sort().values


def check_division(lengths: Sequence[int], split: str, num_clients: int, name: str) -> None:
    """Refuse to divide clusters of these lengths among so many clients that some would go without."""
    works = most_clients(lengths)
    if num_clients <= works:
        return
    short = works % len(lengths)  # the cluster of the first client that gets nothing
    raise UserError(
        f"data.num_clients is {num_clients}, so that {members(short, num_clients, len(lengths))} clients share the "
        f"{lengths[short]} {split} images of cluster {short} of {name}: at most {works} clients would work"
    )


def _shuffled(index: Tensor, seed: int, split: str, cluster: int) -> Tensor:
    order = seeds.rng(seed, f"partition of {split}", cluster).permutation(len(index))
    return index[torch.from_numpy(order)]
