"""AP-FL's dropout setting: a client alone holds some classes and drops out, as printed, or with other numbers."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal

import numpy as np

from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

from .partitions import Partition, Samples
from .pathological import Classes, check_table, deal_classes, dealt_in_turn


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


def _check_missing(missing: int) -> None:
    if missing not in (10, 20):
        raise UserError(f"data.partition.missing is {missing}: it must be 10 or 20")


def _printed() -> list[dict[str, str]]:
    """Read the paper's table, a row each client."""
    text = resources.files(__package__).joinpath("apfl_table1.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
