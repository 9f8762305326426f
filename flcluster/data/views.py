"""Sources of samples, and views that choose among them: nothing is read before it is asked for."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from flcluster.errors import UserError

Collate = Callable[[list[Any]], Any]


class Source(Protocol):
    """Labelled samples of one cluster and split, taken by index as model-ready tensors."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs (float32, normalised, batch first) and int64 labels at ``index``."""
        ...


class Samples:
    """Samples of any structure: those of a map-style dataset, which a collate function makes batches of.

    Args:
        dataset: Anything with ``__len__`` and ``__getitem__(i)``; what ``__getitems__`` reads is read in one call.
        collate: Makes a batch of a list of samples; torch's ``default_collate`` if not given.
        labels: The class of each sample, int64, where it is known: then nothing is read to divide or count by it.
        transform: Applied to each sample that is read for training, where the batch is made.
    """

    def __init__(
        self,
        dataset: Any,
        collate: Collate | None = None,
        labels: Tensor | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.dataset, self.labels, self.transform = dataset, labels, transform
        self.collate: Collate = default_collate if collate is None else collate
        if labels is not None and len(labels) != len(dataset):
            raise UserError(f"there are {len(labels)} labels for {len(dataset)} samples: give one each")

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, index: list[int], training: bool = False) -> list[Any]:
        """Return the samples at ``index``, transformed if they are for training."""
        at_once = getattr(self.dataset, "__getitems__", None)
        read = at_once(index) if at_once is not None else [self.dataset[i] for i in index]
        return [self.transform(sample) for sample in read] if training and self.transform is not None else read

    def take(self, index: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Return inputs and labels at ``index``, if that is what the samples are."""
        batch = self.collate(self.read(index.tolist() or [0], training))
        if isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch):
            x, y = batch
            return x[: len(index)], y[: len(index)]
        raise UserError(
            f"this method or model needs batches of (input, label) tensors, but those of {type(self.dataset).__name__} "
            f"are {_shape_of(batch)}: take a module with a training_step of its own and a method that reads no labels"
        )


@dataclass(frozen=True, eq=False)
class View:
    """Chosen samples of one or more sources. Nothing is read until it is asked for."""

    parts: tuple[tuple[Source, Tensor], ...]
    """At least one, though it may choose nothing."""

    def __len__(self) -> int:
        return sum(len(index) for _, index in self.parts)

    def tensors(self, training: bool = False) -> tuple[Tensor, Tensor]:
        """All samples at once, for training with what the sources' transforms make of them."""
        filled = [(source, index) for source, index in self.parts if len(index)]
        taken = [_taken(source, index, training) for source, index in filled or self.parts[:1]]
        if len(taken) == 1:
            return taken[0]
        return torch.cat([x for x, _ in taken]), torch.cat([y for _, y in taken])

    def loader(
        self,
        batch_size: int,
        shuffle: bool = False,
        generator: torch.Generator | None = None,
        num_workers: int = 0,
        training: bool | None = None,
    ) -> DataLoader[Any]:
        """Return batches of whatever structure the samples have, read batch by batch.

        Args:
            batch_size: Samples of a batch; the last may be smaller.
            shuffle: Draw a new order at each pass.
            generator: Where the order, and the seeds of workers, are drawn from; torch's own if not given.
            num_workers: Processes that read ahead.
            training: Run the sources' transforms of training; if not given, when the order is shuffled.
        """
        dataset = ViewDataset(self, shuffle if training is None else training)
        return DataLoader(
            dataset,
            batch_size=batch_size,
            shuffle=shuffle and len(dataset) > 0,
            generator=generator,
            num_workers=num_workers,
            collate_fn=self.collate,
        )

    @property
    def collate(self) -> Collate:
        """What makes a batch of samples, the same for all sources."""
        found = [getattr(source, "collate", default_collate) for source, _ in self.parts]
        if any(other != found[0] for other in found[1:]):
            raise UserError("the sources of one view make batches by different collate functions: give them the same")
        return found[0] if found else default_collate

    def where(self, mask: Tensor) -> "View":
        """Return the samples that a mask over all samples keeps, in their order."""
        masks = mask.split([len(index) for _, index in self.parts])
        return View(tuple((source, index[kept]) for (source, index), kept in zip(self.parts, masks, strict=True)))

    def split(self, size: int) -> Iterator["View"]:
        """Consecutive views of at most ``size`` samples; a part boundary also ends a view."""
        for source, index in self.parts:
            for piece in index.split(size):
                if len(piece):
                    yield View(((source, piece),))

    def dataset(self) -> "ViewDataset":
        """This view as a map-style dataset for any DataLoader."""
        return ViewDataset(self)


class ViewDataset(Dataset[Any]):
    """Map-style access to a view; a batch is read in one call per source."""

    def __init__(self, view: View, training: bool = False) -> None:
        self.view, self.training = view, training
        none = torch.empty(0, dtype=torch.int64)
        self.part = torch.cat([none, *(torch.full((len(index),), p) for p, (_, index) in enumerate(view.parts))])
        self.row = torch.cat([none, *(index for _, index in view.parts)])

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, i: int) -> Any:
        return self.__getitems__([i])[0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Fetch a batch (called by DataLoader)."""
        wanted = torch.as_tensor(indices)
        out: list[Any] = [None] * len(indices)
        for p, (source, _) in enumerate(self.view.parts):
            where = (self.part[wanted] == p).nonzero().flatten()
            if len(where):
                read = _read(source, self.row[wanted[where]], self.training)
                for position, sample in zip(where.tolist(), read, strict=True):
                    out[position] = sample
        return out


def joined(views: Iterable[View]) -> View:
    """Return several views as one."""
    return View(tuple(part for view in views for part in view.parts))


def labels_of(view: View) -> NDArray[np.int64]:
    """Return the class labels of a view; sources that show their labels need not build any input."""
    found = []
    for source, index in view.parts:
        held = getattr(source, "labels", None)
        found.append(source.take(index)[1] if held is None else held[index])
    if any(labels.is_floating_point() or labels.ndim != 1 for labels in found):
        raise UserError("this needs a class label of each sample, but the data have targets of another kind")
    return torch.cat(found).numpy() if found else np.empty(0, dtype=np.int64)


def _read(source: Source, index: Tensor, training: bool) -> Iterable[Any]:
    return (
        source.read(index.tolist(), training) if isinstance(source, Samples) else zip(*source.take(index), strict=True)
    )


def _taken(source: Source, index: Tensor, training: bool) -> tuple[Tensor, Tensor]:
    return source.take(index, training) if isinstance(source, Samples) else source.take(index)


def _shape_of(batch: Any) -> str:
    """Say in a few words what a batch is."""
    if isinstance(batch, tuple | list):
        return f"a {type(batch).__name__} of {len(batch)}: {', '.join(type(part).__name__ for part in batch[:4])}"
    keys = f" of {', '.join(map(str, list(batch)[:6]))}" if hasattr(batch, "keys") else ""
    return f"one {type(batch).__name__}{keys}"
