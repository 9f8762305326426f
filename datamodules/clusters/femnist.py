"""FEMNIST (LEAF), turned: a client is a writer, a cluster a rotation (DFCA)."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flcluster import seeds
from flcluster.data import FederatedDataModule, Shard, View
from flcluster.datamodules.skew.dealing import set_apart
from flcluster.datamodules.sources.class_names import EMNIST
from flcluster.datamodules.sources.images import ImageSource, scaled_name, scaling
from flcluster.datamodules.sources.leaf import NUM_CLASSES, SIDE, Writers, load_femnist
from flcluster.errors import UserError

MEAN, STD = (0.0363,), (0.1550,)
"""Of pixels in [0, 1], ink bright. Public code states 0.9637 and 0.1550 for LEAF's images, which have dark ink."""


class RotatedFEMNIST(FederatedDataModule):
    """Writers of LEAF's FEMNIST as clients: 1x28x28, 62 classes, sizes as they are; mean 0.0363, std 0.1550.

    Client ``m`` is the ``m``-th of the writers chosen at random and sees its images turned counter-clockwise by
    ``i * 360 / num_clusters`` degrees, where ``i = m % num_clusters`` is its cluster. It is tested on its own test
    samples. Data never change, and there are no proxy sets: every sample belongs to a client. Images are inverted, so
    that ink is bright on black as in MNIST and EMNIST. For the files see ``sources.leaf.load_femnist``.

    Args:
        num_clusters: Number of clusters K.
        num_clients: Number of clients, that is, of writers.
        min_samples: Writers with fewer training samples are not chosen.
        batch_size: Batch size of the DataLoaders.
        root: Folder that holds ``femnist``.
        seed: Seed of every draw.
        normalise: Take the mean off the pixels and divide by std; false leaves them in [0, 1]. The dataset's name then
            says so.
        val_share: Share of each writer's training samples that is set apart to choose by; 0 sets none apart.
        unseen: Share of the clients that are held out of training and join at the end, to be scored; none if not given.
    """

    name = "FEMNIST"

    def __init__(
        self,
        num_clusters: int = 4,
        num_clients: int = 400,
        min_samples: int = 1,
        batch_size: int = 128,
        root: str | Path = "data",
        seed: int = 0,
        normalise: bool = True,
        val_share: float = 0.0,
        unseen: float | None = None,
    ) -> None:
        super().__init__()
        self.unseen = self._held_out(unseen)
        self.num_classes, self.input_shape = NUM_CLASSES, (1, SIDE, SIDE)
        self.num_clusters, self.num_clients, self.min_samples = num_clusters, num_clients, min_samples
        self.val_share = val_share
        self.batch_size, self.root, self.seed = batch_size, Path(root).expanduser(), seed
        self.name, self.normalise = scaled_name(self.name, normalise), normalise
        self.mean, self.std = scaling(MEAN, STD, normalise)
        self.writers: list[str] = []
        """The writer of each client, once the data are loaded."""
        self._train: list[Tensor] = []
        self._val: list[Tensor] = []
        self._test: list[Tensor] = []
        self._sources: list[tuple[ImageSource, ImageSource]] = []
        self._check_arguments()

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by label: EMNIST's by class."""
        return EMNIST["byclass"]

    @property
    def angles(self) -> list[float]:
        """Degrees that each cluster is turned by, counter-clockwise."""
        return [i * 360 / self.num_clusters for i in range(self.num_clusters)]

    def prepare_data(self) -> None:
        """Read the JSON files once, before other processes look for them."""
        load_femnist(self.root)

    def setup(self, stage: str | None = None) -> None:
        """Load the data and choose the writers once; later calls do nothing."""
        if self._sources:
            return
        names, train, test = load_femnist(self.root)
        chosen = self._choose(train, test)
        self.writers = [names[writer] for writer in chosen]
        self._train, self._test = [train.of(w) for w in chosen], [test.of(w) for w in chosen]
        if self.val_share:
            parts = [
                set_apart(held.numpy(), self.val_share, 0.0, seeds.rng(self.seed, "validation", client))
                for client, held in enumerate(self._train)
            ]
            self._train, self._val = ([torch.from_numpy(part[i]) for part in parts] for i in (0, 1))
        scale = self.mean, self.std
        self._sources = [
            (ImageSource(train.images, *scale, angle), ImageSource(test.images, *scale, angle)) for angle in self.angles
        ]

    def main_cluster(self, client: int) -> int:
        """Return the cluster of a client."""
        return client % self.num_clusters

    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client."""
        return len(self.shard(client).train)

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Return what a writer wrote, the same in every cycle."""
        if not 0 <= client < self.num_clients:
            raise IndexError(f"client {client} of {self.num_clients}")
        self.setup()
        train, test = self._sources[self.main_cluster(client)]
        mixture = torch.zeros(self.num_clusters)
        mixture[self.main_cluster(client)] = 1.0
        val = View(((train, self._val[client]),)) if self.val_share else None
        return Shard(View(((train, self._train[client]),)), View(((test, self._test[client]),)), mixture, val)

    def proxy(self, cluster: int) -> View:
        """Refuse: nothing is left for the server."""
        raise UserError("FEMNIST has no proxy sets, since every sample belongs to a client: use a method without them")

    def cluster_train(self, cluster: int) -> View:
        """Return the training samples of a cluster's writers."""
        self.setup()
        return View(((self._sources[cluster][0], torch.cat(self._train[cluster :: self.num_clusters])),))

    def cluster_test(self, cluster: int) -> View:
        """Return the test samples of a cluster's writers."""
        self.setup()
        return View(((self._sources[cluster][1], torch.cat(self._test[cluster :: self.num_clusters])),))

    def _choose(self, train: Writers, test: Writers) -> list[int]:
        """Choose a writer for each client among those that have enough to train on and something to test on."""
        fit = np.flatnonzero((train.counts() >= self.min_samples) & (test.counts() > 0))
        if len(fit) < self.num_clients:
            raise UserError(
                f"data.num_clients asks for {self.num_clients} writers, but FEMNIST in {self.root.resolve()} has "
                f"{len(fit)} with at least {self.min_samples} training samples (data.min_samples) and a test sample: "
                "ask for fewer, or have LEAF's preprocess.sh take more writers (--sf 1.0) and split their samples "
                "(-t sample)"
            )
        chosen: list[int] = seeds.rng(self.seed, "writers").permutation(fit)[: self.num_clients].tolist()
        return chosen

    def _check_arguments(self) -> None:
        self._at_least(1, "num_clusters", "num_clients", "min_samples", "batch_size")
        self._at_least(0, "seed")
        self._check_share("val_share")
        if self.num_clients < self.num_clusters:
            raise UserError(
                f"data.num_clients is {self.num_clients}: each of the {self.num_clusters} clusters needs a client"
            )
