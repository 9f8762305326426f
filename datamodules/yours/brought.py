"""What a user brings, before it is divided among clients."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcluster import data
from flcluster.datamodules.skew.partitions import Samples
from flcluster.datamodules.sources.counts import Ints

Transform = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Brought:
    """Samples for training, perhaps others that test or validate, and what is known of each."""

    train: data.Samples
    test: data.Samples | None = None
    """Without a test set a share of each client's samples tests."""
    val: data.Samples | None = None
    """A validation set of the user's; without one a share of each client's samples can validate."""
    ids: Ints | None = None
    """The number of each training sample's owner, where the data name one."""
    test_ids: Ints | None = None
    val_ids: Ints | None = None
    owners: tuple[Any, ...] = ()
    """What the owners are called, by number."""
    clusters: Ints | None = None
    """The true cluster of each training sample, where it is known."""
    test_clusters: Ints | None = None
    num_classes: int = 0
    """0 where samples have no class."""
    input_shape: tuple[int, ...] = ()
    """Empty where a sample is not led by a tensor."""
    class_names: tuple[str, ...] = ()

    def samples(self, source: data.Samples, ids: Ints | None) -> Samples | None:
        """Tell a partition what is known of some samples; None if neither class nor owner is."""
        if source.labels is None and ids is None:
            return None
        labels = np.zeros(len(source), dtype=np.int64) if source.labels is None else source.labels.numpy()
        return Samples(labels, max(self.num_classes, 1), ids)


class OnInput:
    """A transform of the input alone, where a sample is a tuple that begins with it; else of the whole sample."""

    def __init__(self, transform: Transform) -> None:
        self.transform = transform

    def __call__(self, sample: Any) -> Any:
        """Transform one sample."""
        if isinstance(sample, tuple | list):
            return (self.transform(sample[0]), *sample[1:])
        return self.transform(sample)


def on_input(transform: Transform | None) -> Transform | None:
    """Return a transform of samples from one of inputs."""
    return None if transform is None else OnInput(transform)


def numbered(names: Iterable[Any]) -> tuple[Ints, tuple[Any, ...]]:
    """Number names of any kind by their order: each sample's number, and the names.

    >>> numbered(["b", "a", "b"])
    (array([1, 0, 1]), ('a', 'b'))
    """
    listed = [name.item() if hasattr(name, "item") else name for name in names]
    try:
        kinds = sorted(set(listed))
    except TypeError:  # kinds that have no order, such as numbers beside words
        kinds = sorted(set(listed), key=lambda name: (type(name).__name__, str(name)))
    place = {name: number for number, name in enumerate(kinds)}
    return np.array([place[name] for name in listed], dtype=np.int64), tuple(kinds)


def owners_in(parts: Sequence[Iterable[Any] | None]) -> tuple[list[Ints | None], tuple[Any, ...]]:
    """Number the owners of several sets' samples together; a set that there is not has none.

    >>> owners_in([["b", "a"], None, ["b"]])
    ([array([1, 0]), None, array([1])], ('a', 'b'))
    """
    held = [[] if part is None else list(part) for part in parts]
    numbers, names = numbered(name for part in held for name in part)
    cut = np.split(numbers, np.cumsum([len(part) for part in held])[:-1])
    return [None if part is None else found for found, part in zip(cut, parts, strict=True)], names
