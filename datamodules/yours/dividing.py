"""Which samples of a user's data each client trains on, chooses by and is tested on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcluster import seeds
from flcluster.data import apportion
from flcluster.datamodules.skew.dealing import NOBODY, Parts, count_table, parts_of, set_apart
from flcluster.datamodules.skew.natural_ids import NaturalIds, owners_as_clients
from flcluster.datamodules.skew.partitions import Partition, Samples
from flcluster.datamodules.skew.split import deal_like, same_clients
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

from .brought import Brought

CLIENTS = 10
"""How many clients a partition makes if that is not said."""


@dataclass(frozen=True, eq=False)
class Division:
    """Each client's samples by purpose, ascending; those that test are positions in the test set."""

    train: list[Ints]
    val: list[Ints]
    test: list[Ints]
    proxy: list[Ints]
    """What the server holds of each cluster, taken out of what clients would train on."""


def client_of_each(brought: Brought, partition: Partition | None, asked: int | None, rng: np.random.Generator) -> Ints:
    """Return the client of each training sample: its owner if the data name one, else what a partition says."""
    if brought.ids is not None:
        fewest = partition.min_samples if isinstance(partition, NaturalIds) else 1
        return owners_as_clients(brought.ids, asked, fewest, rng)
    if partition is None:
        raise UserError("data.partition is missing, and the data name no owners: say how to divide them (IID, say)")
    told, clients = brought.samples(brought.train, None), asked or CLIENTS
    if told is None:
        if partition.by_label:
            raise UserError(
                f"data.partition ({type(partition).__name__}) divides by class labels, which are not known of these "
                "data: say where they are, or use IID, QuantitySkew or NaturalIds"
            )
        told = Samples(np.zeros(len(brought.train), dtype=np.int64), 1)
    partition.check(clients, told.num_classes)
    return partition.owners(told, clients, rng)


def divide(owner: Ints, num_clients: int, *, val_share: float, test_share: float, seed: int) -> list[Parts]:
    """Divide each client's samples by purpose; who else takes part does not matter."""
    return [
        set_apart(part, val_share, test_share, seeds.rng(seed, "own data split", client))
        for client, part in enumerate(parts_of(owner, num_clients))
    ]


def deal_others(
    owner: Ints, train: Samples | None, others: Samples | None, total: int, clients: int, rng: np.random.Generator
) -> Ints:
    """Return who is tested on each of ``total`` further samples.

    By owner where samples have one, otherwise in the mix of labels that clients train on, and without labels in
    proportion to what they hold.
    """
    if train is not None and others is not None:
        if train.ids is not None and others.ids is not None:
            return same_clients(owner, train.ids, others.ids)
        return deal_like(count_table(owner, train.labels, clients, train.num_classes), others, rng)
    sizes = np.bincount(owner[owner != NOBODY], minlength=clients)
    return rng.permutation(np.repeat(np.arange(clients), apportion(sizes, total)))


def draw_proxies(train: Sequence[Ints], cluster: Ints, num_clusters: int, size: int, seed: int) -> list[Ints]:
    """Draw the server's samples of each cluster out of what clients would train on."""
    held = np.sort(np.concatenate(train))
    found = []
    for k in range(num_clusters):
        free = held[cluster[held] == k]
        if size and size >= len(free):
            raise UserError(
                f"data.proxy_size is {size}, but data.test_share and data.val_share leave {len(free)} training samples "
                f"of cluster {k}: at most {max(len(free) - 1, 0)} would work"
            )
        found.append(np.sort(seeds.rng(seed, "own data proxy", k).permutation(free)[:size]))
    return found
