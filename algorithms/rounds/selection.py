"""Which clients of a cluster train in a round: replaceable parts of round methods."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.jobs import Trained
from flcluster.protocol.needs import CLASSES

Memory = dict[str, Tensor]

Ids = NDArray[np.int64]


PerClient = Callable[[Ids], NDArray[np.float64]]


@dataclass(frozen=True)
class Asked:
    """What a selection may ask about clients."""

    distance: PerClient
    """How far their data lie from the centre of their cluster."""
    seconds: PerClient
    """How long they would take for this round."""
    work: PerClient
    """How many of their samples they would train on, each counted once."""


class Selection(ABC):
    """Picks clients. What it remembers between rounds is a dict of small tensors."""

    needs_start_loss: ClassVar[bool] = False
    """Whether clients must report the losses of the model they received (``Trained.start_square``)."""

    def start(self, clients: int) -> Memory:
        """Return the memory before the first round."""
        return {}

    @abstractmethod
    def pick(self, pool: Ids, count: int, t: int, memory: Memory, look: Asked, draw: np.random.Generator) -> Ids:
        """Choose ``count`` (at most all) of ``pool`` without replacement."""

    def learn(self, memory: Memory, t: int, trained: Sequence[Trained[Any]], look: Asked) -> Memory:
        """Take in what a round's participants reported."""
        return memory


@dataclass(frozen=True)
class RandomSelection(Selection):
    """Uniformly without replacement."""

    def pick(self, pool: Ids, count: int, t: int, memory: Memory, look: Asked, draw: np.random.Generator) -> Ids:
        """Draw."""
        return draw.choice(pool, min(count, len(pool)), replace=False)


@dataclass(frozen=True)
class WithReplacement(Selection):
    """Uniformly and independently: a client may be picked several times, and trains as often (Algorithm 4)."""

    def pick(self, pool: Ids, count: int, t: int, memory: Memory, look: Asked, draw: np.random.Generator) -> Ids:
        """Draw as many as are wanted, however few there are."""
        return draw.choice(pool, count, replace=True) if len(pool) else pool


@dataclass(frozen=True)
class DistanceSelection(Selection):
    """Clients nearer to the centre of their cluster are likelier: probability ∝ 1 / (ε + distance)."""

    needs: ClassVar[tuple[str, ...]] = (CLASSES,)

    epsilon: float = 0.01
    """ε"""

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise UserError(f"selection.epsilon must be above 0, got {self.epsilon}")

    def pick(self, pool: Ids, count: int, t: int, memory: Memory, look: Asked, draw: np.random.Generator) -> Ids:
        """Draw without replacement."""
        if not len(pool):
            return pool
        weight = 1 / (self.epsilon + look.distance(pool))
        return draw.choice(pool, min(count, len(pool)), replace=False, p=weight / weight.sum())


def quotas(sizes: list[int], total: int) -> list[int]:
    """Share ``total`` participants among clusters: equally, at most the cluster's size, the rest to the largest.

    Every cluster that has clients trains at least one, so that more clusters than ``total`` train more clients.

    Example:
        >>> quotas([50, 2, 0, 30], 20)
        [11, 2, 0, 7]
    """
    share = max(1, round(total / max(1, sum(size > 0 for size in sizes))))
    quota = [min(share, size) for size in sizes]
    while sum(quota) > total and max(quota) > 1:  # rounded up: take back from the largest quotas, at least one stays
        quota[max(range(len(quota)), key=lambda k: (quota[k], -sizes[k], k))] -= 1
    rest = total - sum(quota)
    for k in sorted(range(len(sizes)), key=lambda k: (-sizes[k], k)):
        more = min(max(rest, 0), sizes[k] - quota[k])
        quota[k] += more
        rest -= more
    return quota
