"""What a datamodule hands out is what everything counts on: looked at for a few clients before anything is trained."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from flcluster.errors import UserError
from flcluster.given import described, named
from flcluster.seeds import every_seed

from .module import FederatedDataModule, Shard
from .views import Source, View

FEW, SOME = 3, 8
"""Clients that are looked at; samples of a part that are read where nothing else tells their labels."""

IGNORED = -100
"""What PyTorch's losses take for no label."""


def checked(data: FederatedDataModule) -> list[str]:
    """Refuse data that contradict themselves, by the class and its file; return what may be meant so, but is odd."""
    name, odd = named(data), dict[str, None]()
    for key in ("num_clients", "num_clusters"):
        value = getattr(data, key)
        if not isinstance(value, int | np.integer) or value < 1:
            raise UserError(f"{name}: {key} must be a whole number of at least 1, got {value!r}")
    for client in data.participants[:FEW].tolist():
        with every_seed(data.seed, "look", client):  # what a transform draws is missed by nobody
            shard = data.shard(client)
        with every_seed(data.seed, "look again", client):
            for wrong in _wrong(data, client, shard, data.shard(client)):
                raise UserError(f"{named(data, 'shard')}, client {client}: {wrong}")
        if shared := _shared(shard):
            odd[f"{name}: {shared}"] = None
    if (found := data.global_test()) is not None:
        view_of(found, data, "global_test")
    return list(odd)


def view_of(value: object, data: FederatedDataModule, method: str) -> View:
    """Return what a method of a datamodule returned, if that is a view."""
    if not isinstance(value, View):
        raise UserError(f"{named(data, method)} must return a View, but returned {described(value)}")
    return value


def _wrong(data: FederatedDataModule, client: int, shard: Shard, again: Shard) -> Iterator[str]:
    """Yield what is wrong with what a client holds, as it was handed out twice."""
    if not isinstance(shard, Shard):
        yield f"it must return a Shard, but returned {described(shard)}"
    views = {"train": shard.train, "test": shard.test, **({} if shard.val is None else {"val": shard.val})}
    for split, view in views.items():
        yield from (f"{split}: {wrong}" for wrong in _wrong_view(view, data.num_classes))
        if not _same(view, getattr(again, split)):
            yield (
                f"{split} is another when it is asked for again: draw from flcluster.seeds.rng(self.seed, …, client, "
                "cycle), so that a client holds the same whenever it is asked"
            )
    size = data.size(client)
    if size != len(shard.train):
        yield f"size says that it holds {size} training samples, but it holds {len(shard.train)}"
    mixture = shard.mixture
    if not isinstance(mixture, Tensor) or mixture.shape != (data.num_clusters,):
        yield f"mixture must be a tensor of {data.num_clusters} shares, one of each cluster"
    if twice := _overlap(shard):
        yield f"{twice} of {len(shard.test)} test samples are training samples too: a sample trains or tests"


def _wrong_view(view: View, num_classes: int) -> Iterator[str]:
    if not isinstance(view, View):
        yield f"a View is needed, got {described(view)}"
    for source, index in view.parts:
        if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.dim() != 1:
            what = f"a tensor of {index.dtype}" if isinstance(index, Tensor) else f"a {type(index).__name__}"
            yield f"samples are chosen by whole numbers (int64, one dimension), got {what}"
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(source):
            yield f"it chooses samples {int(index.min())} to {int(index.max())} of a source that has {len(source)}"
        labels = _labels(source, index)
        if labels is None or labels.is_floating_point() or labels.dim() != 1 or num_classes < 2:
            continue
        outside = labels[((labels < 0) | (labels >= num_classes)) & (labels != IGNORED)]
        if len(outside):
            yield f"a label is {int(outside[0])}, but num_classes is {num_classes}: they go from 0 to {num_classes - 1}"


def _labels(source: Source, index: Tensor) -> Tensor | None:
    """Return the labels of samples, of a few if they must be read; None where samples are no pairs of tensors."""
    held = getattr(source, "labels", None)
    if isinstance(held, Tensor):
        return held[index]
    if not len(index):
        return None
    try:
        return source.take(index[:SOME])[1]
    except UserError:
        return None


def _same(one: View, other: View) -> bool:
    """Say whether two views choose the same samples: by their numbers and labels, never by what a transform draws."""
    if len(one.parts) != len(other.parts):
        return False
    for (source, index), (then, found) in zip(one.parts, other.parts, strict=True):
        if len(source) != len(then) or not torch.equal(index, found):
            return False
        if source is not then and not _alike(_labels(source, index), _labels(then, found)):
            return False
    return True


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    """Say whether labels are the same; targets of another kind may be drawn with the inputs."""
    if one is None or other is None or one.is_floating_point() or other.is_floating_point():
        return True
    return torch.equal(one, other)


def _overlap(shard: Shard) -> int:
    """Count the test samples that train too; 0 if all that tests trains, or the other way round: that may be meant."""
    train, test = _numbers(shard.train), _numbers(shard.test)
    both = {key: np.intersect1d(train[key], test[key]) for key in train.keys() & test.keys()}
    shared = sum(map(len, both.values()))
    whole = shared in (sum(map(len, test.values())), sum(map(len, train.values())))
    return 0 if whole else shared


def _shared(shard: Shard) -> str | None:
    """Say so if a client is tested on what it trains on, by all that can be known."""
    train, test = _numbers(shard.train, True), _numbers(shard.test, True)
    if any(len(np.intersect1d(train[key], test[key])) for key in train.keys() & test.keys()):
        return "clients are tested on samples that they train on: their accuracy says nothing of new ones"
    return None


def _numbers(view: View, behind: bool = False) -> dict[int, np.ndarray]:
    """Return the numbers of the samples that a view chooses, by their source, or by the dataset behind it."""
    found: dict[int, list[np.ndarray]] = {}
    for source, index in view.parts:
        found.setdefault(id(getattr(source, "dataset", source) if behind else source), []).append(index.numpy())
    return {key: np.unique(np.concatenate(numbers)) for key, numbers in found.items()}
