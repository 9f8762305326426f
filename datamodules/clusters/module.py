"""Clients that hold mixtures of clusters, or parts of one: what every clustered dataset shares."""

from abc import abstractmethod
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flcluster.data import FederatedDataModule, Shard, Source, View
from flcluster.errors import UserError, at_least

from .cluster import Cluster, make_cluster, refuse, val_size
from .divided import Divided
from .mixed import MAIN_SHARE, Mixed

MOST_CLUSTERS = 100_000
"""Each has a source of its own: more would take all memory before anything could be said."""


class ClusteredDataModule(FederatedDataModule):
    """Clients that draw most samples from a fixed main cluster and the rest from the others (CDFL and CCFL).

    Client ``m`` has the main cluster ``m % num_clusters``. For each cycle it draws how many samples it holds, which
    share comes from its main cluster, and then the samples, without replacement within a cluster; its test set has
    the same mixture and comes from the test split. The server's proxy sets come from the test split too and are kept
    out of everything that evaluates; clusters of equal size (rotations of the same images) give the same positions.

    With ``samples=None`` nothing is mixed and nothing drawn anew (IFCA, DFCA): each cluster's training split is
    shuffled once and divided among the clients whose main cluster it is. Every sample belongs to one of them, and their
    sizes differ by at most one.

    Args:
        num_classes: Number of classes.
        input_shape: Channels, height and width of a sample.
        num_clusters: Number of clusters K.
        num_clients: Number of clients; 20 per cluster if not given.
        samples: Fewest and most training samples of a client; null divides each cluster among its clients.
        main_share: Smallest and largest share of a client's samples that come from its main cluster. Not with samples
            null: all do.
        rest_split: How the other clusters share the rest: at random (Dirichlet(1)) or equally.
        redraw: Draw new data in every cycle; otherwise, and with samples null, a client keeps its first.
        proxy_size: Images per cluster that the server holds, taken out of the test split.
        test_size: Test samples of a client. With samples null they come from its cluster alone, the whole evaluation
            split if it has just so many; test_size null then divides that split among the clients too.
        batch_size: Batch size of the DataLoaders.
        root: Folder that holds the datasets.
        download: Download what is missing, where that is possible.
        seed: Seed of every draw.
        train_limit: Use only so many training images of each cluster, chosen at random; all if not given.
        val_share: Share of each cluster's training images that is set apart to choose by and trains nobody; a client
            validates on some of them, in proportion to its samples and in its mixture. 0 sets none apart.
        unseen: Share of the clients that are held out of training and join at the end, to be scored; none if not given.
    """

    always_hold = True
    """Every draw is of a sample at least, and a division that leaves a client without one is refused."""

    def __init__(
        self,
        num_classes: int,
        input_shape: tuple[int, int, int],
        num_clusters: int = 4,
        num_clients: int | None = None,
        samples: tuple[int, int] | None = (500, 2000),
        main_share: tuple[float, float] = MAIN_SHARE,
        rest_split: Literal["dirichlet", "uniform"] = "dirichlet",
        redraw: bool = True,
        proxy_size: int = 2000,
        test_size: int | None = 1000,
        batch_size: int = 128,
        root: str | Path = "data",
        download: bool = False,
        seed: int = 0,
        train_limit: int | None = None,
        val_share: float = 0.0,
        unseen: float | None = None,
    ) -> None:
        super().__init__()
        self.unseen = self._held_out(unseen)
        at_least("num_classes", num_classes, 1, "data.")
        self.num_classes, self.input_shape = num_classes, tuple(input_shape)
        if num_clusters > MOST_CLUSTERS:
            raise UserError(f"data.num_clusters must be at most {MOST_CLUSTERS}, got {num_clusters}")
        self.num_clusters = num_clusters
        self.num_clients = 20 * num_clusters if num_clients is None else num_clients
        self.samples, self.redraw = samples, redraw and samples is not None
        self.proxy_size, self.test_size, self.train_limit = proxy_size, test_size, train_limit
        self.batch_size, self.seed, self.val_share = batch_size, seed, val_share
        self.root, self.download = Path(root).expanduser(), download
        self._clusters: list[Cluster] = []
        self._check_arguments()
        self._held = self._divided(main_share) if samples is None else self._mixed(samples, main_share, rest_split)

    @abstractmethod
    def sources(self) -> list[tuple[Source, Source]]:
        """Load the data: training and test source of each cluster; rotations of the same images list them alike."""

    def setup(self, stage: str | None = None) -> None:
        """Load the data once; later calls do nothing."""
        if self._clusters:
            return
        pairs = self.sources()
        self._check_sizes([len(train) for train, _ in pairs], [len(test) for _, test in pairs])
        self._clusters = [
            make_cluster(train, test, self.proxy_size, self.train_limit, self.seed, self.val_share)
            for train, test in pairs
        ]

    def main_cluster(self, client: int) -> int:
        """Return the cluster that most of a client's samples come from."""
        return client % self.num_clusters

    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client, without drawing them."""
        self._check_client(client)
        return self._held.size(client, cycle)

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Draw what a client holds in a cycle."""
        self._check_client(client)
        return self._held.shard(client, cycle)

    def drifted(self, cycle: int) -> NDArray[np.int64]:
        """Everyone, at every round but the first, if data are drawn anew."""
        return np.arange(self.num_clients if self.redraw and cycle else 0)

    def proxy(self, cluster: int) -> View:
        """Return the server's proxy set of a cluster (disjoint from every evaluation set)."""
        held = self._loaded()[cluster]
        return View(((held.test, held.proxy_index),))

    def cluster_train(self, cluster: int) -> View:
        """Return a cluster's whole training split, without what validates."""
        held = self._loaded()[cluster]
        return View(((held.train, held.train_index),))

    def cluster_test(self, cluster: int) -> View:
        """Return a cluster's evaluation split: the test split without the proxy set."""
        held = self._loaded()[cluster]
        return View(((held.test, held.test_index),))

    def _loaded(self) -> list[Cluster]:
        self.setup()
        return self._clusters

    def _mixed(self, samples: tuple[int, int], main_share: tuple[float, float], rest_split: str) -> Mixed:
        if self.test_size is None:
            raise UserError("data.test_size is null: give a number, or set data.samples to null to divide both splits")
        return Mixed(
            clusters=self._loaded,
            num_clusters=self.num_clusters,
            samples=(samples[0], samples[1]),
            main_share=(main_share[0], main_share[1]),
            rest_split=rest_split,
            redraw=self.redraw,
            test_size=self.test_size,
            seed=self.seed,
            val_share=self.val_share,
        )

    def _divided(self, main_share: tuple[float, float]) -> Divided:
        if tuple(main_share) not in (MAIN_SHARE, (1.0, 1.0)):
            raise UserError(
                f"data.main_share is {tuple(main_share)}, but with data.samples null all of a client's samples come "
                "from its main cluster: leave main_share out"
            )
        return Divided(
            clusters=self._loaded,
            num_clusters=self.num_clusters,
            num_clients=self.num_clients,
            test_size=self.test_size,
            seed=self.seed,
            val_share=self.val_share,
        )

    def _check_client(self, client: int) -> None:
        if not 0 <= client < self.num_clients:
            raise IndexError(f"client {client} of {self.num_clients}")

    def _check_arguments(self) -> None:
        self._at_least(1, "num_clusters", "num_clients", "test_size", "train_limit", "batch_size")
        self._at_least(0, "seed", "proxy_size")
        self._check_share("val_share")

    def _check_sizes(self, train: list[int], test: list[int]) -> None:
        """Refuse what the smallest cluster cannot give."""
        if self.train_limit is not None and self.train_limit > min(train):
            refuse("train_limit", self.train_limit, "training", min(train), min(train), self.name)
        if self.proxy_size >= min(test):
            refuse("proxy_size", self.proxy_size, "test", min(test), min(test) - 1, self.name)
        given = train if self.train_limit is None else [self.train_limit] * len(train)
        given = [n - val_size(self.val_share, n) for n in given]
        self._held.check(given, [n - self.proxy_size for n in test], self.name)
