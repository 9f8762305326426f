"""Simulated device time: how long a client's work takes, when it is online, and who is kept in a round.

A round takes as long as its slowest kept client; what this needs is known before anything is trained.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcluster.devices.availability import Availability, draw_weeks, from_periods
from flcluster.devices.traces import read_capacity, read_periods
from flcluster.errors import above, file_named, refuse
from flcluster.seeds import rng

Floats = NDArray[np.float64]


Ints = NDArray[np.int64]


KEY = "devices."


class Kept(NamedTuple):
    """Who of a round's candidates is kept."""

    clients: Ints
    """In the order in which the candidates were given."""
    seconds: float
    """How long the round takes: the time of the slowest kept client, 0 without any."""
    lost: int
    """Candidates that were offline at the start or at their finish."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The devices of all clients."""

    ms_per_sample: Floats
    """Milliseconds of inference a sample, ``[clients]``."""
    kbps: Floats
    """Bandwidth in kilobit (1000 bits) a second, ``[clients]``."""
    availability: Availability | None = None
    """When devices are online; None for always."""
    model_factor: float = 1.0
    """Cost of the trained model relative to the model the milliseconds were measured on."""

    def seconds(
        self,
        clients: Ints,
        samples: ArrayLike,
        download_bytes: ArrayLike,
        upload_bytes: ArrayLike,
        passes: float = 3.0,
    ) -> Floats:
        """Return each client's time for a task; training costs 3 ``passes`` a sample (backward costs two forward)."""
        compute = passes * self.model_factor * np.asarray(samples) * self.ms_per_sample[clients] / 1000
        kilobits = (np.asarray(download_bytes) + np.asarray(upload_bytes)) * 8 / 1000
        seconds: Floats = compute + kilobits / self.kbps[clients]
        return seconds

    def online(self, clients: Ints, at: Floats | float) -> NDArray[np.bool_]:
        """Say which clients are online, at one time or at one time each."""
        if self.availability is None:
            return np.ones(len(clients), dtype=bool)
        return self.availability.online(clients, at)

    def keep(self, clients: Ints, seconds: Floats, now: float, count: int) -> Kept:
        """Keep the ``count`` fastest of the candidates that are online at ``now`` and when they finish."""
        there = np.flatnonzero(self.online(clients, now) & self.online(clients, now + seconds))
        fastest = np.sort(there[np.argsort(seconds[there], kind="stable")][: max(count, 0)])
        return Kept(clients[fastest], float(seconds[fastest].max(initial=0.0)), len(clients) - len(there))


class Devices(ABC):
    """Where the clients' devices come from."""

    @abstractmethod
    def profile(self, clients: int, seed: int) -> Profile:
        """Give each client a device; the same for the same seed."""


@dataclass(frozen=True)
class SyntheticDevices(Devices):
    """Log-normal devices with given mean times.

    The defaults give the mean client times that FIELDING reports on FMoW: 116.7 s to send ResNet-18 (11.18 million
    parameters of 4 bytes) down and up, which is 1 / 6.131 Mbit/s on average, and 50.4 s to train on 20 batches of 20
    samples, which is 42 ms a sample and pass. The spread is that of FedScale's log-normal devices.
    """

    ms_per_sample: float = 42.0
    """Mean inference time a sample, in milliseconds."""
    mbps: float = 6.131
    """Harmonic mean of the bandwidths in megabit a second, so that the mean time of a transfer is size / mbps."""
    spread: float = 0.6
    """Standard deviation of the logarithm of both."""
    model_factor: float = 1.0
    """Cost of the trained model relative to ResNet-18, which the default milliseconds stand for."""
    online_share: float = 1.0
    """Share of the time each device is online; below 1 online and offline periods alternate about daily."""
    online_spread: float = 0.6
    """Standard deviation of the logarithm of the lengths of those periods."""

    def __post_init__(self) -> None:
        for name in ("ms_per_sample", "mbps", "model_factor", "online_share"):
            above(name, getattr(self, name), 0, KEY)
        for name in ("spread", "online_spread"):
            if not 0 <= getattr(self, name) < math.inf:
                refuse(name, "at least 0 and finite", getattr(self, name), KEY)
        if self.online_share > 1:
            refuse("online_share", "at most 1 (always online)", self.online_share, KEY)

    def profile(self, clients: int, seed: int) -> Profile:
        """Draw the devices; both log-normals are shifted so that the means of the times come out."""
        slow, fast = log_normals(clients, self.spread, seed, "devices")
        shift = math.exp(self.spread**2 / 2)  # the mean of exp(spread · Z)
        always = self.online_share == 1
        return Profile(
            ms_per_sample=self.ms_per_sample / shift * slow,
            kbps=1000 * self.mbps * shift * fast,
            availability=None if always else draw_weeks(clients, self.online_share, self.online_spread, seed),
            model_factor=self.model_factor,
        )


@dataclass(frozen=True)
class TraceDevices(Devices):
    """Devices from files, FedScale's two traces among them.

    A device is online from each ``active`` time to the ``inactive`` time beside it, both included. FedScale has the
    same rule but moves on by at most one period a question, so that it may answer from an old one; here any moment can
    be asked for.
    """

    capacity: str
    """FedScale's ``client_device_capacity``: a pickled dictionary id → {computation: ms a sample, communication: kbps}.
    Or a ``.csv`` file with the columns ms_per_sample and mbps."""
    availability: str | None = None
    """FedScale's ``client_behave_trace``: a pickled dictionary id → {active: [start, …], inactive: [end, …],
    finish_time, …} in seconds, repeated after finish_time. None: always online."""
    model_factor: float = 1.0
    """Cost of the trained model relative to the one measured: with MobileNet, 1.16 for ShuffleNet, 2.44 for ResNet."""
    order: Literal["turn", "shuffle"] = "turn"
    """Clients take the devices of each file in turn, or in a random order; again from the first after the last."""

    def __post_init__(self) -> None:
        above("model_factor", self.model_factor, 0, KEY)
        file_named("capacity", self.capacity, KEY)
        file_named("availability", self.availability, KEY)

    def profile(self, clients: int, seed: int) -> Profile:
        """Read the files and hand their devices out."""
        ms_per_sample, kbps = read_capacity(Path(self.capacity))
        device = self._hand_out(clients, len(kbps), seed, "devices")
        return Profile(
            ms_per_sample=ms_per_sample[device],
            kbps=kbps[device],
            availability=None if self.availability is None else self._periods(Path(self.availability), clients, seed),
            model_factor=self.model_factor,
        )

    def _periods(self, path: Path, clients: int, seed: int) -> Availability:
        periods = read_periods(path)
        return from_periods(periods, self._hand_out(clients, len(periods), seed, "availability"))

    def _hand_out(self, clients: int, devices: int, seed: int, purpose: str) -> Ints:
        turn = np.arange(clients, dtype=np.int64) % devices
        return turn if self.order == "turn" else rng(seed, purpose).permutation(devices)[turn]


def log_normals(clients: int, spread: float, seed: int, purpose: str) -> tuple[Floats, Floats]:
    """Draw two log-normal factors of median 1 a client: one for its compute, one for its bandwidth."""
    source = rng(seed, purpose)
    first, second = (np.exp(source.normal(0.0, spread, clients)) for _ in range(2))
    return first, second
