"""When drift makes the coordinator cluster all clients anew: what triggers it, and how its threshold Δ adapts."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flcluster.clustering.diameter import TOLERANCE, any_pair_beyond, pair_sample
from flcluster.clustering.distances import Distance
from flcluster.clustering.points import Labels, Points
from flcluster.errors import UserError


class Trigger(ABC):
    """What is compared with Δ once the drifted clients have moved."""

    @abstractmethod
    def fires(
        self,
        points: Points,
        labels: Labels,
        before: Points,
        now: Points,
        delta: float,
        distance: Distance,
        seed: int,
        event: int = 0,
    ) -> bool:
        """Return whether to cluster all clients anew.

        ``points`` and ``labels`` are the clients' representations and clusters after the move; ``before`` and ``now``
        the clusters' centres before the event and after the move, row by row.
        """


@dataclass(frozen=True)
class PairDistance(Trigger):
    """Some two clients of one cluster are further apart than Δ."""

    quantile: float = 1.0
    """1 looks at every pair, exactly; below 1, this quantile of a sample of the pairs' distances counts."""
    sample: int = 100_000
    """Pairs drawn if the quantile is below 1."""

    def __post_init__(self) -> None:
        if not 0 < self.quantile <= 1:
            raise UserError(f"quantile is {self.quantile}: give a number above 0 and up to 1")
        if self.sample < 1:
            raise UserError(f"sample is {self.sample}: give at least 1 pair")

    def fires(
        self,
        points: Points,
        labels: Labels,
        before: Points,
        now: Points,
        delta: float,
        distance: Distance,
        seed: int,
        event: int = 0,
    ) -> bool:
        """Compare the largest distance, or its quantile."""
        if self.quantile == 1:
            return any_pair_beyond(points, labels, delta, distance)
        distances = pair_sample(points, labels, distance, self.sample, seed, event)
        return len(distances) > 0 and float(np.quantile(distances, self.quantile)) > delta + TOLERANCE


@dataclass(frozen=True)
class CentreShift(Trigger):
    """Some cluster's centre has moved by more than Δ."""

    def fires(
        self,
        points: Points,
        labels: Labels,
        before: Points,
        now: Points,
        delta: float,
        distance: Distance,
        seed: int,
        event: int = 0,
    ) -> bool:
        """Compare the largest move of a centre."""
        return float(distance.paired(before, now).max(initial=0.0)) > delta + TOLERANCE


class DeltaRule(ABC):
    """How Δ starts and changes from event to event."""

    @property
    @abstractmethod
    def initial(self) -> float:
        """Δ at the first event."""

    @abstractmethod
    def update(self, delta: float, fired: bool, fired_before: bool) -> float:
        """Return Δ for the next event, given whether this event and the one before it clustered all clients anew.

        The first event has none before it (False); the clustering at the start is no event.
        """


@dataclass(frozen=True)
class PrintedRule(DeltaRule):
    """Δ·m when two events in a row triggered, else max(c, Δ − c), after a single trigger too: the rule as printed."""

    c: float = 0.1
    """Δ at the start, its smallest value, and the step by which it falls; in the unit of the distance."""
    m: float = 2.0
    """Factor by which Δ grows."""

    def __post_init__(self) -> None:
        if not (self.c > 0 and math.isfinite(self.c)):
            raise UserError(f"c is {self.c}: give a positive number, Δ's start, step and smallest value")
        if not (self.m > 1 and math.isfinite(self.m)):
            raise UserError(f"m is {self.m}: give a number above 1, Δ's factor after two triggers in a row")

    @property
    def initial(self) -> float:
        """Start at c."""
        return self.c

    def update(self, delta: float, fired: bool, fired_before: bool) -> float:
        """Grow after two triggers in a row, fall otherwise."""
        return delta * self.m if fired and fired_before else max(self.c, delta - self.c)


@dataclass(frozen=True)
class HoldOnSingle(PrintedRule):
    """Δ·m when two events in a row triggered, unchanged after a single trigger, max(c, Δ − c) if nothing triggered.

    This counts re-clusterings as the paper's table over m does; the printed rule counts more.
    """

    def update(self, delta: float, fired: bool, fired_before: bool) -> float:
        """Grow after two triggers in a row, hold after one, fall after none."""
        return delta if fired and not fired_before else super().update(delta, fired, fired_before)


@dataclass(frozen=True)
class FixedDelta(DeltaRule):
    """The same Δ throughout."""

    may_be_infinite: ClassVar[tuple[str, ...]] = ("delta",)

    delta: float
    """The threshold, in the unit of the distance; 0 triggers at any difference, inf never."""

    def __post_init__(self) -> None:
        if not self.delta >= 0:
            raise UserError(f"delta is {self.delta}: give a number of at least 0")

    @property
    def initial(self) -> float:
        """Start at it."""
        return self.delta

    def update(self, delta: float, fired: bool, fired_before: bool) -> float:
        """Stay."""
        return self.delta
