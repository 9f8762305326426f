"""Who takes part in a round, for how long and at what cost."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flcluster.devices.profiles import Devices, Profile

Amount = float | NDArray[np.float64]


AWAY = "prox away"
"""What a title says of a proximal term that pushes away from the received model."""


@dataclass(frozen=True)
class Cohort:
    """The clients that a round trains."""

    clients: list[int]
    seconds: float
    """How long the slowest takes; one unit if no devices are simulated."""
    lost: int = 0
    """Clients that were asked and went offline before they were done."""


@dataclass(frozen=True)
class Load:
    """What a client does in a round, in models and passes; a number for all, or an array over all clients."""

    downloads: Amount = 1.0
    uploads: Amount = 1.0
    trainings: Amount = 1.0
    """How often the round's local training is done."""
    forwards: Amount = 0.0
    """Forward passes over all its training samples besides."""

    def of(self, clients: NDArray[np.int64]) -> "list[Amount]":
        """Return the four amounts of some clients."""
        amounts = (self.downloads, self.uploads, self.trainings, self.forwards)
        return [amount[clients] if isinstance(amount, np.ndarray) else amount for amount in amounts]


@lru_cache(maxsize=4)
def profile_of(devices: Devices, clients: int, seed: int) -> Profile:
    """Return the simulated devices of all clients, made once."""
    return devices.profile(clients, seed)
