"""Samples of many clients over time in a few flat arrays: who holds what at a round is a slice of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcluster.datamodules.sources.counts import Ints, flatten, rank_in_runs


@dataclass(frozen=True, eq=False)
class Timeline:
    """Samples sorted by client and then by arrival, so that what arrived between two rounds lies together."""

    sample: NDArray[np.int32]
    key: Ints
    """``client * width + arrival - first``, ascending: one binary search finds a client and a round."""
    first: int
    """The earliest arrival."""
    width: int
    """Rounds from the earliest to the latest arrival, both counted."""

    @classmethod
    def of(cls, sample: Ints, client: Ints, arrival: Ints) -> "Timeline":
        """Build it from samples that are already sorted by client and arrival."""
        first, last = (int(arrival.min()), int(arrival.max())) if len(arrival) else (0, 0)
        width = last - first + 1
        return cls(sample.astype(np.int32), client.astype(np.int64) * width + (arrival - first), first, width)

    def spans(self, clients: Ints, after: int, upto: int) -> tuple[Ints, Ints]:
        """Return where each client's samples with ``after < arrival <= upto`` start and end."""
        low, high = (min(max(edge - self.first, -1), self.width - 1) for edge in (after, upto))
        base = np.asarray(clients, dtype=np.int64) * self.width
        starts, ends = (np.searchsorted(self.key, base + edge, side="right") for edge in (low, high))
        return starts, np.maximum(starts, ends)

    def held(self, client: int, after: int, upto: int) -> slice:
        """Return the slice of one client's samples with ``after < arrival <= upto``."""
        starts, ends = self.spans(np.array([client]), after, upto)
        return slice(int(starts[0]), int(ends[0]))

    def arrival_of(self, client: int, after: int, upto: int) -> Ints:
        """Return the rounds at which those samples of a client arrived."""
        return self.key[self.held(client, after, upto)] - client * self.width + self.first

    def counts(self, clients: Ints, after: int, upto: int, labels: Ints, num_classes: int) -> Ints:
        """Count the labels of each client's samples with ``after < arrival <= upto``, ``[n, num_classes]``."""
        row, position = flatten(*self.spans(clients, after, upto))
        cell = row * num_classes + labels[self.sample[position]]
        return np.bincount(cell, minlength=len(clients) * num_classes).reshape(len(clients), num_classes)


def split_along_time(client: Ints, share: float, num_clients: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark the test samples among samples sorted by client and time: every ``1 / share``-th, from a random phase.

    Each stretch of time gives its share; with a share of at most one half no two neighbours are both tests.
    """
    rank = rank_in_runs(np.bincount(client, minlength=num_clients))
    before = rank * share + rng.random(num_clients)[client]
    return np.floor(before + share) > np.floor(before)
