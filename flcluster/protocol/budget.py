"""How much a run will train, told before anything runs: what makes a comparison of methods a fair one."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from flcluster.data import FederatedDataModule
from flcluster.protocol.base import Algorithm

LENGTHS = ("rounds", "cycles")
"""What a run's length is called by the two kinds of methods."""


LOOKED_AT = 500
"""Rounds or uploads whose samples are counted; longer runs are reckoned from so many of theirs, evenly spaced."""


class WithData(Protocol):
    """What knows the clients: a federation, or no more than the data before there is one."""

    @property
    def data(self) -> FederatedDataModule:
        """The clients."""


class OnlyData:
    """The data of a federation that is not there yet."""

    def __init__(self, data: FederatedDataModule) -> None:
        self._data = data

    @property
    def data(self) -> FederatedDataModule:
        """The clients."""
        return self._data


def total_of(steps: int, samples: Callable[[int], float]) -> float:
    """Add up the samples of a run's steps.

    >>> total_of(1000, lambda step: 3.0)
    3000.0
    """
    looked_at = np.unique(np.linspace(0, steps - 1, min(steps, LOOKED_AT)).round().astype(int))
    return steps * math.fsum(map(samples, looked_at.tolist())) / len(looked_at)


def length_of(method: Algorithm[Any]) -> tuple[str, float]:
    """Return what a method's length is called, and its value."""
    name = next(name for name in LENGTHS if hasattr(method, name))
    return name, getattr(method, name)


def length_for(method: Algorithm[Any], data: FederatedDataModule, seed: int, samples: float) -> float:
    """Return the length with which a method trains on as many samples as nearly as it can; rounds are whole."""
    name, _ = length_of(method)

    def trained(length: float) -> float:
        changed: dict[str, Any] = {name: length}
        return replace(method, **changed).samples_planned(data, seed)

    least = 1.0
    if name == "cycles":
        each = trained(least)
        guess = samples / each
        for _ in range(3):  # who uploads is drawn, so a guess is nearly right and the next one more so
            guess *= samples / trained(guess)
        return round(guess, 3)
    low, high = 1, 2
    while trained(high) < samples:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trained(middle) < samples else (low, middle)
    return min((low, high), key=lambda rounds: (abs(trained(rounds) - samples), rounds))
