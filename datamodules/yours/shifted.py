"""A user's data in clusters: each sees the samples in another way."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from lightning import LightningDataModule
from torch.utils.data import Subset

from flcluster import seeds
from flcluster.data import Samples, Source
from flcluster.datamodules.clusters.module import ClusteredDataModule
from flcluster.datamodules.sources.counts import Ints
from flcluster.datamodules.streams.looks import Look
from flcluster.datamodules.streams.named_looks import Named, look_named, name_of
from flcluster.datamodules.streams.seen import SeenSamples
from flcluster.errors import UserError

from .over import OverOwn


class ShiftedDataModule(OverOwn, ClusteredDataModule):
    """Clusters by rotations, label swaps or any function of a sample, of data that a user has.

    Cluster ``k`` sees every sample through shift ``k``; client ``m`` has the main cluster ``m % K``. As with our own
    clusters, clients share each cluster's samples out among them (``samples: null``), or draw mixtures of clusters
    (``samples: [500, 2000]``), and proxy sets come from the test samples.

    Args:
        datamodule: Arrays, a folder, a table, a Hugging Face dataset or any LightningDataModule, without a partition;
            in a configuration its class_path and init_args.
        shifts: One for each cluster, several joined by ``+``: ``none``, ``rot90`` (any degrees, counter-clockwise),
            ``contrast``, ``brightness``, ``blur`` or ``noise`` (with a severity: ``blur0.3``), ``swap0-1`` (two
            labels), ``permute1`` (all labels, the first such permutation), a function of a sample, or the dotted name
            of one.
        num_clients: Number of clients; 20 per cluster if not given.
        samples: Fewest and most training samples of a client that mixes clusters; null divides each cluster.
        proxy_size: Test samples per cluster that the server holds.
        test_size: Test samples of a client; null divides each cluster's among its clients.
        **kwargs: Further arguments of ClusteredDataModule: main_share, rest_split, redraw, val_share, seed and others.
    """

    def __init__(
        self,
        datamodule: LightningDataModule | dict[str, Any],
        shifts: Sequence[Named],
        num_clients: int | None = None,
        samples: tuple[int, int] | None = None,
        proxy_size: int = 0,
        test_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(shifts, str) or len(shifts) < 1:
            raise UserError(f"data.shifts is {shifts!r}: give a list with one shift for each cluster")
        super().__init__(
            num_classes=1,
            input_shape=(),  # type: ignore[arg-type]
            num_clusters=len(shifts),
            num_clients=num_clients,
            samples=samples,
            proxy_size=proxy_size,
            test_size=test_size,
            **kwargs,
        )
        self.shifts = tuple(shifts)
        self._take_up(datamodule, kwargs)

    @property
    def described(self) -> dict[str, str]:
        """Say for a run's summary what the clusters are."""
        return {"shifts": ", ".join(map(name_of, self.shifts))}

    def setup(self, stage: str | None = None) -> None:
        """Open the data, divide them and try every shift, once; later calls do nothing."""
        if self._clusters:
            return
        super().setup(stage)
        held = self._clusters[0].train_index.numpy()
        self._learn(held if self._parts is None else self._parts[0][held])

    def sources(self) -> list[tuple[Source, Source]]:
        """Return one copy of the samples, seen in each way."""
        brought, share = self._brought, self.datamodule.test_share
        train, test = brought.train, brought.test
        self._parts: tuple[Ints, Ints] | None = None
        if test is None:
            order = seeds.rng(self.seed, "shifted test").permutation(len(train))
            cut = round(share * len(train))
            self._parts = np.sort(order[cut:]), np.sort(order[:cut])
            train, test = (_chosen(train, part) for part in self._parts)
            test.transform = None
        looks = [look_named(name, self.num_classes) for name in self.shifts]
        return [(self._seen(train, look), self._seen(test, look)) for look in looks]

    def _seen(self, source: Samples, look: Look) -> Source:
        if look.changes_nothing:
            return source
        found = SeenSamples(source, look, getattr(self.datamodule, "labels", None))
        if len(found):
            found.read([0])  # what cannot be shifted is refused before anything is trained
        return found


def _chosen(source: Samples, index: Ints) -> Samples:
    """Return some of the samples as a source of their own."""
    labels = None if source.labels is None else source.labels[torch.from_numpy(index)]
    return Samples(Subset(source.dataset, index.tolist()), source.collate, labels, source.transform)
