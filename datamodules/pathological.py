"""Clients that hold a few classes each, by chance or by a list, and AP-FL's dropout setting: printed and dealt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.tables import read_table

from .dealing import deal
from .partitions import Partition, Samples, equal_parts
from .timeline import Ints

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
        if self.classes_per_client < 1:
            raise UserError(f"data.partition.classes_per_client is {self.classes_per_client}: it must be at least 1")

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


@dataclass(frozen=True, kw_only=True)
class APFLTable1(Partition):
    """AP-FL's Table 1: ten clients with two of ten classes each. Client 8 alone holds the last two, and drops out.

    With more than ten classes, class ``i`` of the table stands for the ``i``-th tenth of them, so that clients hold a
    fifth. The table misses 20 % of the classes when client 8 is away; for 10 %, client 4 has class 8 in place of class
    2 (which two others hold), so that client 8 is alone with class 9 only.
    """

    missing: Literal[10, 20] = 20
    """Per cent of the classes that only the dropout holds."""

    def __post_init__(self) -> None:
        _check_missing(self.missing)

    @property
    def title(self) -> str:
        """The table and what it misses."""
        return f"AP-FL Table 1 ({self.missing} % missing)"

    @property
    def dropouts(self) -> tuple[int, ...]:
        """The table's client that drops out."""
        return tuple(int(row["device"]) for row in _printed() if row["role"] == "dropout")

    @property
    def says_who(self) -> bool:
        """It is a table."""
        return True

    def check(self, num_clients: int, num_classes: int) -> None:
        """Refuse other numbers of clients than the table's, and fewer classes."""
        if num_classes < 10:
            raise UserError(f"data.partition: AP-FL's Table 1 needs ten classes or more, not {num_classes}")
        check_table(self.table(num_classes), num_clients, num_classes)

    def table(self, num_classes: int) -> Classes:
        """Return the classes of each client."""
        tenths = [[int(name) for name in row["classes"].split()] for row in _printed()]
        if self.missing == 10:
            tenths[4] = [4, 8]
        return in_tenths(tenths, num_classes)

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Divide each class among those who hold it."""
        return deal_classes(self.table(samples.num_classes), samples, rng)


@dataclass(frozen=True, kw_only=True)
class PathologicalDropout(Partition):
    """AP-FL's dropout setting with any κ: each client holds κ tenths of the classes, and one drops out.

    The dropout alone holds the last one or two tenths, and the rest of its κ as the others do: dealt at random, always
    those that fewest hold. Who holds a class divides its samples equally. What the paper's Table 1 prints is a case of
    κ = 2 (``APFLTable1``); what its Table 3 prints for a client that trains alone needs more classes than two.
    """

    classes_per_client: int = 5
    """κ, in tenths of the classes: with ten classes their number. Five is chosen by calibration (see the docs)."""
    missing: Literal[10, 20] = 20
    """Per cent of the classes that only the dropout holds."""
    dropout: int = 8
    """The client that drops out."""

    def __post_init__(self) -> None:
        _check_missing(self.missing)
        seen = 10 - self.missing // 10
        if not self.missing // 10 <= self.classes_per_client <= seen:
            raise UserError(
                f"data.partition.classes_per_client is {self.classes_per_client}: it must be from {self.missing // 10} "
                f"(what the dropout alone holds) to {seen} (what is left for the others)"
            )

    @property
    def title(self) -> str:
        """κ and what is missing."""
        return f"AP-FL dropout (κ = {self.classes_per_client}, {self.missing} % missing)"

    @property
    def dropouts(self) -> tuple[int, ...]:
        """The client that drops out."""
        return (self.dropout,)

    @property
    def says_who(self) -> bool:
        """It says who alone holds what."""
        return True

    def check(self, num_clients: int, num_classes: int) -> None:
        """Refuse too few classes for tenths, a dropout that there is not, and classes that nobody would hold."""
        if num_classes < 10:
            raise UserError(f"data.partition: tenths of classes need ten classes or more, not {num_classes}")
        if not 0 <= self.dropout < num_clients:
            raise UserError(f"data.partition.dropout is {self.dropout}: it must be from 0 to {num_clients - 1}")
        seen, each = 10 - self.missing // 10, self.classes_per_client
        if (num_clients - 1) * each < seen:
            raise UserError(
                f"data.partition.classes_per_client is {each}: the {num_clients - 1} clients that stay then hold at "
                f"most {(num_clients - 1) * each} of the {seen} tenths of the classes that are not the dropout's; "
                f"{-(-seen // each) + 1} clients would work"
            )

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Deal tenths to those who stay and then to the dropout, and divide each class among those who hold it."""
        alone, each = self.missing // 10, self.classes_per_client
        dealt = dealt_in_turn([each] * (num_clients - 1) + [each - alone], 10 - alone, rng)
        rows = [row.tolist() for row in dealt]
        last = [*rows.pop(), *range(10 - alone, 10)]
        return deal_classes(
            in_tenths([*rows[: self.dropout], last, *rows[self.dropout :]], samples.num_classes), samples, rng
        )


def in_tenths(rows: Sequence[Sequence[int]], num_classes: int) -> Classes:
    """Return the classes of clients that hold tenths of all classes, in the order of labels, edges rounded."""
    edges = [round(tenth * num_classes / 10) for tenth in range(11)]
    return tuple(tuple(c for i in row for c in range(edges[i], edges[i + 1])) for row in rows)


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


def _check_missing(missing: int) -> None:
    if missing not in (10, 20):
        raise UserError(f"data.partition.missing is {missing}: it must be 10 or 20")


def _printed() -> list[dict[str, str]]:
    return read_table("apfl_table1_partition")
