"""Streams whose arrivals are written down, and the way from model-ready inputs back to what was stored."""

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


def stored_pixels(view, data):
    """Undo the normalisation of a view: its pixels as bytes, and its labels."""
    x, y = view.tensors()
    mean, std = (np.reshape(values, (-1, 1, 1)) for values in (data.mean, data.std))
    return np.rint((x.numpy() * std + mean) * 255).astype(int), y.numpy()
