"""From places to samples: a plan says which client gets which label when, this says which sample it is."""

from typing import NamedTuple

import numpy as np

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints, rank_in_runs
from flcluster.errors import UserError

from .arrivals import SampleArrivals, StreamSetting
from .timeline import split_along_time


class Places(NamedTuple):
    """One row per place for a sample, sorted by client and then by arrival."""

    client: Ints
    label: Ints
    arrival: Ints


class _Parts(NamedTuple):
    """The samples of a dataset, part after part: by label, and by label and purpose where samples are reused."""

    sample: Ints
    start: Ints
    size: Ints


def places_of(client: Ints, arrival: Ints, counts: Ints) -> Places:
    """Turn label counts ``[rows, labels]``, each row of a client and a round, into places."""
    rows, labels = counts.shape
    cell = np.repeat(np.arange(rows * labels), counts.reshape(-1))
    row, label = np.divmod(cell, labels)
    return Places(client[row], label, arrival[row])


def fill(places: Places, setting: StreamSetting, reuse: bool) -> SampleArrivals:
    """Give every place a sample of its label, and say which places are for testing.

    With ``reuse`` clients may hold the same sample, each at most once; part of every label is then set aside, and all
    test places are filled from it and nothing else, so that no client trains on what another one is tested on.
    Without, a sample goes to one client only.
    """
    rng = seeds.rng(setting.seed, "stream samples")
    test = split_along_time(places.client, setting.test_share, setting.num_clients, rng)
    parts = _parts(setting, reuse, rng)
    part = places.label * 2 + test if reuse else places.label
    sample = _reused(places.client, part, parts, rng) if reuse else _partitioned(part, parts, rng)
    return SampleArrivals(sample, places.client, places.arrival, test)


def _parts(setting: StreamSetting, reuse: bool, rng: np.random.Generator) -> _Parts:
    order = rng.permutation(len(setting.labels))
    order = order[np.argsort(setting.labels[order], kind="stable")]
    size = np.bincount(setting.labels, minlength=setting.num_classes)
    if reuse:
        aside = np.ceil(setting.test_share * size).astype(np.int64)
        size = np.stack([size - aside, aside], axis=1).reshape(-1)
    return _Parts(order, np.cumsum(size) - size, size)


def _partitioned(part: Ints, parts: _Parts, rng: np.random.Generator) -> Ints:
    """Hand out each part's samples one by one, in random order of the places."""
    wanted = np.bincount(part, minlength=len(parts.size))
    if (wanted > parts.size).any():
        label = int(np.argmax(wanted - parts.size))
        raise UserError(
            f"data.arrivals asks for {int(wanted[label])} images of label {label} with reuse: false, but there are "
            f"{int(parts.size[label])}: lower data.num_clients or the samples of a client, or set reuse: true"
        )
    order = np.argsort(part + rng.random(len(part)))
    sample = np.empty(len(part), dtype=np.int64)
    sample[order] = parts.sample[parts.start[part[order]] + rank_in_runs(wanted)]
    return sample


def _reused(client: Ints, part: Ints, parts: _Parts, rng: np.random.Generator) -> Ints:
    """Let each client walk through each part from a random start with a random stride that repeats nothing."""
    group = client * len(parts.size) + part
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(first, append=len(ordered))
    drawn = part[order[first]]
    size = parts.size[drawn]
    if (lengths > size).any():
        worst = int(np.argmax(lengths - size))
        label, purpose = divmod(int(drawn[worst]), 2)
        raise UserError(
            f"data.arrivals asks for {int(lengths[worst])} {('training', 'test')[purpose]} images of label {label} for "
            f"one client, but there are {int(size[worst])}: lower the samples of a client"
        )
    start, stride = rng.integers(size), _strides(drawn, parts.size, rng)
    walked = np.repeat(start, lengths) + rank_in_runs(lengths) * np.repeat(stride, lengths)
    sample = np.empty(len(part), dtype=np.int64)
    sample[order] = parts.sample[np.repeat(parts.start[drawn], lengths) + walked % np.repeat(size, lengths)]
    return sample


def _strides(drawn: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """Draw for each walk a stride that is coprime to the size of its part."""
    coprime = [np.flatnonzero(np.gcd(np.arange(max(size, 1)), size) == 1) for size in sizes.tolist()]
    coprime = [found if len(found) else np.array([1]) for found in coprime]
    count = np.array([len(found) for found in coprime])
    start = np.cumsum(count) - count
    steps: Ints = np.concatenate(coprime)[start[drawn] + rng.integers(count[drawn])]
    return steps
