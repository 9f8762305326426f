"""When devices are online: periods of each device, repeated for ever."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from flcluster.seeds import rng

DAY = 86_400.0


DAYS = 7


Periods = tuple[Sequence[float], Sequence[float], float]
"""Starts and ends of one device's online periods, and the time after which they repeat."""


@dataclass(frozen=True, eq=False)
class Availability:
    """Online periods of many devices, one device's after another's, and the device of each client.

    Device d is online at time t if ``starts[i] <= (t + shift[d]) mod cycle[d] <= ends[i]`` for one of its periods
    ``offsets[d] <= i < offsets[d + 1]``. A device's starts ascend, and so do its ends.
    """

    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    offsets: NDArray[np.int64]
    cycle: NDArray[np.float64]
    shift: NDArray[np.float64]
    device: NDArray[np.int64]
    """The device each client has."""

    def online(self, clients: NDArray[np.int64], at: NDArray[np.float64] | float) -> NDArray[np.bool_]:
        """Say which clients are online, at one time or at one time each."""
        device = self.device[clients]
        time = (at + self.shift[device]) % self.cycle[device]
        after = np.searchsorted(self._starts, _keys(device, time), side="right")
        begun = after > self.offsets[device]
        return begun & (time <= self.ends[np.where(begun, after - 1, 0)]) if len(self.ends) else begun

    @cached_property
    def _starts(self) -> NDArray[np.complex128]:
        """Device and start of every period, ascending: one binary search finds a device and a time."""
        return _keys(np.repeat(np.arange(len(self.cycle)), np.diff(self.offsets)), self.starts)


def _keys(device: NDArray[np.int64], time: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return complex numbers: NumPy sorts them by their real part, then by the other, so by device and then by time."""
    keys = np.empty(len(device), dtype=np.complex128)
    keys.real, keys.imag = device, time
    return keys


def from_periods(periods: Sequence[Periods], device: NDArray[np.int64]) -> Availability:
    """Build the table from each device's periods; periods that end before they start are left out."""
    starts = np.fromiter(chain.from_iterable(p[0] for p in periods), np.float64)
    ends = np.fromiter(chain.from_iterable(p[1] for p in periods), np.float64)
    owner = np.repeat(np.arange(len(periods)), [len(p[0]) for p in periods])
    order = np.lexsort((starts, owner))
    order = order[(starts <= ends)[order]]
    starts, ends, owner = starts[order], ends[order], owner[order]
    offsets = np.searchsorted(owner, np.arange(len(periods) + 1))
    for d in np.unique(owner[1:][(owner[1:] == owner[:-1]) & (ends[1:] < ends[:-1])]).tolist():
        inside = slice(offsets[d], offsets[d + 1])  # one period within another: the longer one counts
        ends[inside] = np.maximum.accumulate(ends[inside])
    cycle = np.array([p[2] for p in periods], dtype=np.float64)
    return Availability(starts, ends, offsets.astype(np.int64), cycle, np.zeros(len(periods)), device)


def draw_weeks(clients: int, share: float, spread: float, seed: int) -> Availability:
    """Draw a week for each client: on average one online and one offline period a day, log-normally long.

    The lengths are scaled so that every client is online for ``share`` of its week, and each week begins at a random
    moment, so that at any time about ``share`` of all clients are online.
    """
    source = rng(seed, "availability")
    lengths = np.exp(source.normal(0.0, spread, (2, clients, DAYS)))
    lengths *= np.array([share, 1.0 - share])[:, None, None] * DAYS * DAY / lengths.sum(axis=2, keepdims=True)
    on, off = lengths
    ends = np.cumsum(on + off, axis=1) - off
    return Availability(
        starts=(ends - on).ravel(),
        ends=ends.ravel(),
        offsets=np.arange(clients + 1, dtype=np.int64) * DAYS,
        cycle=np.full(clients, DAYS * DAY),
        shift=source.uniform(0.0, DAYS * DAY, clients),
        device=np.arange(clients, dtype=np.int64),
    )
