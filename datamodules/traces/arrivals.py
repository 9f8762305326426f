"""When the samples of real clients arrive: by their dates, in intervals of their time, or by their labels."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints, rank_in_runs
from flcluster.datamodules.streams.arrivals import KEY, ArrivalPlan, SampleArrivals, StreamSetting
from flcluster.errors import UserError, above, at_least

from .manifest import days_since_1970, parse_date


@dataclass(frozen=True, eq=False)
class TraceSetting(StreamSetting):
    """What a plan for real clients is told beside: whose each sample is, and its time."""

    client: Ints
    time: NDArray[np.float64]
    """Numbers as in the manifest, or days since 1970."""
    first: float
    """The earliest time of the whole manifest."""


@dataclass(frozen=True)
class TracePlan(ArrivalPlan):
    """A plan that leaves every sample with its client and says when it arrives."""

    def draw(self, setting: StreamSetting) -> SampleArrivals:
        """Return when each client's samples arrive; those that never do are left out."""
        if not isinstance(setting, TraceSetting):
            raise UserError(
                f"data.arrivals {type(self).__name__} needs clients and times from a file: use it with TraceDataModule"
            )
        arrival = self.rounds(setting)
        sample = np.flatnonzero(arrival >= -setting.window)
        return SampleArrivals(sample, setting.client[sample], arrival[sample])

    @abstractmethod
    def rounds(self, setting: TraceSetting) -> Ints:
        """Return the round each sample arrives at; below ``-window`` for never."""


@dataclass(frozen=True)
class TraceDays(TracePlan):
    """Samples arrive on their day: day ``d`` at round ``d * rounds_per_day - window`` (FMoW: two rounds a day).

    Args:
        rounds_per_day: Rounds that a day lasts; of a unit of time, where times are plain numbers.
        start: The first day, as a date (or a number, where times are numbers); earlier samples are left out. The day of
            the earliest sample if not given.
    """

    rounds_per_day: float = 2.0
    start: str | None = None

    def __post_init__(self) -> None:
        above("rounds_per_day", self.rounds_per_day, 0, KEY)
        self.first_day(0.0)

    def first_day(self, earliest: float) -> float:
        """Return the day that counts as day 0."""
        if self.start is None:
            return math.floor(earliest)
        try:
            return float(self.start)
        except ValueError:
            pass
        try:
            return float(days_since_1970(parse_date(self.start)))
        except ValueError as error:
            raise UserError(f"data.arrivals.start: {error}") from error

    def rounds(self, setting: TraceSetting) -> Ints:
        """Count the days since the first."""
        day = np.floor(setting.time - self.first_day(setting.first))
        if not (day >= 0).any():
            raise UserError(f"data.arrivals.start is {self.start}, but no sample is that late")
        arrival = np.floor(day * self.rounds_per_day).astype(np.int64)
        return np.where(day >= 0, arrival, -1) - setting.window


@dataclass(frozen=True)
class TraceIntervals(TracePlan):
    """Each client's samples in the order of time, cut into intervals of equally many; one arrives after the other.

    Interval ``j`` arrives at round ``j * gap - window`` (Cityscapes: a gap of 30 rounds, Waymo Open: 20).

    Args:
        intervals: Number of intervals.
        gap: Rounds between them.
    """

    intervals: int = 10
    gap: int = 30

    def __post_init__(self) -> None:
        at_least("intervals", self.intervals, 1, KEY)
        at_least("gap", self.gap, 1, KEY)

    def rounds(self, setting: TraceSetting) -> Ints:
        """Rank each client's samples by time."""
        order = np.lexsort((setting.time, setting.client))
        sizes = np.bincount(setting.client, minlength=setting.num_clients)
        interval = np.empty(len(order), dtype=np.int64)
        interval[order] = rank_in_runs(sizes) * self.intervals // sizes[setting.client[order]]
        return interval * self.gap - setting.window


@dataclass(frozen=True)
class TraceLabelBuckets(TracePlan):
    """Each client parts its labels at random into buckets; bucket ``j`` arrives at round ``j * gap - window``.

    Open Images has 10 buckets and a gap of 50 rounds.

    Args:
        buckets: Number of buckets; a client with fewer labels has one for each label.
        gap: Rounds between them.
    """

    buckets: int = 10
    gap: int = 50

    def __post_init__(self) -> None:
        at_least("buckets", self.buckets, 1, KEY)
        at_least("gap", self.gap, 1, KEY)

    def rounds(self, setting: TraceSetting) -> Ints:
        """Put the labels of each client into a random order, and cut it into buckets."""
        pairs, place = np.unique(setting.client * setting.num_classes + setting.labels, return_inverse=True)
        client = pairs // setting.num_classes
        held = np.bincount(client, minlength=setting.num_clients)
        order = np.lexsort((seeds.rng(setting.seed, "label buckets").random(len(pairs)), client))
        bucket = np.empty(len(pairs), dtype=np.int64)
        bucket[order] = rank_in_runs(held) * np.minimum(self.buckets, held[client]) // held[client]
        return bucket[place] * self.gap - setting.window
