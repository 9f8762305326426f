"""Arrays in memory, or mapped into it, as a federation."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flcluster.data import Samples
from flcluster.datamodules.skew.partitions import Partition
from flcluster.datamodules.sources.checks import check_classes_told, check_finite, refuse_first
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

from .brought import Brought, Transform, numbered, on_input
from .module import OwnDataModule


class ArrayDataset:
    """Rows of an array, or pairs of a row and its target; a batch is read in one call.

    An array that is mapped from a file is searched for values that are not finite as it is read, others before.

    Args:
        x: Inputs, ``[n, ...]``: a tensor, or an array that may be mapped from a file. float64 becomes float32.
        y: Targets, ``[n, ...]``, or None.
    """

    def __init__(self, x: Any, y: Tensor | None) -> None:
        self.x, self.y = x, y
        self.mapped = isinstance(x, np.memmap)

    def __len__(self) -> int:
        return len(self.x)

    def inputs(self, index: Sequence[int]) -> Tensor:
        """Return some rows as one tensor."""
        found = torch.as_tensor(self.x[np.asarray(index, dtype=np.int64)])
        if self.mapped and found.is_floating_point() and not bool(found.isfinite().all()):
            wrong = next(i for i, row in zip(index, found, strict=True) if not bool(row.isfinite().all()))
            check_finite(found[list(index).index(wrong)][None], f"data.x ({self.x.filename})", wrong)
        return found.float() if found.dtype == torch.float64 else found

    def __getitem__(self, i: int) -> Any:
        return self.__getitems__([i])[0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Fetch a batch."""
        x = self.inputs(indices)
        return list(x) if self.y is None else list(zip(x, self.y[indices], strict=True))


