"""Clients that differ in their labels: one dataset, divided once by a replaceable partition."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flcluster.data import Shard, View
from flcluster.datamodules.sources.counts import Ints
from flcluster.datamodules.sources.images import ImageSource, joined_images
from flcluster.datamodules.sources.module import ByClassPath, ImageDataModule
from flcluster.errors import UserError

from .dirichlet import Dirichlet
from .natural_ids import NaturalIds
from .partitions import Partition, Samples
from .split import Dropouts, LabelSplit, divide, reserve, with_validation


class Skewed(ImageDataModule):
    """An image dataset, its training samples divided among clients by their labels, for good.

    A subclass says of which dataset: ``known = CIFAR10``.

    There is one cluster: all of it. ``shard(m).test`` holds test samples in client m's own label mix, no sample twice;
    ``cluster_test(0)`` is the global test set with equally many samples of each class, as many as the rarest has. Which
    samples test depends on the seed only, whatever the partition and the number of clients.

    Args:
        num_clients: Number of clients.
        partition: Who holds which labels: Dirichlet (the default), Pathological, APFLTable1, PathologicalDropout,
            QuantitySkew, Shards, NaturalIds or IID.
        dropouts: Clients that never take part in training; those of the partition (AP-FL's table has one) if not given.
        monopoly_classes: Classes that the dropouts alone hold, in equal parts, beside what the partition gives them.
        test_share: Share of each class of both splits that tests; null keeps the dataset's own test split for that.
        proxy_size: Images that the server holds, taken out of what clients would train on.
        limit: Use only so many images (training images with test_share null), chosen at random; all if not given.
        dataset_kwargs: Further arguments of the dataset class.
        image_size: Resize the images to this height and width.
        batch_size: Batch size of the DataLoaders.
        root: Folder that holds the datasets.
        download: Download what is missing, where that is possible.
        seed: Seed of every draw.
        val_share: Share of each client's training samples that is set apart to choose by; 0 sets none apart.
        unseen: Share of the clients that are held out of training and join at the end, to be scored; none if not given.
    """

    num_clusters = 1

    def __init__(
        self,
        num_clients: int = 10,
        partition: Partition | None = None,
        dropouts: list[int] | None = None,
        monopoly_classes: list[int] | None = None,
        test_share: float | None = 0.1,
        proxy_size: int = 0,
        limit: int | None = None,
        dataset_kwargs: dict[str, Any] | None = None,
        image_size: int | None = None,
        batch_size: int = 128,
        root: str | Path = "data",
        download: bool = False,
        seed: int = 0,
        val_share: float = 0.0,
        unseen: float | None = None,
    ) -> None:
        super().__init__()
        self.unseen = self._held_out(unseen)
        self.num_classes, self.num_clients = self.known.num_classes, num_clients
        self._take_up(dataset_kwargs, image_size)
        self.partition = partition or Dirichlet()
        self.test_share, self.proxy_size, self.limit, self.val_share = test_share, proxy_size, limit, val_share
        self.batch_size, self.root, self.download, self.seed = batch_size, Path(root).expanduser(), download, seed
        self._dropouts = Dropouts(_chosen(dropouts, self.partition.dropouts), _chosen(monopoly_classes, ()))
        self._loaded: tuple[ImageSource, LabelSplit] | None = None
        self._check_arguments()

    @property
    def dropouts(self) -> list[int]:
        """Clients that never take part in training, ascending."""
        return list(self._dropouts.clients)

    @property
    def missing_classes(self) -> list[int]:
        """Classes that no client but dropouts holds, ascending."""
        return np.flatnonzero(~self._drawn[1].counts[self.participants].any(axis=0)).tolist()

    @property
    def described(self) -> dict[str, str]:
        """Say for a run's summary who holds which labels, and which classes only dropouts hold."""
        told = [self.partition.title]
        if self._dropouts.clients != tuple(self.partition.dropouts):
            told.append(f"dropouts {' '.join(map(str, self._dropouts.clients)) or 'none'}")
        if self._dropouts.monopolies:
            told.append(f"monopolies {' '.join(map(str, self._dropouts.monopolies))}")
        missing = [self.class_names[label] for label in self.missing_classes]
        return {"partition": ", ".join(told), "missing_classes": ", ".join(missing)}

    def setup(self, stage: str | None = None) -> None:
        """Load the data and divide them once; later calls do nothing."""
        if self._loaded is not None:
            return
        train, test = self.images()
        both = joined_images(train, test)
        drawn = self._divided(both.labels.numpy(), (len(train), len(test)))
        self._loaded = ImageSource(both, self.mean, self.std), drawn

    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client."""
        return len(self._drawn[1].train[self._checked(client)])

    def label_counts(self, clients: Ints, cycle: int) -> Ints:
        """Count the training labels of some clients, ``[n, num_classes]``."""
        return self._drawn[1].counts[clients]

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Return what a client holds, the same in every cycle."""
        split = self._drawn[1]
        train, test = split.train[self._checked(client)], split.test[client]
        val = self._view(split.val[client]) if self.val_share else None
        return Shard(self._view(train), self._view(test), torch.ones(1), val)

    def proxy(self, cluster: int) -> View:
        """Return what the server holds (no client trains or is tested on any of it)."""
        return self._view(self._drawn[1].proxy)

    def cluster_train(self, cluster: int) -> View:
        """Return what all clients train on together, dropouts too."""
        return self._view(np.sort(np.concatenate(self._drawn[1].train)))

    def cluster_test(self, cluster: int) -> View:
        """Return the global test set, with equally many samples of each class."""
        return self._view(self._drawn[1].global_test)

    def global_test(self) -> View:
        """Return the global test set, with equally many samples of each class."""
        return self.cluster_test(0)

    @property
    def _drawn(self) -> tuple[ImageSource, LabelSplit]:
        self.setup()
        assert self._loaded is not None
        return self._loaded

    def _divided(self, labels: Ints, lengths: tuple[int, int]) -> LabelSplit:
        ids = None
        if isinstance(self.partition, NaturalIds):
            ids = self.partition.read(self.known, self.root, self.dataset_kwargs, lengths)
        kept = reserve(
            labels,
            lengths[0],
            test_share=self.test_share,
            proxy_size=self.proxy_size,
            limit=self.limit,
            seed=self.seed,
        )
        samples = Samples(labels, self.num_classes, ids)
        split = divide(self.partition, self._dropouts, samples, kept, self.num_clients, self.seed)
        return with_validation(split, samples, self.val_share, self.seed) if self.val_share else split

    def _view(self, index: Ints) -> View:
        return View(((self._drawn[0], torch.from_numpy(index)),))

    def _checked(self, client: int) -> int:
        if not 0 <= client < self.num_clients:
            raise IndexError(f"client {client} of {self.num_clients}")
        return client

    def _check_arguments(self) -> None:
        self._at_least(1, "num_classes", "num_clients", "batch_size", "limit")
        self._at_least(0, "seed", "proxy_size")
        self._check_share("val_share")
        if self.test_share is not None and not 0 < self.test_share < 1:
            raise UserError(f"data.test_share is {self.test_share}: it must be above 0 and below 1, or null")
        if self.partition.says_who:  # also who drops out
            self.partition.check(self.num_clients, self.num_classes)
        self._dropouts.check(self.partition, self.num_clients, self.num_classes)
        if not self.partition.says_who:
            self.partition.check(self.num_clients, self.num_classes - len(self._dropouts.monopolies))


class LabelSkewDataModule(ByClassPath, Skewed):
    """Any torchvision-style dataset, its training samples divided among clients by their labels, for good."""


def _chosen(given: Sequence[int] | None, otherwise: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(otherwise if given is None else given))
