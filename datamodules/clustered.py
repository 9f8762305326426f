"""Clients whose data mix several clusters: the draws shared by every clustered dataset."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster import seeds
from flcluster.data import FederatedDataModule, Shard, Source, View
from flcluster.errors import UserError

from . import mixture


@dataclass(frozen=True, eq=False)
class _Cluster:
    """One cluster's two splits, the test split divided into proxy and evaluation."""

    train: Source
    test: Source
    train_index: Tensor
    test_index: Tensor
    proxy_index: Tensor


class ClusteredDataModule(FederatedDataModule):
    """Clients that draw most samples from a fixed main cluster and the rest from the others (CDFL and CCFL).

    Client ``m`` has the main cluster ``m % num_clusters``. For each cycle it draws how many samples it holds, which
    share comes from its main cluster, and then the samples, without replacement within a cluster; its test set has
    the same mixture and comes from the test split. The server's proxy sets come from the test split too and are kept
    out of everything that evaluates; clusters of equal size (rotations of the same images) give the same positions.

    Args:
        num_classes: Number of classes.
        input_shape: Channels, height and width of a sample.
        num_clusters: Number of clusters K.
        num_clients: Number of clients; 20 per cluster if not given.
        samples: Fewest and most training samples of a client.
        main_share: Smallest and largest share of a client's samples that come from its main cluster.
        rest_split: How the other clusters share the rest: at random (Dirichlet(1)) or equally.
        redraw: Draw new data in every cycle; otherwise a client keeps its first.
        proxy_size: Images per cluster that the server holds, taken out of the test split.
        test_size: Test samples of a client.
        batch_size: Batch size of the DataLoaders.
        root: Folder that holds the datasets.
        download: Download what is missing, where that is possible.
        seed: Seed of every draw.
    """

    def __init__(
        self,
        num_classes: int,
        input_shape: tuple[int, int, int],
        num_clusters: int = 4,
        num_clients: int | None = None,
        samples: tuple[int, int] = (500, 2000),
        main_share: tuple[float, float] = (0.4, 0.9),
        rest_split: Literal["dirichlet", "uniform"] = "dirichlet",
        redraw: bool = True,
        proxy_size: int = 2000,
        test_size: int = 1000,
        batch_size: int = 128,
        root: str | Path = "data",
        download: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.num_classes, self.input_shape = num_classes, tuple(input_shape)
        self.num_clusters = num_clusters
        self.num_clients = 20 * num_clusters if num_clients is None else num_clients
        self.samples, self.main_share = (samples[0], samples[1]), (main_share[0], main_share[1])
        self.rest_split, self.redraw = rest_split, redraw
        self.proxy_size, self.test_size = proxy_size, test_size
        self.batch_size, self.seed = batch_size, seed
        self.root, self.download = Path(root).expanduser(), download
        self._clusters: list[_Cluster] = []
        self._check_arguments()

    @abstractmethod
    def sources(self, split: Literal["train", "test"]) -> list[Source]:
        """Load one split: a source per cluster; rotations of the same images list them in the same order."""

    def setup(self, stage: str | None = None) -> None:
        """Load the data once; later calls do nothing."""
        if self._clusters:
            return
        train, test = self.sources("train"), self.sources("test")
        self._check_sizes(min(map(len, train)), min(map(len, test)))
        self._clusters = [self._cluster(*pair) for pair in zip(train, test, strict=True)]

    def main_cluster(self, client: int) -> int:
        """Return the cluster that most of a client's samples come from."""
        return client % self.num_clusters

    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client, without drawing them."""
        return self._size(client, cycle)[0]

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Draw what a client holds in a cycle."""
        n, rng = self._size(client, cycle)
        main, clusters = self.main_cluster(client), self._loaded()
        counts = mixture.draw_counts(rng, n, main, self.num_clusters, self.main_share, self.rest_split)
        train = [
            (c.train, mixture.draw_without_replacement(rng, c.train_index, k))
            for c, k in zip(clusters, counts, strict=True)
        ]
        tested = mixture.apportion(counts, self.test_size)
        test = [
            (c.test, mixture.draw_without_replacement(rng, c.test_index, k))
            for c, k in zip(clusters, tested, strict=True)
        ]
        return Shard(View(tuple(train)), View(tuple(test)), torch.from_numpy(counts / n).float())

    def drifted(self, cycle: int) -> NDArray[np.int64]:
        """Everyone, at every round but the first, if data are drawn anew."""
        return np.arange(self.num_clients if self.redraw and cycle else 0)

    def proxy(self, cluster: int) -> View:
        """Return the server's proxy set of a cluster (disjoint from every evaluation set)."""
        held = self._loaded()[cluster]
        return View(((held.test, held.proxy_index),))

    def cluster_train(self, cluster: int) -> View:
        """Return a cluster's whole training split."""
        held = self._loaded()[cluster]
        return View(((held.train, held.train_index),))

    def cluster_test(self, cluster: int) -> View:
        """Return a cluster's evaluation split: the test split without the proxy set."""
        held = self._loaded()[cluster]
        return View(((held.test, held.test_index),))

    def _loaded(self) -> list[_Cluster]:
        self.setup()
        return self._clusters

    def _size(self, client: int, cycle: int) -> tuple[int, np.random.Generator]:
        """Draw the size of a shard; what follows is drawn from the same generator."""
        if not 0 <= client < self.num_clients:
            raise IndexError(f"client {client} of {self.num_clients}")
        rng = seeds.rng(self.seed, "shard", client, cycle if self.redraw else 0)
        return int(rng.integers(self.samples[0], self.samples[1], endpoint=True)), rng

    def _cluster(self, train: Source, test: Source) -> _Cluster:
        order = torch.from_numpy(seeds.rng(self.seed, "proxy").permutation(len(test)))  # the same for equal lengths
        proxy, rest = order[: self.proxy_size].sort().values, order[self.proxy_size :].sort().values
        return _Cluster(train, test, torch.arange(len(train)), rest, proxy)

    def _check_arguments(self) -> None:
        for name in ("num_classes", "num_clusters", "num_clients", "test_size", "batch_size"):
            if getattr(self, name) < 1:
                raise UserError(f"data.{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("seed", "proxy_size"):
            if getattr(self, name) < 0:
                raise UserError(f"data.{name} is {getattr(self, name)}: it must be at least 0")
        if not 1 <= self.samples[0] <= self.samples[1]:
            raise UserError(f"data.samples is {self.samples}: give the fewest and the most, as in (500, 2000)")
        if not 0 < self.main_share[0] <= self.main_share[1] <= 1:
            raise UserError(f"data.main_share is {self.main_share}: give two shares above 0 and up to 1, as (0.4, 0.9)")
        if self.rest_split not in ("dirichlet", "uniform"):
            raise UserError(f"data.rest_split is {self.rest_split!r}: it must be 'dirichlet' or 'uniform'")

    def _check_sizes(self, train: int, test: int) -> None:
        """Refuse what the smallest cluster cannot give."""
        share = mixture.largest_share(self.main_share, self.num_clusters)
        if mixture.needed(self.samples[1], share) > train:
            self._refuse("samples", self.samples[1], "training", train, mixture.largest_size(train, share))
        if self.proxy_size >= test:
            self._refuse("proxy_size", self.proxy_size, "test", test, test - 1)
        share, rest = min(1.0, share + 1 / self.samples[0]), test - self.proxy_size  # a test set repeats rounded shares
        if mixture.needed(self.test_size, share) > rest:
            self._refuse("test_size", self.test_size, "evaluation", rest, mixture.largest_size(rest, share))

    def _refuse(self, argument: str, value: int, split: str, available: int, works: int) -> None:
        raise UserError(
            f"data.{argument} asks for {value}, but a cluster of {self.name} has {available} {split} images: "
            f"at most {works} would work"
        )
