"""How far clients' data move at each drift event: label histograms and embeddings."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcluster.data import View

from .module import StreamDataModule

Floats = NDArray[np.float64]


Embed = Callable[[View], ArrayLike]
"""Turns a client's samples into one vector."""


class Magnitude(NamedTuple):
    """How large drift is, over events."""

    min: float
    max: float
    mean: float
    median: float


def label_drift(data: StreamDataModule, until: int | None = None) -> Floats:
    """Return for each event the mean L1 distance, over drifted clients, of label histograms before and after.

    Clients that hold nothing before or after have no histogram and are left out; an event without any is NaN.

    Args:
        data: A stream.
        until: The last round to look at; all events if not given.
    """
    return np.array([_label_distance(data, int(event)) for event in events_until(data, until)])


def embedding_drift(data: StreamDataModule, embed: Embed, until: int | None = None) -> Floats:
    """Return for each event the mean L2 distance, over drifted clients, of normalised embeddings before and after.

    Args:
        data: A stream.
        embed: Turns a client's training samples into one vector, say a model's mean features; scaled to length 1 here.
        until: The last round to look at; all events if not given.
    """
    return np.array([_embedding_distance(data, embed, int(event)) for event in events_until(data, until)])


def summarise(distances: Floats) -> Magnitude:
    """Return the least, largest, mean and middle of the events' distances; NaN if there is none."""
    known = distances[np.isfinite(distances)]
    if not len(known):
        return Magnitude(*[float("nan")] * 4)
    return Magnitude(float(known.min()), float(known.max()), float(known.mean()), float(np.median(known)))


def events_until(data: StreamDataModule, until: int | None) -> NDArray[np.int64]:
    """Return the rounds at which a stream changes, up to a last one if given."""
    return data.events if until is None else data.events[data.events <= until]


def _label_distance(data: StreamDataModule, event: int) -> float:
    clients = data.drifted(event)
    before, after = (data.label_counts(clients, cycle) for cycle in (event - 1, event))
    both = (before.sum(axis=1) > 0) & (after.sum(axis=1) > 0)
    if not both.any():
        return float("nan")
    shares = [counts[both] / counts[both].sum(axis=1, keepdims=True) for counts in (before, after)]
    return float(np.abs(shares[0] - shares[1]).sum(axis=1).mean())


def _embedding_distance(data: StreamDataModule, embed: Embed, event: int) -> float:
    found = []
    for client in data.drifted(event).tolist():
        views = [data.shard(client, cycle).train for cycle in (event - 1, event)]
        if all(len(view) for view in views):
            before, after = (_unit(np.asarray(embed(view), dtype=np.float64)) for view in views)
            found.append(float(np.linalg.norm(before - after)))
    return float(np.mean(found)) if found else float("nan")


def _unit(vector: Floats) -> Floats:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
