"""The base of every datamodule: clients, what each holds in a cycle, clusters and their evaluation sets."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from lightning import LightningDataModule
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from flcluster.errors import UserError, at_least
from flcluster.given import Recorded

from .roster import Roster
from .views import View, joined, labels_of


@dataclass(frozen=True, eq=False)
class Shard:
    """What one client holds in one cycle."""

    train: View
    test: View
    mixture: Tensor
    """True share of each cluster among the training samples, ``[num_clusters]``."""
    val: View | None = None
    """What was set apart of the training samples to choose by (stopping, sweeps); None without a validation split."""


class FederatedDataModule(Recorded, Roster, LightningDataModule):
    """Base of every flcluster datamodule: a Lightning datamodule that also knows clients and clusters.

    ``num_classes``, ``input_shape``, ``num_clusters`` and ``num_clients`` are known before any file is read,
    so that models and methods can be linked to them. Every draw depends on ``(seed, client, cycle)`` only.
    """

    num_classes: int
    input_shape: tuple[int, ...]
    num_clusters: int
    batch_size: int = 128
    val_share: float = 0.0
    """Share of the training samples that is set apart to choose by; the papers set none apart."""
    num_workers: int = 0
    """Processes that read ahead in each DataLoader."""
    rounds_only: bool = False
    """Whether a cycle is a round of the whole federation, so that only methods in rounds can run on it."""
    name: str = "data"
    """How the dataset is called in tables; the papers' names where a paper uses it."""

    @staticmethod
    def _held_out(share: float | None) -> float | None:
        if share is not None and not 0 < share < 1:
            raise UserError(f"data.unseen is {share}: it must be a share of the clients, above 0 and below 1")
        return share

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by label."""
        return tuple(f"class {label}" for label in range(self.num_classes))

    @cached_property
    def knows_classes(self) -> bool:
        """Whether each sample is told to be of one class, from 0 on."""
        if self.num_classes < 1:
            return False
        views = (self.shard(client).train for client in self.holding(0).tolist())
        parts = next((view.parts for view in views if len(view)), ())
        try:
            labels_of(View(tuple((source, index[:1]) for source, index in parts if len(index))[:1]))
        except UserError:
            return False
        return True

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Mean and standard deviation, per channel, that pixels in [0, 1] are normalised by; None for other inputs."""
        mean, std = getattr(self, "mean", None), getattr(self, "std", None)
        return None if mean is None or std is None else (tuple(mean), tuple(std))

    @property
    def described(self) -> dict[str, str]:
        """Return what a result must name besides the dataset, for the run's summary: how it was divided, say."""
        return {}

    @abstractmethod
    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Draw what a client holds in a cycle."""

    @abstractmethod
    def proxy(self, cluster: int) -> View:
        """Return the server's proxy set of a cluster (disjoint from every evaluation set)."""

    @abstractmethod
    def cluster_train(self, cluster: int) -> View:
        """Return a cluster's whole training split."""

    @abstractmethod
    def cluster_test(self, cluster: int) -> View:
        """Return a cluster's evaluation split."""

    def global_test(self) -> View | None:
        """Return a test set with equally many samples of each class, where clients differ in their labels."""
        return None

    # Data that change with time; a round is a cycle --------------------------------------------------------------

    def label_counts(self, clients: NDArray[np.int64], cycle: int) -> NDArray[np.int64]:
        """Count the training labels of some clients, ``[n, num_classes]``."""
        held = [labels_of(self.shard(client, cycle).train) for client in clients.tolist()]
        counts = [np.bincount(labels, minlength=self.num_classes) for labels in held]
        return np.stack(counts) if counts else np.empty((0, self.num_classes), dtype=np.int64)

    def arrived(self, client: int, cycle: int) -> list[tuple[int, View]]:
        """Return the training samples a client holds, by the round they arrived."""
        return [(0, self.shard(client, cycle).train)]

    def _at_least(self, least: int, *names: str) -> None:
        """Refuse arguments below a number; one that may be left out, and is, passes."""
        for name in names:
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least, "data.")

    def _check_share(self, *names: str) -> None:
        """Refuse shares that leave nothing."""
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"data.{name} is {getattr(self, name)}: it must be at least 0 and below 1")

    # What other Lightning projects see -------------------------------------------------------------------------

    def loader(self, view: View, shuffle: bool = False) -> DataLoader[Any]:
        """Wrap any view in a DataLoader."""
        return view.loader(self.batch_size, shuffle, num_workers=self.num_workers)

    def pool(self, split: str = "train") -> View:
        """Return all clusters' samples as one view."""
        pick = self.cluster_train if split == "train" else self.cluster_test
        return joined(pick(k) for k in range(self.num_clusters))

    def client_dataloader(self, client: int, cycle: int = 0, split: str = "train") -> DataLoader[Any]:
        """Return one client's train, val or test samples as a DataLoader."""
        shard = self.shard(client, cycle)
        views = {"train": shard.train, "val": shard.val, "test": shard.test}
        view = views.get(split)
        if view is None:
            raise UserError(f"client {client} has no {split!r} samples: there are train and test, and val if asked for")
        return self.loader(view, shuffle=split == "train")

    def cluster_dataloader(self, cluster: int, split: str = "train") -> DataLoader[Any]:
        """Return one cluster's train or test samples as a DataLoader."""
        view = self.cluster_train(cluster) if split == "train" else self.cluster_test(cluster)
        return self.loader(view, shuffle=split == "train")

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the whole training pool."""
        return self.loader(self.pool("train"), shuffle=True)

    def val_dataloader(self) -> DataLoader[Any] | list[Any]:
        """Return what clients set apart of their training samples to validate by.

        Never the test set: without a validation split there is nothing, and Lightning validates nothing.
        """
        held = (self.shard(client).val for client in range(self.num_clients))
        views = [view for view in held if view is not None]
        return self.loader(joined(views)) if views else []

    def test_dataloader(self) -> DataLoader[Any]:
        """Return the whole evaluation pool."""
        return self.loader(self.pool("test"))


def apportion(weights: np.ndarray, total: int) -> np.ndarray:
    """Split ``total`` in proportion to ``weights`` into integers that sum to it exactly (largest remainders)."""
    quota = weights / weights.sum() * total
    counts: NDArray[np.int64] = np.floor(quota).astype(np.int64)
    left = total - int(counts.sum())
    counts[np.argsort(counts - quota, kind="stable")[:left]] += 1
    return counts
