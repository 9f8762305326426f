"""Who holds what at which round: arrivals sorted into timelines, and the rule of the window."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints

from .arrivals import SampleArrivals, StreamSetting
from .looks import LabelledSource
from .timeline import Timeline, split_along_time

Purpose = Literal["train", "test", "val"]


@dataclass(frozen=True, eq=False)
class Holding:
    """All clients' training and test samples over time.

    The clock ticks with arrivals: at round t, with τ the last tick up to t, clients hold what arrived in
    (τ - window, τ]; before the first tick they hold what arrived in [-window, 0].
    """

    train: Timeline
    test: Timeline
    val: Timeline
    """Samples that would train but validate; none without a share for that."""
    ticks: Ints
    """The rounds above 0 at which something arrives for anyone, ascending."""
    window: int
    num_clients: int

    @classmethod
    def of(cls, found: SampleArrivals, setting: StreamSetting, pool: Ints, val_share: float = 0.0) -> "Holding":
        """Sort arrivals by client and time, part them into train and test unless they say how, and name the samples.

        Sample ``i`` of the setting is sample ``pool[i]`` of the source.
        """
        rng, num_clients = seeds.rng(setting.seed, "stream split"), setting.num_clients
        first = int(found.arrival.min()) if len(found.arrival) else 0
        width = int(found.arrival.max()) - first + 1 if len(found.arrival) else 1
        moment = found.client * width + (found.arrival - first)
        jitter = rng.random(len(moment)) if found.test is None else 0  # random among equals
        order = np.argsort(moment + jitter, kind="stable")
        sample, client, arrival = pool[found.sample[order]], found.client[order], found.arrival[order]
        if found.test is not None:
            test = found.test[order]
        else:
            test = split_along_time(client, setting.test_share, num_clients, rng)
        drawn = np.flatnonzero(seeds.rng(setting.seed, "validation").random(1 + int(pool.max(initial=0))) < val_share)
        val = np.isin(sample, np.setdiff1d(drawn, sample[test]))  # whoever holds it, and tests nobody
        lines = [Timeline.of(sample[part], client[part], arrival[part]) for part in (~test & ~val, test, val)]
        return cls(lines[0], lines[1], lines[2], np.unique(arrival[arrival > 0]), setting.window, num_clients)

    def line(self, split: Purpose) -> Timeline:
        """Return the timeline of a split."""
        return {"train": self.train, "test": self.test, "val": self.val}[split]

    def bounds(self, cycle: int) -> tuple[int, int]:
        """Return (after, upto): at a round clients hold what arrived later than the one and no later than the other."""
        past = int(np.searchsorted(self.ticks, cycle, side="right"))
        tick = int(self.ticks[past - 1]) if past else 0
        return tick - self.window - (past == 0), tick

    def changed(self, cycle: int) -> NDArray[np.bool_]:
        """Mark the clients for whom a sample comes or goes at a round."""
        changed, everyone = np.zeros(self.num_clients, dtype=bool), np.arange(self.num_clients)
        for before, now in zip(self.bounds(cycle - 1), self.bounds(cycle), strict=True):  # what goes, what comes
            for line in (self.train, self.test, self.val) if now > before else ():
                starts, ends = line.spans(everyone, before, now)
                changed |= ends > starts
        return changed


class Loaded(NamedTuple):
    """A dataset in memory."""

    source: LabelledSource
    pool: Ints
    """The samples that the stream is made of."""
    reserve: Ints
    """The samples that the server's proxy set is taken from; it is taken out of the pool where it is part of it."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Everything that a stream draws once, and how it is read."""

    source: LabelledSource
    labels: Ints
    """The true label of every sample of the source."""
    holding: Holding
    shared: Ints
    """What every client holds for training, always."""
    proxy: Ints
    """What the server holds."""
    num_classes: int

    def held(self, split: Purpose, client: int, cycle: int) -> Ints:
        """Return the samples of a split that a client holds at a round, shared ones last."""
        line = self.holding.line(split)
        own = line.sample[line.held(client, *self.holding.bounds(cycle))]
        return np.concatenate([own, self.shared if split == "train" else self.shared[:0]])

    def rounds(self, client: int, cycle: int) -> Ints:
        """Return when the training samples that a client holds arrived, shared ones at the very first round."""
        own = self.holding.train.arrival_of(client, *self.holding.bounds(cycle))
        return np.concatenate([own, np.full(len(self.shared), -self.holding.window)])

    def sizes_of(self, clients: Ints, split: Purpose, cycle: int) -> Ints:
        """Return how many samples of a split some clients hold."""
        starts, ends = self.holding.line(split).spans(clients, *self.holding.bounds(cycle))
        return ends - starts + (len(self.shared) if split == "train" else 0)

    def label_counts(self, clients: Ints, cycle: int) -> Ints:
        """Count the true training labels of some clients, ``[n, num_classes]``."""
        own = self.holding.train.counts(clients, *self.holding.bounds(cycle), self.labels, self.num_classes)
        return own + np.bincount(self.labels[self.shared], minlength=self.num_classes)
