"""Samples set apart from a stream: what every client holds in common, and what the server holds."""

from typing import Literal

import numpy as np

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

from .arrivals import SampleArrivals, StreamSetting

Shared = Literal["none", "rare_half", "one_per_label", "two_per_label"]


SHARED = {"none": 0, "rare_half": 1, "one_per_label": 1, "two_per_label": 2}
"""How many samples of a label every client holds."""


def choose_shared(mode: Shared, used: Ints, setting: StreamSetting) -> Ints:
    """Choose what all clients hold in common, by position in the setting; ``used`` are the labels of the stream."""
    wanted = np.arange(setting.num_classes)
    if mode == "rare_half":
        counts = np.bincount(used, minlength=setting.num_classes)
        wanted = np.argsort(counts, kind="stable")[: setting.num_classes // 2]
    everything = np.arange(len(setting.labels))
    return _choose(setting.labels, everything, wanted, SHARED[mode], setting.seed, "shared")


def choose_proxy(labels: Ints, reserve: Ints, num_classes: int, count: int, seed: int) -> Ints:
    """Choose what the server holds, ``count`` samples of each label."""
    return _choose(labels, reserve, np.arange(num_classes), count, seed, "proxy_per_class")


def without(found: SampleArrivals, taken: Ints) -> SampleArrivals:
    """Take samples out of a stream."""
    if not len(taken):
        return found
    stays = ~np.isin(found.sample, taken)
    test = None if found.test is None else found.test[stays]
    return SampleArrivals(found.sample[stays], found.client[stays], found.arrival[stays], test)


def _choose(labels: Ints, pool: Ints, wanted: Ints, count: int, seed: int, key: str) -> Ints:
    """Choose ``count`` samples of each wanted label at random, ascending; ``key`` is who asks."""
    if not count:
        return np.empty(0, dtype=np.int64)
    order = pool[seeds.rng(seed, key).permutation(len(pool))]
    order = order[np.argsort(labels[order], kind="stable")]
    starts, ends = (np.searchsorted(labels[order], wanted, side=side) for side in ("left", "right"))
    if (ends - starts < count).any():
        short = int(np.argmin(ends - starts))
        raise UserError(
            f"data.{key} asks for {count} images of each label, but label {int(wanted[short])} has "
            f"{int((ends - starts)[short])} to give"
        )
    return np.sort(order[(starts[:, None] + np.arange(count)).reshape(-1)])
