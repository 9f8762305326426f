"""Label mixtures that move with time: stand-ins for video frames and for dated images, on any labelled dataset."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints, systematic
from flcluster.errors import UserError, above, at_least, probability, refuse

from .arrivals import KEY, ArrivalPlan, SampleArrivals, StreamSetting
from .filling import Places, fill, places_of

CHUNK = 2_000_000
"""Numbers in memory at a time: clients are drawn in chunks of this many, over their times and labels."""


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Wandering(ArrivalPlan):
    """Clients whose label mixture starts at a Dirichlet draw and walks at random in log space, time by time.

    Args:
        samples: Fewest and most samples of a client, train and test, over all rounds.
        concentration: How even a client's labels are at first (Dirichlet).
        wander: Standard deviation of a label's log odds from one time to the next; 0 stands still.
        reuse: Let clients hold the same samples; otherwise each sample goes to one client.
    """

    samples: tuple[int, int] = (200, 400)
    concentration: float = 0.5
    wander: float = 0.42
    reuse: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.samples[0] <= self.samples[1]:
            raise UserError(f"data.arrivals.samples is {self.samples}: give the fewest and the most, as in (200, 400)")
        above("concentration", self.concentration, 0, KEY)
        if not 0 <= self.wander <= 100:
            refuse("wander", "between 0 and 100", self.wander, KEY)

    def draw(self, setting: StreamSetting) -> SampleArrivals:
        """Draw when clients get how many of which label, then which samples."""
        rng = seeds.rng(setting.seed, "wandering")
        chunks = [self.places(clients, setting, rng) for clients in self._chunks(setting)]
        return fill(Places(*(np.concatenate(columns) for columns in zip(*chunks, strict=True))), setting, self.reuse)

    @property
    @abstractmethod
    def times(self) -> int:
        """How many times there are at which samples may arrive."""

    @abstractmethod
    def places(self, clients: Ints, setting: StreamSetting, rng: np.random.Generator) -> Places:
        """Draw the places of some clients."""

    def walk(self, count: int, num_classes: int, rng: np.random.Generator) -> Floats:
        """Return the log odds of the labels of some clients, ``[count, times, num_classes]``."""
        steps = self.wander * rng.standard_normal((count, self.times, num_classes))
        steps[:, 0] = self.first(count, num_classes, rng)
        return np.cumsum(steps, axis=1)

    def first(self, count: int, num_classes: int, rng: np.random.Generator) -> Floats:
        """Return the log odds of the labels of some clients at first."""
        return np.log(np.maximum(rng.gamma(self.concentration, size=(count, num_classes)), 1e-30))

    def _chunks(self, setting: StreamSetting) -> Iterator[Ints]:
        size = max(1, CHUNK // (self.times * setting.num_classes))
        for start in range(0, setting.num_clients, size):
            yield np.arange(start, min(start + size, setting.num_clients))


@dataclass(frozen=True)
class FrameIntervals(Wandering):
    """Sequences of frames in consecutive intervals: interval ``j`` arrives at round ``j * gap - window``.

    For the videos of Cityscapes (gap 30) and Waymo (gap 20). Without real frames, a client's label mixture moves
    from one interval to the next; within one the labels are as even as whole numbers allow, as neighbouring frames are
    alike. On ten classes the defaults move label histograms by 0.14 (L1) at an event on average, with both gaps, as the
    paper's videos do.

    Args:
        intervals: Number of intervals.
        gap: Rounds between intervals.
    """

    intervals: int = 10
    gap: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("intervals", self.intervals, 1, KEY)
        at_least("gap", self.gap, 1, KEY)

    @property
    def times(self) -> int:
        """The intervals."""
        return self.intervals

    def places(self, clients: Ints, setting: StreamSetting, rng: np.random.Generator) -> Places:
        """Draw the places of some clients, interval by interval."""
        n, count = len(clients), self.intervals
        total = rng.integers(*self.samples, size=n, endpoint=True)
        ends = total[:, None] * np.arange(count + 1) // count
        shares = softmax(self.walk(n, setting.num_classes, rng))
        counts = systematic(shares, np.diff(ends, axis=1), np.repeat(rng.random((n, 1)), count, axis=1))
        arrival = np.tile(np.arange(count) * self.gap - setting.window, n)
        return places_of(np.repeat(clients, count), arrival, counts.reshape(-1, setting.num_classes))


@dataclass(frozen=True)
class Timestamps(Wandering):
    """Dated samples: day ``d`` arrives at round ``rounds_per_day * d - window``.

    For the satellite images of FMoW. Without real dates, a client's samples come in bursts with days of nothing in
    between, its label mixture moves from day to day, and in a range of days most clients jump to a new mixture, each on
    a day of its own: with the defaults in rounds 600 to 730, as in the paper's Figure 1. On ten classes and 302 clients
    the defaults move label histograms by 0.31 (L1) at an event on average; the paper's satellite images by 0.30.

    Args:
        days: Number of days.
        rounds_per_day: Rounds of training in a day.
        scatter: Standard deviation of a label's log odds on single days, on top of the walk.
        burst: Unevenness of a client's days (shape of a gamma distribution): near 0 all in few days, 1 and more even.
        jump_days: First and last day of the widespread jump; null for none.
        jump_share: Share of clients that jump.
    """

    samples: tuple[int, int] = (300, 900)
    wander: float = 0.05
    days: int = 1050
    rounds_per_day: int = 2
    scatter: float = 1.0
    burst: float = 0.015
    jump_days: tuple[int, int] | None = (350, 415)
    jump_share: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("days", self.days, 1, KEY)
        at_least("rounds_per_day", self.rounds_per_day, 1, KEY)
        above("burst", self.burst, 0, KEY)
        if self.jump_days is not None and not 0 <= self.jump_days[0] <= self.jump_days[1]:
            raise UserError(f"data.arrivals.jump_days is {self.jump_days}: give the first and the last day, or null")
        probability("jump_share", self.jump_share, KEY)

    @property
    def times(self) -> int:
        """The days."""
        return self.days

    def places(self, clients: Ints, setting: StreamSetting, rng: np.random.Generator) -> Places:
        """Draw the places of some clients, day by day."""
        n, classes = len(clients), setting.num_classes
        activity = np.maximum(rng.gamma(self.burst, size=(n, self.days)), 1e-30)
        total = rng.integers(*self.samples, size=n, endpoint=True)
        per_day: Ints = np.asarray(rng.multinomial(total, activity / activity.sum(axis=1, keepdims=True)))
        odds = self.walk(n, classes, rng)
        if self.jump_days is not None:
            self._jump(odds, rng)
        row, day = np.nonzero(per_day)
        shares = softmax(odds[row, day] + self.scatter * rng.standard_normal((len(row), classes)))
        counts = systematic(shares, per_day[row, day], rng.random(len(row)))
        return places_of(clients[row], day * self.rounds_per_day - setting.window, counts)

    def _jump(self, odds: Floats, rng: np.random.Generator) -> None:
        """Let most clients walk on from a new first mixture, each from a day of its own (in place)."""
        assert self.jump_days is not None
        n, _, classes = odds.shape
        way = self.first(n, classes, rng) - odds[:, 0]
        way[rng.random(n) >= self.jump_share] = 0
        onset = rng.integers(*self.jump_days, size=(n, 1), endpoint=True)
        odds += way[:, None, :] * (np.arange(self.days) >= onset)[:, :, None]


def softmax(odds: Floats) -> Floats:
    """Return shares that sum to 1 over the last axis."""
    shares: Floats = np.exp(odds - odds.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares
