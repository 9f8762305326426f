"""Data of one's own, divided among clients once: what arrays, folders, tables and other datamodules share."""

from abc import abstractmethod
from functools import cached_property

import numpy as np
import torch

from flcluster import data, seeds
from flcluster.data import FederatedDataModule, Shard, View
from flcluster.datamodules.skew.dealing import NOBODY, parts_of
from flcluster.datamodules.skew.partitions import Partition
from flcluster.datamodules.skew.split import balanced
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError, at_least

from .brought import Brought
from .dividing import Division, client_of_each, deal_others, divide, draw_proxies


class OwnDataModule(FederatedDataModule):
    """A user's data, divided among clients for good; a subclass says what they are in :meth:`bring`.

    Clients are the owners that the data name, or what a partition makes. Each is tested on samples of its own: those
    of the data's test set that it owns or that have its mix of labels, or without such a set a share of its samples.

    Args:
        partition: How samples are divided: Dirichlet, Pathological, Shards, QuantitySkew, NaturalIds or IID; not needed
            where the data name the owners.
        num_clients: Number of clients; all owners that the data name, or 10 with a partition, if not given.
        test_share: Share of each client's samples that tests, where the data have no test set.
        val_share: Share of each client's training samples that is set apart to choose by; 0 sets none apart.
        unseen: Share of the clients that are held out of training and join at the end, to be scored; none if not given.
        proxy_size: Samples of each cluster that the server holds, taken out of what clients would train on.
        batch_size: Batch size of the DataLoaders.
        num_workers: Processes that read ahead in each DataLoader.
        seed: Seed of every draw.
    """

    def __init__(
        self,
        partition: Partition | None = None,
        num_clients: int | None = None,
        test_share: float = 0.2,
        val_share: float = 0.0,
        proxy_size: int = 0,
        batch_size: int = 128,
        num_workers: int = 0,
        seed: int = 0,
        unseen: float | None = None,
    ) -> None:
        super().__init__()
        self.unseen = self._held_out(unseen)
        self.partition, self._asked = partition, num_clients
        self.test_share, self.val_share, self.proxy_size = test_share, val_share, proxy_size
        self.batch_size, self.num_workers, self.seed = batch_size, num_workers, seed
        self._at_least(1, "batch_size")
        self._at_least(0, "seed", "proxy_size", "num_workers")
        if num_clients is not None:
            at_least("num_clients", num_clients, 1, "data.")
        self._check_share("test_share", "val_share")
        if test_share + val_share >= 1:
            raise UserError(
                "data.test_share and data.val_share leave nothing to train on: together they must be below 1"
            )

    seeks_labels = False
    """Whether to go through all samples for their classes where nothing else tells."""

    @abstractmethod
    def bring(self) -> Brought:
        """Open the data; called once."""

    def learn(self, train: Ints) -> None:
        """Learn from the samples that train, and no others, what inputs need (scales, say); called once."""

    def setup(self, stage: str | None = None) -> None:
        """Open the data and divide them once; later calls do nothing."""
        _ = self._division

    @property
    def num_clients(self) -> int:  # type: ignore[override]
        """Number of clients."""
        return len(self._division.train)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """Number of classes; 0 where samples have none."""
        return self._brought.num_classes

    @property
    def input_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of an input; empty where samples are not led by a tensor."""
        return self._brought.input_shape

    @property
    def num_clusters(self) -> int:  # type: ignore[override]
        """Number of true clusters; 1 where they are not known."""
        return int(self._cluster.max()) + 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by label."""
        return self._brought.class_names or super().class_names

    @property
    def client_names(self) -> tuple[object, ...]:
        """What the data call the clients, by number; empty where a partition made them."""
        owners, ids = self._brought.owners, self._brought.ids
        if not owners or ids is None:
            return ()
        return tuple(owners[ids[np.flatnonzero(self._owner == client)[0]]] for client in range(self.num_clients))

    @property
    def described(self) -> dict[str, str]:
        """Say for a run's summary how the samples were divided."""
        return {"partition": "owners" if self.partition is None else self.partition.title}

    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client."""
        return len(self._division.train[self._checked(client)])

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Return what a client holds, the same in every cycle."""
        held, brought = self._division, self._brought
        train = held.train[self._checked(client)]
        counts = np.bincount(self._cluster[train], minlength=self.num_clusters)
        source = brought.train if brought.val is None else brought.val
        val = _view(source, held.val[client]) if self._validates else None
        mixture = torch.from_numpy(counts / max(len(train), 1)).float()
        return Shard(_view(brought.train, train), _view(self._test, held.test[client]), mixture, val)

    def proxy(self, cluster: int) -> View:
        """Return what the server holds of a cluster (no client trains or is tested on any of it)."""
        return _view(self._brought.train, self._division.proxy[cluster])

    def cluster_train(self, cluster: int) -> View:
        """Return what clients train on of a cluster, together."""
        held = np.sort(np.concatenate(self._division.train))
        return _view(self._brought.train, held[self._cluster[held] == cluster])

    def cluster_test(self, cluster: int) -> View:
        """Return what clients are tested on of a cluster, together."""
        held = np.sort(np.concatenate(self._division.test))
        return _view(self._test, held[self._test_cluster[held] == cluster])

    def global_test(self) -> View | None:
        """Return equally many test samples of each class, where a partition divides by classes."""
        if self.partition is None or not self.partition.by_label or self._test.labels is None:
            return None
        held = np.sort(np.concatenate(self._division.test))
        chosen = balanced(self._test.labels.numpy()[held], seeds.rng(self.seed, "own data global test"))
        return _view(self._test, held[chosen])

    @property
    def _validates(self) -> bool:
        return self.val_share > 0 or self._brought.val is not None

    @cached_property
    def _brought(self) -> Brought:
        return self.bring()

    @property
    def _test(self) -> data.Samples:
        return self._brought.train if self._brought.test is None else self._brought.test

    @cached_property
    def _owner(self) -> Ints:
        """The client of each training sample."""
        return client_of_each(self._brought, self.partition, self._asked, seeds.rng(self.seed, "own data partition"))

    @cached_property
    def _cluster(self) -> Ints:
        """The cluster of each training sample."""
        known = self._brought.clusters
        return np.zeros(len(self._brought.train), dtype=np.int64) if known is None else known

    @cached_property
    def _test_cluster(self) -> Ints:
        """The cluster of each test sample: its own, or that of most samples of its client."""
        if self._brought.test is None:
            return self._cluster
        if self._brought.test_clusters is not None:
            return self._brought.test_clusters
        found = np.zeros(len(self._test), dtype=np.int64)
        for train, test in zip(self._division.train, self._division.test, strict=True):
            found[test] = np.bincount(self._cluster[train], minlength=1).argmax()
        return found

    @cached_property
    def _division(self) -> Division:
        owner, brought = self._owner, self._brought
        clients = int(owner.max(initial=NOBODY)) + 1
        val_share = self.val_share if brought.val is None else 0.0
        test_share = self.test_share if brought.test is None else 0.0
        parts = divide(owner, clients, val_share=val_share, test_share=test_share, seed=self.seed)
        train = [part.train for part in parts]
        proxy = draw_proxies(train, self._cluster, self.num_clusters, self.proxy_size, self.seed)
        held = np.concatenate(proxy)
        train = [np.setdiff1d(part, held) for part in train] if len(held) else train
        self.learn(np.sort(np.concatenate(train)))
        return Division(
            train=train,
            val=self._dealt(brought.val, brought.val_ids, clients, "val") or [part.val for part in parts],
            test=self._dealt(brought.test, brought.test_ids, clients, "test") or [part.test for part in parts],
            proxy=proxy,
        )

    def _dealt(self, source: data.Samples | None, ids: Ints | None, clients: int, what: str) -> list[Ints]:
        """Divide a set of its own among the clients."""
        if source is None:
            return []
        told, others = self._brought.samples(self._brought.train, self._brought.ids), self._brought.samples(source, ids)
        rng = seeds.rng(self.seed, f"own data {what}")
        return parts_of(deal_others(self._owner, told, others, len(source), clients, rng), clients)

    def _checked(self, client: int) -> int:
        if not 0 <= client < self.num_clients:
            raise IndexError(f"client {client} of {self.num_clients}")
        return client


def _view(source: data.Samples, index: Ints) -> View:
    return View(((source, torch.from_numpy(index)),))
