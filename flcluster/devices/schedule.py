"""Virtual time: which client uploads when. A schedule is drawn whole, so a run is a walk along it."""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcluster.devices.profiles import log_normals
from flcluster.devices.traces import read_profiles
from flcluster.seeds import rng


@dataclass(frozen=True, eq=False)
class Schedule:
    """The run's uploads in virtual-time order."""

    clients: NDArray[np.int64]
    times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.clients)

    def of(self, clients: NDArray[np.int64]) -> "Schedule":
        """Return the same uploads by other clients: number i by ``clients[i]``."""
        return Schedule(clients[self.clients], self.times)

    def cycles(self) -> NDArray[np.int64]:
        """Return, for each upload, how many uploads its client made before."""
        seen: dict[int, int] = {}
        out = np.empty(len(self), dtype=np.int64)
        for i, client in enumerate(self.clients.tolist()):
            out[i] = seen.get(client, 0)
            seen[client] = int(out[i]) + 1
        return out


@dataclass(frozen=True)
class Workload:
    """What a device must do for one cycle; only arrivals by device speed look at it."""

    samples: Callable[[int, int], int]
    """Training samples of (client, cycle)."""
    epochs: int
    model_bytes: int

    def of(self, clients: NDArray[np.int64]) -> "Workload":
        """Return the workload of some clients: number i is ``clients[i]``."""
        return Workload(lambda i, cycle: self.samples(int(clients[i]), cycle), self.epochs, self.model_bytes)


class Arrivals(ABC):
    """How clients decide when to upload."""

    @abstractmethod
    def schedule(self, clients: int, total: int, seed: int, work: Workload) -> Schedule:
        """Draw the first ``total`` uploads; a longer schedule begins like a shorter one."""


def scheduled(arrivals: Arrivals, clients: NDArray[np.int64], total: int, seed: int, work: Workload) -> Schedule:
    """Draw the first ``total`` uploads of some clients."""
    return arrivals.schedule(len(clients), total, seed, work.of(clients)).of(clients)


def _ticks(total: int) -> NDArray[np.float64]:
    return np.arange(1, total + 1, dtype=np.float64)


@dataclass(frozen=True)
class UniformArrivals(Arrivals):
    """At each epoch a client chosen uniformly at random uploads (memoryless; the default)."""

    def schedule(self, clients: int, total: int, seed: int, work: Workload) -> Schedule:
        """Draw independent uniform clients."""
        return Schedule(rng(seed, "arrivals").integers(clients, size=total), _ticks(total))


@dataclass(frozen=True)
class PoissonArrivals(Arrivals):
    """Each client uploads by its own Poisson process; rates are log-normal around one upload per unit of time."""

    spread: float = 0.5
    """Standard deviation of the log-rates; 0 gives every client the same rate."""

    def schedule(self, clients: int, total: int, seed: int, work: Workload) -> Schedule:
        """Draw the superposition: exponential gaps, clients in proportion to their rates."""
        rates = np.exp(rng(seed, "rates").normal(0.0, self.spread, clients))
        times = np.cumsum(rng(seed, "gaps").exponential(1.0 / rates.sum(), total))
        return Schedule(rng(seed, "arrivals").choice(clients, size=total, p=rates / rates.sum()), times)


@dataclass(frozen=True)
class PermutationArrivals(Arrivals):
    """Every session each client uploads once, in a new random order."""

    def schedule(self, clients: int, total: int, seed: int, work: Workload) -> Schedule:
        """Draw one permutation a session."""
        draw = rng(seed, "arrivals")
        sessions = [draw.permutation(clients) for _ in range(max(1, -(-total // clients)))]
        return Schedule(np.concatenate(sessions)[:total].astype(np.int64), _ticks(total))


@dataclass(frozen=True)
class RoundRobinArrivals(Arrivals):
    """Clients upload in a fixed order, again and again."""

    def schedule(self, clients: int, total: int, seed: int, work: Workload) -> Schedule:
        """Repeat 0, 1, …, clients − 1."""
        return Schedule(np.arange(total, dtype=np.int64) % clients, _ticks(total))


@dataclass(frozen=True)
class DeviceArrivals(Arrivals):
    """A client uploads when its device is done: compute and transfer times from log-normal device profiles.

    One cycle takes 3·samples·epochs·(ms per sample)/1000 s of training (a backward pass costs two forward passes),
    two model transfers, and an exponential idle time.
    """

    ms_per_sample: float = 5.0
    """Median inference time per sample, in milliseconds."""
    mbps: float = 6.1
    """Median bandwidth in megabit per second."""
    spread: float = 0.6
    """Standard deviation of the logarithm of both."""
    idle: float = 60.0
    """Mean seconds a device waits between cycles."""
    profiles: str | None = None
    """CSV file with columns ms_per_sample and mbps, one device a row, that clients take in turn instead of drawing."""

    def schedule(self, clients: int, total: int, seed: int, work: Workload) -> Schedule:
        """Simulate the devices with an event queue."""
        ms_per_sample, mbps = self._devices(clients, seed)
        latency, transfer = ms_per_sample / 1000, 2 * work.model_bytes * 8 / (mbps * 1e6)

        def busy(client: int, cycle: int) -> float:
            train = 3 * work.samples(client, cycle) * work.epochs * latency[client]
            return float(train + transfer[client] + rng(seed, "idle", client, cycle).exponential(self.idle))

        queue = [(busy(m, 0), m, 0) for m in range(clients)]
        heapq.heapify(queue)
        who, when = np.empty(total, dtype=np.int64), np.empty(total)
        for i in range(total):
            when[i], client, cycle = heapq.heappop(queue)
            who[i] = client
            heapq.heappush(queue, (when[i] + busy(client, cycle + 1), client, cycle + 1))
        return Schedule(who, when)

    def _devices(self, clients: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each client's milliseconds per sample and megabits per second."""
        if self.profiles is None:
            slow, fast = log_normals(clients, self.spread, seed, "arrivals")
            return self.ms_per_sample * slow, self.mbps * fast
        ms_per_sample, mbps = read_profiles(self.profiles)
        turn = np.arange(clients) % len(mbps)
        return ms_per_sample[turn], mbps[turn]
