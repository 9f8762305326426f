"""Clients that hold a few classes each, by chance or by a list."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError, at_least

from .dealing import deal
from .partitions import KEY, Partition, Samples, equal_parts

Classes = tuple[tuple[int, ...], ...]
"""The classes of each client."""


@dataclass(frozen=True, kw_only=True)
class Pathological(Partition):
    """Each client holds κ classes and nothing else; who holds a class divides its samples equally.

    Classes are dealt at random, so that the numbers of clients that hold each of them differ by at most one, or listed
    client by client in ``table``.
    """

    classes_per_client: int = 2
    """κ: classes of each client. Not used with a table."""
    table: Classes | None = None
    """The classes of each client; dealt at random if not given."""

    def __post_init__(self) -> None:
        at_least("classes_per_client", self.classes_per_client, 1, KEY)

    @property
    def title(self) -> str:
        """Its name and κ."""
        return f"Pathological({self.classes_per_client if self.table is None else 'table'})"

    @property
    def says_who(self) -> bool:
        """Whether there is a table."""
        return self.table is not None

    def check(self, num_clients: int, num_classes: int) -> None:
        """Refuse a κ or a table that leaves classes or clients out."""
        if self.table is None:
            _check_dealing(self.classes_per_client, num_clients, num_classes)
        else:
            check_table(self.table, num_clients, num_classes)

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Deal classes, or take those listed, and divide each class among those who hold it."""
        if self.table is not None:
            return deal_classes(self.table, samples, rng)
        present = np.flatnonzero(samples.totals)
        _check_dealing(self.classes_per_client, num_clients, len(present))
        dealt = dealt_classes(num_clients, len(present), self.classes_per_client, rng)
        return deal_classes([present[row].tolist() for row in dealt], samples, rng)


def dealt_classes(clients: int, classes: int, each: int, rng: np.random.Generator) -> Ints:
    """Deal each client ``each`` different classes, always those dealt least so far, ``[clients, each]``."""
    return np.array(dealt_in_turn([each] * clients, classes, rng)).reshape(clients, each)


def dealt_in_turn(numbers: Sequence[int], classes: int, rng: np.random.Generator) -> list[Ints]:
    """Deal clients so many different classes each, one client after the other, always those dealt least so far."""
    held, dealt = np.zeros(classes, dtype=np.int64), []
    for number in numbers:
        dealt.append(np.sort(np.lexsort((rng.random(classes), held))[:number]))
        held[dealt[-1]] += 1
    return dealt


def deal_classes(table: Sequence[Sequence[int]], samples: Samples, rng: np.random.Generator) -> Ints:
    """Divide each class equally among the clients that hold it, the odd samples at random; return the owners."""
    totals, holds = samples.totals, held_by(table, samples.num_classes)
    counts = np.zeros(holds.shape, dtype=np.int64)
    for c in np.flatnonzero(totals):
        holders = np.flatnonzero(holds[:, c])
        if not 1 <= len(holders) <= totals[c]:
            raise UserError(
                f"data.partition gives class {c} to {len(holders)} clients, but it has {totals[c]} training samples: "
                "each class needs a client, and each of its clients a sample"
            )
        counts[rng.permutation(holders), c] = equal_parts(int(totals[c]), len(holders))
    return deal(samples.labels, counts, rng)


def held_by(table: Sequence[Sequence[int]], classes: int) -> NDArray[np.bool_]:
    """Mark the classes of each client, ``[clients, classes]``."""
    holds = np.zeros((len(table), classes), dtype=bool)
    for client, row in enumerate(table):
        holds[client, list(row)] = True
    return holds


def check_table(table: Classes, num_clients: int, num_classes: int) -> None:
    """Refuse a list of classes that does not fit the clients and classes there are."""
    if len(table) != num_clients:
        raise UserError(f"data.num_clients is {num_clients}, but data.partition lists the classes of {len(table)}")
    for client, row in enumerate(table):
        if not row or len(set(row)) < len(row) or not 0 <= min(row) <= max(row) < num_classes:
            raise UserError(
                f"data.partition gives client {client} the classes {list(row)}: give it different ones from 0 to "
                f"{num_classes - 1}"
            )
    left = sorted(set(range(num_classes)).difference(*table))
    if left:
        raise UserError(f"data.partition gives the classes {left} to nobody: each needs a client")


def _check_dealing(each: int, clients: int, classes: int) -> None:
    if each > classes:
        raise UserError(f"data.partition.classes_per_client is {each}, but there are {classes} classes to deal")
    if each * clients < classes:
        raise UserError(
            f"data.partition.classes_per_client is {each}: {clients} clients then hold at most {each * clients} of "
            f"{classes} classes; {-(-classes // clients)} classes each or {-(-classes // each)} clients would work"
        )