class ArraySamples(Samples):
    """Samples of arrays, which are taken without going through each."""

    dataset: ArrayDataset

    def take(self, index: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Return inputs and targets at ``index``."""
        if self.dataset.y is None or (training and self.transform is not None):
            return super().take(index, training)
        return self.dataset.inputs(index.tolist()), self.dataset.y[index]


class ArrayDataModule(OwnDataModule):
    """Arrays or tensors as a federation; :func:`from_arrays` makes one.

    Args:
        x: Inputs, ``[n, ...]``. float64 becomes float32, all else stays as it is; mapped arrays are read by batch.
        y: Classes of any kind (numbers, words), or float targets; none if not given.
        clients: The client of each sample, any hashable values; or leave it out and give a partition.
        clusters: The true cluster of each sample, or of each client by its name, where it is known.
        test: Test samples ``(x, y)`` or ``(x, y, clients)``; without, a share of each client's samples tests.
        train_transform: Applied to each input that is read for training.
        name: How tables call the data.
        **kwargs: What every datamodule of one's own takes: partition, num_clients, test_share, val_share and others.
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        clients: Sequence[Hashable] | None = None,
        clusters: Sequence[Hashable] | Mapping[Hashable, Hashable] | None = None,
        test: tuple[Any, ...] | None = None,
        train_transform: Transform | None = None,
        name: str = "arrays",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name, self.train_transform = name, train_transform
        self._arrays = (x, y, clients, clusters, test)
        if not hasattr(x, "shape") or not len(x.shape):
            raise UserError(f"data.x must be an array or a tensor, got a {type(x).__name__}: a script hands it over")
        _check_lengths(len(x), y=y, clients=clients, clusters=None if isinstance(clusters, Mapping) else clusters)
        if clients is not None and self.partition is not None:
            raise UserError("data.clients says whose each sample is: leave data.partition out, or data.clients")
        if test is not None:
            if len(test) not in (2, 3) or (len(test) == 2) != (clients is None):
                raise UserError("data.test must be (x, y), or (x, y, clients) where data.clients is given")
            _check_lengths(len(test[0]), y=test[1], clients=test[2] if len(test) == 3 else None)

    def bring(self) -> Brought:
        """Number classes, clients and clusters."""
        x, y, clients, clusters, test = self._arrays
        size = len(x)
        for name, held in (("data.x", x), *((("data.test", test[0]),) if test else ())):
            _check_inputs(held, tuple(x.shape[1:]), name)
        ys = y if test is None or y is None else _both(y, test[1])
        target, classes = targets(ys)
        if classes and test is not None:
            _check_known(target, size, classes)
        ids, owners = (None, ()) if clients is None else numbered([*clients, *(test[2] if test else ())])
        cluster = None
        if isinstance(clusters, Mapping):
            cluster = _by_client(clusters, ids, owners)
        elif clusters is not None:
            cluster = numbered(clusters)[0]
        train = samples_of(x, target if target is None else target[:size], self.train_transform)
        return Brought(
            train=train,
            test=None if test is None else samples_of(test[0], target if target is None else target[size:]),
            ids=None if ids is None else ids[:size],
            test_ids=None if ids is None or test is None else ids[size:],
            owners=owners,
            clusters=None if cluster is None else cluster[:size],
            test_clusters=cluster[size:] if cluster is not None and len(cluster) > size else None,
            num_classes=len(classes),
            input_shape=tuple(x.shape[1:]),
            class_names=tuple(map(str, classes)),
        )


def from_arrays(
    x: Any,
    y: Any = None,
    clients: Sequence[Hashable] | Partition | None = None,
    clusters: Sequence[Hashable] | Mapping[Hashable, Hashable] | None = None,
    test: float | tuple[Any, ...] = 0.2,
    **kwargs: Any,
) -> ArrayDataModule:
    """Make a federation of arrays or tensors.

    Args:
        x: Inputs, ``[n, ...]``.
        y: Classes of any kind, or float targets; none if not given.
        clients: The client of each sample, any hashable values, or a partition that divides them.
        clusters: The true cluster of each sample, or of each client by its name, where it is known.
        test: Share of each client's samples that tests, or test samples ``(x, y)`` or ``(x, y, clients)``.
        **kwargs: Further arguments of :class:`ArrayDataModule`: num_clients, val_share, proxy_size, seed and others.
    """
    named = {"partition": clients} if isinstance(clients, Partition) else {"clients": clients}
    tested = {"test": test} if isinstance(test, tuple) else {"test_share": test}
    return ArrayDataModule(x, y, clusters=clusters, **named, **tested, **kwargs)


def samples_of(x: Any, y: Tensor | None, transform: Transform | None = None) -> ArraySamples:
    """Return arrays as samples, whose targets are labels if they are classes."""
    labels = y if y is not None and not y.is_floating_point() and y.ndim == 1 else None
    return ArraySamples(ArrayDataset(x, y), labels=labels, transform=on_input(transform))


def targets(y: Any) -> tuple[Tensor | None, tuple[Any, ...]]:
    """Return targets as a tensor, and what the classes are: classes from 0 on, or float32 values.

    >>> targets(["cat", "dog", "cat"])
    (tensor([0, 1, 0]), ('cat', 'dog'))
    >>> targets(np.array([1, 3])), targets([0.5])
    ((tensor([1, 3]), (0, 1, 2, 3)), (tensor([0.5000]), ()))
    """
    if y is None:
        return None, ()
    values = y if isinstance(y, Tensor) else np.asarray(y)
    if values.ndim != 1:  # several labels, masks: nothing to divide by
        found = torch.as_tensor(values)
        check_finite(found, "data.y")
        return (found.float() if found.dtype == torch.float64 else found), ()
    if isinstance(values, Tensor) or values.dtype.kind in "iufb":
        found = torch.as_tensor(values)
        if found.is_floating_point():
            check_finite(found, "data.y")
            return found.float(), ()
        if int(found.min()) >= 0:
            check_classes_told(int(found.max()), "data.y", "number the classes from 0, or give words")
            return found.long(), tuple(range(int(found.max()) + 1))
        if not bool(torch.isin(found, torch.tensor([-1, 1])).all()):  # the usual numbers of two classes
            refuse_first(
                found < 0, found, "data.y", "the label", "a class from 0 on, nor one of -1 and 1 as all others"
            )
    numbers, names = numbered(values)
    return torch.from_numpy(numbers), names


def _check_inputs(x: Any, shape: tuple[int, ...], name: str) -> None:
    """Refuse inputs that are no numbers, of another shape, or not finite."""
    if not len(x) or tuple(x.shape[1:]) != shape:
        raise UserError(f"{name} has the shape {tuple(x.shape)}: it must be one or more samples of the shape {shape}")
    if not isinstance(x, Tensor) and x.dtype.kind not in "biuf":
        raise UserError(f"{name} holds {x.dtype}: numbers are needed")
    if not isinstance(x, np.memmap):
        check_finite(x, name)


def _check_known(target: Tensor | None, size: int, classes: Sequence[Any]) -> None:
    """Refuse a class that only test samples have."""
    assert target is not None
    wrong = ~torch.isin(target[size:], target[:size])
    if all(isinstance(name, int) for name in classes) and int(target[:size].max()) >= int(target.max()):
        return  # numbers from 0 on: a class in between that training lacks is a class still
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        name = classes[int(target[size + at])]
        raise UserError(
            f"data.test: sample {at} (counted from 0) is of the class {name!r}, which no training sample is"
        )


def _by_client(clusters: Mapping[Any, Any], ids: Ints | None, owners: tuple[Any, ...]) -> Ints:
    missing = [owner for owner in owners if owner not in clusters]
    if ids is None or missing:
        raise UserError(
            "data.clusters by client needs data.clients"
            + (f" and the cluster of each: {missing[0]!r} has none" if missing else "")
        )
    return numbered([clusters[owner] for owner in owners])[0][ids]


def _both(first: Any, second: Any) -> Any:
    if isinstance(first, Tensor):
        return torch.cat([first, torch.as_tensor(second)])
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _check_lengths(length: int, **arrays: Any) -> None:
    for name, array in arrays.items():
        if array is not None and len(array) != length:
            raise UserError(f"data.{name} has {len(array)} values for {length} samples: give one each")
