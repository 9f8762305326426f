"""Who takes part in a round, for how long and at what cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flcluster.devices.profiles import Devices, Profile

Amount = float | NDArray[np.float64]


AWAY = "prox away"
"""What a title says of a proximal term that pushes away from the received model."""


@dataclass(frozen=True)
class Load:
    """What a client does in a round, in models and passes; a number for all, or an array over all clients."""

    downloads: Amount = 1.0
    uploads: Amount = 1.0
    forwards: Amount = 0.0
    """Forward passes over all its training samples besides the round's local training."""

    def of(self, clients: NDArray[np.int64]) -> "list[Amount]":
        """Return the three amounts of some clients."""
        amounts = (self.downloads, self.uploads, self.forwards)
        return [amount[clients] if isinstance(amount, np.ndarray) else amount for amount in amounts]


@dataclass(frozen=True)
class Cohort:
    """The clients that a round trains; as pairs of client and cluster when one goes through it."""

    clients: list[int]
    seconds: float = 1.0
    """How long the slowest takes; one unit if no devices are simulated."""
    lost: int = 0
    """Clients that were asked and went offline before they were done."""
    labels: list[int] | None = None
    """The cluster whose model each trains, where there are clusters."""
    load: Load = field(default_factory=Load)
    """What each was asked to do: the clock has counted it, and the metrics tell it."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.clients, self.places, strict=True)

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def places(self) -> list[int]:
        """The cluster of each; 0 where there are none."""
        return [0] * len(self.clients) if self.labels is None else self.labels

    def assigned(self, labels: list[int]) -> "Cohort":
        """Return the same clients, each with a cluster."""
        return replace(self, labels=labels)

    def delayed(self, seconds: float) -> "Cohort":
        """Return the same clients, who need so much longer."""
        return replace(self, seconds=self.seconds + seconds) if seconds else self


def side_by_side(parts: Sequence[Cohort]) -> Cohort:
    """Join the cohorts of clusters that run in parallel: clients in ascending order, each with its part's number."""
    labelled = sorted((client, k) for k, part in enumerate(parts) for client in part.clients)
    return Cohort(
        [client for client, _ in labelled],
        max(part.seconds for part in parts),
        sum(part.lost for part in parts),
        [k for _, k in labelled],
        parts[0].load,
    )


@lru_cache(maxsize=4)
def profile_of(devices: Devices, clients: int, seed: int) -> Profile:
    """Return the simulated devices of all clients, made once."""
    return devices.profile(clients, seed)
