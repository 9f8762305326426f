"""Streams whose arrivals are written down."""

from dataclasses import dataclass

import numpy as np

from flcluster.datamodules import ArrivalPlan, SampleArrivals


@dataclass(frozen=True)
class Given(ArrivalPlan):
    """Rows written down: (sample, client, arrival)."""

    rows: tuple[tuple[int, int, int], ...]
    test: tuple[bool, ...] | None = None

    def draw(self, setting):
        sample, client, arrival = np.array(self.rows, dtype=np.int64).reshape(-1, 3).T
        return SampleArrivals(sample, client, arrival, None if self.test is None else np.array(self.test, dtype=bool))
