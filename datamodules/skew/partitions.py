"""Who holds which labels: rules that divide labelled samples among clients, each of them replaceable."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError, at_least

KEY = "data.partition."


class Samples(NamedTuple):
    """What a partition is told of the samples it divides; it names them by their position here."""

    labels: Ints
    num_classes: int
    ids: Ints | None = None
    """The number of each sample's natural owner, where the partition reads one."""

    @property
    def totals(self) -> Ints:
        """How many samples each class has."""
        return np.bincount(self.labels, minlength=self.num_classes)

    def where(self, chosen: Ints | NDArray[np.bool_]) -> "Samples":
        """Return some of the samples, by position or by a mask."""
        return Samples(self.labels[chosen], self.num_classes, None if self.ids is None else self.ids[chosen])


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """Divides samples among clients. Holds hyper-parameters only; a partition of your own implements :meth:`draw`."""

    @property
    def title(self) -> str:
        """What tables call it, with what matters most."""
        return type(self).__name__

    @property
    def dropouts(self) -> tuple[int, ...]:
        """Clients that this partition means to drop out of training."""
        return ()

    @property
    def says_who(self) -> bool:
        """Whether it is given who holds which class, so that none can be set apart for somebody."""
        return False

    @property
    def by_label(self) -> bool:
        """Whether it looks at labels, so that it cannot divide samples without any."""
        return True

    def check(self, num_clients: int, num_classes: int) -> None:  # noqa: B027 (most have nothing to refuse)
        """Refuse what no data could give, before any is read."""

    @abstractmethod
    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Return the client of each sample, −1 for nobody's; raise a UserError that names the key if it cannot be."""

    def owners(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Draw the client of each sample, and refuse a partition that leaves a client without any."""
        if num_clients > len(samples.labels):
            raise UserError(
                f"data.num_clients is {num_clients}, but there are {len(samples.labels)} training samples: each client "
                "needs one"
            )
        found = self.draw(samples, num_clients, rng)
        held = np.bincount(found[found >= 0], minlength=num_clients)
        if not held.all():
            raise UserError(f"data.partition leaves client {int(held.argmin())} of {num_clients} without any sample")
        return found


@dataclass(frozen=True, kw_only=True)
class IID(Partition):
    """Shuffle and divide equally: no skew at all, to compare with. Sizes differ by at most one."""

    @property
    def by_label(self) -> bool:
        """All labels are alike to it."""
        return False

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Deal shuffled samples one by one."""
        return rng.permutation(np.arange(len(samples.labels)) % num_clients)


@dataclass(frozen=True, kw_only=True)
class Shards(Partition):
    """Samples sorted by label, cut into equal shards, and as many shards to each client at random (FedAvg's)."""

    per_client: int = 2
    """Shards of a client; it holds about as many classes."""

    def __post_init__(self) -> None:
        at_least("per_client", self.per_client, 1, KEY)

    @property
    def title(self) -> str:
        """Its name and the number of shards."""
        return f"Shards({self.per_client})"

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Sort by label, at random among equals, and deal the shards."""
        shards, total = num_clients * self.per_client, len(samples.labels)
        if shards > total:
            raise UserError(
                f"data.partition.per_client is {self.per_client}: {num_clients} clients need {shards} shards, but "
                f"there are {total} training samples; at most {total // num_clients} a client would work"
            )
        order = np.lexsort((rng.random(total), samples.labels))
        owner = np.empty(total, dtype=np.int64)
        dealt = rng.permutation(np.arange(shards) % num_clients)
        owner[order] = np.repeat(dealt, equal_parts(total, shards))
        return owner


def equal_parts(total: int, parts: int) -> Ints:
    """Divide a number into parts that differ by at most one, the larger first.

    >>> equal_parts(8, 3).tolist()
    [3, 3, 2]
    """
    return total // parts + (np.arange(parts) < total % parts)
