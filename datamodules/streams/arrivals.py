"""Who gets which sample when: a plan turns the labels of a dataset into arrivals, all clients at once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

KEY = "data.arrivals."


@dataclass(frozen=True, eq=False)
class StreamSetting:
    """What a plan is told."""

    labels: Ints
    """Labels of the samples that may be used; a plan names a sample by its position here."""
    num_classes: int
    num_clients: int
    window: int
    """Rounds that a sample is kept; a client starts with what arrived in the ``window`` rounds up to round 0."""
    test_share: float
    seed: int


class SampleArrivals(NamedTuple):
    """One row per sample of a client, in any order; a client holds a sample at most once."""

    sample: Ints
    """Position in the setting's labels."""
    client: Ints
    arrival: Ints
    """The round; ``-window`` to 0 for what is there at the start."""
    test: NDArray[np.bool_] | None = None
    """Which rows are for testing; if not given, every client's rows are split along time."""


class ArrivalPlan(ABC):
    """Draws the arrivals of all clients. Holds hyper-parameters only: every draw comes from the setting's seed."""

    @abstractmethod
    def draw(self, setting: StreamSetting) -> SampleArrivals:
        """Return who gets which sample when; raise a UserError that names the key for what cannot be."""


def check_arrivals(found: SampleArrivals, setting: StreamSetting) -> None:
    """Refuse arrivals that no stream can be made of."""
    for name, values, end in (
        ("sample", found.sample, len(setting.labels)),
        ("client", found.client, setting.num_clients),
    ):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < end:
            wrong = int(values.min() if values.min() < 0 else values.max())
            raise UserError(f"data.arrivals gave the {name} {wrong}, but they go from 0 to {end - 1}")
    if len(found.arrival) and int(found.arrival.min()) < -setting.window:
        raise UserError(
            f"data.arrivals lets a sample arrive at round {int(found.arrival.min())}, before the window of "
            f"{setting.window} rounds that clients start with: make data.window larger or arrive later"
        )
