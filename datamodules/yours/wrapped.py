"""Any LightningDataModule, its training samples divided among clients."""

import importlib
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning import LightningDataModule
from lightning.pytorch.utilities.seed import isolate_rng

from flcluster.data import Samples
from flcluster.data.views import Collate
from flcluster.datamodules.skew.natural_ids import NaturalIds, read_names
from flcluster.datamodules.skew.partitions import Partition
from flcluster.datamodules.sources.columns import labels_in, shape_in, values_of
from flcluster.errors import UserError
from flcluster.seeds import sequence

from .brought import Brought, Transform, on_input, owners_in
from .forwarding import Forwarding
from .loaders import dividable
from .module import OwnDataModule


class Read(NamedTuple):
    """What one DataLoader of a datamodule reads, and how."""

    dataset: Any
    collate: Collate
    batch_size: int
    num_workers: int


class SplitDataModule(Forwarding, OwnDataModule):
    """A LightningDataModule of one's own, of ``lightning`` or ``pytorch_lightning``, split among clients.

    What its ``train_dataloader()`` reads is divided; its test set tests, or its validation set if it has no other, or
    else a share of each client's samples. Its collate functions and its batch hooks stay in use. Where it has
    both sets, the validation set is divided too and validates. Its draws in ``setup`` are seeded.

    Args:
        datamodule: The datamodule; in a configuration its class_path and init_args.
        partition: How samples are divided; NaturalIds takes an attribute or column of the dataset, a key of its
            samples, or a file of names.
        labels: Attribute, column or key that holds the classes; found by itself where it has a usual name.
        num_classes: Number of classes; the datamodule's own, or what the labels show, if not given.
        batch_size: Batch size of the DataLoaders; the datamodule's own if not given.
        num_workers: Processes that read ahead; the datamodule's own if not given.
        train_transform: Applied to each input that is read for training, after what the dataset does itself.
        stream_limit: Most samples of a dataset without a length (an IterableDataset) that are read, once, and kept in
            memory; a longer one is refused.
        **kwargs: What every datamodule of one's own takes: num_clients, test_share, val_share, proxy_size, seed.
    """

    def __init__(
        self,
        datamodule: LightningDataModule | dict[str, Any],
        partition: Partition | None = None,
        labels: str | None = None,
        num_classes: int | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        train_transform: Transform | None = None,
        stream_limit: int = 100_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(partition=partition, batch_size=batch_size or 1, num_workers=num_workers or 0, **kwargs)
        self.datamodule: Any = made(datamodule) if isinstance(datamodule, dict) else datamodule
        self.name = type(self.datamodule).__name__
        self.labels, self.train_transform, self.stream_limit = labels, train_transform, stream_limit
        self._at_least(1, "stream_limit")
        self.seeks_labels = partition is not None and partition.by_label
        self._given = (num_classes, batch_size, num_workers)
        self._ready = False

    def prepare_data(self) -> None:
        """Let the datamodule prepare its data."""
        self.datamodule.prepare_data()
        self._ready = True

    def bring(self) -> Brought:
        """Set the datamodule up, and take the datasets and collate functions of its DataLoaders."""
        if not self._ready:
            self.prepare_data()
        with isolate_rng():
            number = int(sequence(self.seed, "own datamodule").generate_state(1)[0])
            torch.manual_seed(number), np.random.seed(number), random.seed(number)
            self.datamodule.setup("fit")
            train, val = self._read("train"), self._read("val")
            if self._has("test"):
                self.datamodule.setup("test")
            test = self._read("test")
        if train is None:
            raise UserError(f"data.datamodule: {self.name} has no train_dataloader")
        if test is None:
            test, val = val, None
        num_classes, batch_size, num_workers = self._given
        self.batch_size = batch_size or train.batch_size
        self.num_workers = train.num_workers if num_workers is None else num_workers
        sources = [self._samples(train, True), self._samples(test), self._samples(None if self.val_share else val)]
        ids, owners = self._ids(sources)
        found = [source.labels for source in sources if source is not None and source.labels is not None]
        seen = max((int(labels.max()) + 1 for labels in found if len(labels)), default=0)
        told = num_classes or getattr(self.datamodule, "num_classes", None) or seen
        if told < seen:
            raise UserError(
                f"data.num_classes is {told}, but the labels of {self.name} go up to {seen - 1}: use {seen}"
            )
        assert sources[0] is not None
        return Brought(
            *(sources[0], sources[1], sources[2]),
            *(ids[0], ids[1], ids[2]),
            owners=owners,
            num_classes=told,
            input_shape=shape_in(train.dataset),
        )

    def _has(self, split: str) -> bool:
        """Whether the datamodule has such a loader itself; Lightning's own methods of that name only raise."""
        method = getattr(self.datamodule, f"{split}_dataloader", None)
        return method is not None and not str(getattr(method, "__module__", "")).endswith(".core.hooks")

    def _read(self, split: str) -> Read | None:
        """Return what a loader of the datamodule reads, after checking that it can be divided."""
        found: Any = getattr(self.datamodule, f"{split}_dataloader")() if self._has(split) else None
        if isinstance(found, list | tuple) and len(found) < 2:
            found = next(iter(found), None)
        if found is None:
            return None
        where = f"data.datamodule: {split}_dataloader() of {self.name}"
        if getattr(found, "dataset", None) is None or not hasattr(found, "collate_fn"):
            raise UserError(f"{where} gives a {type(found).__name__}: one DataLoader is needed")
        dataset, batch_size = dividable(found, where, self.stream_limit, split == "train")
        return Read(dataset, found.collate_fn, batch_size, found.num_workers)

    def _samples(self, read: Read | None, training: bool = False) -> Samples | None:
        if read is None:
            return None
        labels = labels_in(read.dataset, self.labels, self.seeks_labels)
        transform = on_input(self.train_transform) if training else None
        return Samples(read.dataset, read.collate, labels, transform)

    def _ids(self, sources: list[Samples | None]) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the numbers of the owners of each set's samples, and their names."""
        if not isinstance(self.partition, NaturalIds):
            return [None] * len(sources), ()
        if self.partition.path is None:
            key = str(self.partition.attribute)
            where = "data.partition.attribute"
            return owners_in([None if s is None else values_of(s.dataset, key, where) for s in sources])
        names = read_names(Path(self.partition.path).expanduser())
        sizes = [0 if source is None else len(source) for source in sources]
        if len(names) != sum(sizes):
            raise UserError(
                f"data.partition.path {self.partition.path} names the owners of {len(names)} samples, but there are "
                f"{' + '.join(str(size) for size in sizes if size)}: give one name each"
            )
        parts = np.split(names, np.cumsum(sizes)[:-1])
        return owners_in([None if source is None else part for source, part in zip(sources, parts, strict=True)])


def made(described: dict[str, Any]) -> Any:
    """Make a datamodule that is no LightningDataModule of the package ``lightning`` from its class_path."""
    path = str(described.get("class_path"))
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)(**described.get("init_args", {}))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"data.datamodule: {path} cannot be made ({error})") from error
