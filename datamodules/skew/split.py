"""What trains, what tests and what the server holds, of one labelled dataset divided among clients."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints, rank_in_runs
from flcluster.errors import UserError

from .dealing import NOBODY, count_table, deal, parts_of, set_apart, share_like
from .partitions import Partition, Samples


class Reserved(NamedTuple):
    """The samples of a dataset by purpose, ascending."""

    train: Ints
    test: Ints
    proxy: Ints


@dataclass(frozen=True, eq=False)
class LabelSplit:
    """Everything that a label-skewed dataset draws once."""

    train: list[Ints]
    """Each client's training samples."""
    test: list[Ints]
    """Each client's test samples, in the label mix that it trains on."""
    global_test: Ints
    """Equally many test samples of each class."""
    proxy: Ints
    """What the server holds."""
    counts: Ints
    """Training samples by client and class."""
    val: list[Ints] = field(default_factory=list)
    """What each client set apart of its training samples to choose by."""


@dataclass(frozen=True)
class Dropouts:
    """Clients that never take part in training, and classes that they alone hold."""

    clients: tuple[int, ...] = ()
    monopolies: tuple[int, ...] = ()

    def check(self, partition: Partition, num_clients: int, num_classes: int) -> None:
        """Refuse clients and classes that there are not, and monopolies that cannot be made."""
        for key, values, end in (
            ("dropouts", self.clients, num_clients),
            ("monopoly_classes", self.monopolies, num_classes),
        ):
            if len(set(values)) < len(values) or not all(0 <= value < end for value in values):
                raise UserError(f"data.{key} is {list(values)}: give different numbers from 0 to {end - 1}")
        if len(self.clients) == num_clients:
            raise UserError(f"data.dropouts names all {num_clients} clients: nobody is left to train")
        if self.monopolies and not self.clients:
            raise UserError("data.monopoly_classes needs clients that alone hold them: name some in data.dropouts")
        if self.monopolies and partition.says_who:
            raise UserError(
                f"data.partition ({type(partition).__name__}) says itself who holds which class: leave "
                "data.monopoly_classes out"
            )
        if len(self.monopolies) == num_classes:
            raise UserError(f"data.monopoly_classes names all {num_classes} classes: nothing is left for the others")

    def owners(self, partition: Partition, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Let the partition divide all but the monopolies, and dropouts share those equally."""
        alone = np.isin(samples.labels, self.monopolies)
        owner = np.empty(len(alone), dtype=np.int64)
        owner[~alone] = partition.owners(samples.where(~alone), num_clients, rng)
        for label in self.monopolies:
            held = rng.permutation(np.flatnonzero(samples.labels == label))
            owner[held] = rng.permutation(self.clients)[np.arange(len(held)) % len(self.clients)]
        return owner


def reserve(
    labels: Ints, train_length: int, *, test_share: float | None, proxy_size: int, limit: int | None, seed: int
) -> Reserved:
    """Set apart what tests and what the server holds; neither depends on the partition.

    With ``test_share`` a share of every class tests, drawn from both splits of the dataset; without, the dataset's own
    test split does (the samples from ``train_length`` on), and the limit counts training samples.
    """
    pool = np.arange(len(labels) if test_share is not None else train_length)
    if limit is not None:
        _check_most("limit", limit, len(pool))
        pool = np.sort(seeds.rng(seed, "label skew limit").permutation(pool)[:limit])
    if test_share is None:
        test = np.arange(train_length, len(labels))
    else:
        test = pool[drawn_share(labels[pool], test_share, seeds.rng(seed, "label skew test"))]
    free = np.setdiff1d(pool, test)
    _check_most("proxy_size", proxy_size, len(free) - 1)
    proxy = np.sort(seeds.rng(seed, "label skew proxy").permutation(free)[:proxy_size])
    return Reserved(np.setdiff1d(free, proxy), test, proxy)


def divide(
    partition: Partition, dropouts: Dropouts, samples: Samples, kept: Reserved, num_clients: int, seed: int
) -> LabelSplit:
    """Divide training samples by a partition, and test samples alike."""
    train, test = samples.where(kept.train), samples.where(kept.test)
    owner = dropouts.owners(partition, train, num_clients, seeds.rng(seed, "label skew partition"))
    counts = count_table(owner, train.labels, num_clients, samples.num_classes)
    rng = seeds.rng(seed, "label skew local tests")
    if train.ids is None or test.ids is None:
        tester = deal_like(counts, test, rng)
    else:
        tester = same_clients(owner, train.ids, test.ids)
    return LabelSplit(
        train=[kept.train[part] for part in parts_of(owner, num_clients)],
        test=[kept.test[part] for part in parts_of(tester, num_clients)],
        global_test=kept.test[balanced(test.labels, seeds.rng(seed, "label skew global test"))],
        proxy=kept.proxy,
        counts=counts,
    )


def with_validation(split: LabelSplit, samples: Samples, share: float, seed: int) -> LabelSplit:
    """Set a share of each client's training samples apart to choose by; all else stays as it was."""
    parts = [
        set_apart(held, share, 0.0, seeds.rng(seed, "validation", client)) for client, held in enumerate(split.train)
    ]
    train = [part.train for part in parts]
    counts = np.stack([np.bincount(samples.labels[held], minlength=samples.num_classes) for held in train])
    return replace(split, train=train, val=[part.val for part in parts], counts=counts)


def drawn_share(labels: Ints, share: float, rng: np.random.Generator) -> Ints:
    """Draw a share of each class, at least one sample of any that has two, ascending."""
    totals = np.bincount(labels)
    wanted = np.clip(np.rint(share * totals).astype(np.int64), np.minimum(totals, 2) // 2, np.maximum(totals - 1, 0))
    return _of_each_class(labels, totals, wanted, rng)


def balanced(labels: Ints, rng: np.random.Generator) -> Ints:
    """Draw as many of each class as the rarest of them has, ascending; classes without samples are left out."""
    totals = np.bincount(labels)
    return _of_each_class(labels, totals, np.minimum(totals, totals[totals > 0].min(initial=len(labels))), rng)


def deal_like(counts: Ints, samples: Samples, rng: np.random.Generator) -> Ints:
    """Divide samples so that each client has the mix of labels that ``counts`` says; return the owners."""
    owner = np.full(len(samples.labels), NOBODY)
    wanted = np.isin(samples.labels, np.flatnonzero(counts.sum(axis=0)))
    owner[wanted] = deal(samples.labels[wanted], share_like(counts, samples.totals, rng), rng)
    return owner


def same_clients(owner: Ints, ids: Ints, other_ids: Ints) -> Ints:
    """Return the clients that own other samples by nature, knowing whose some samples with ``ids`` are."""
    client = np.full(1 + max(ids.max(), other_ids.max(initial=0)), NOBODY)
    client[ids] = owner
    return client[other_ids]


def _of_each_class(labels: Ints, totals: Ints, wanted: Ints, rng: np.random.Generator) -> Ints:
    order = np.lexsort((rng.random(len(labels)), labels))
    starts = np.cumsum(totals) - totals
    return np.sort(order[np.repeat(starts, wanted) + rank_in_runs(wanted)])


def _check_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise UserError(f"data.{name} is {value}, but there are too few images for that: at most {most} would work")
