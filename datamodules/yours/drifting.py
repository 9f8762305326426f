"""A user's data as a stream: samples come and go, and clients change how they see them."""

from typing import Any

import numpy as np
import torch
from lightning import LightningDataModule
from torch.utils.data import ConcatDataset

from flcluster import seeds
from flcluster.data import Samples
from flcluster.datamodules.streams.arrivals import ArrivalPlan, SampleArrivals, StreamSetting
from flcluster.datamodules.streams.holding import Loaded
from flcluster.datamodules.streams.label_buckets import LabelBuckets
from flcluster.datamodules.streams.module import StreamDataModule
from flcluster.datamodules.streams.seen import seen
from flcluster.datamodules.streams.shifts import Shift
from flcluster.errors import UserError

from .over import OverOwn


class DriftingDataModule(OverOwn, StreamDataModule):
    """A stream of the training samples that a user has, which FIELDING and its relatives run on.

    Args:
        datamodule: Arrays, a folder, a table, a Hugging Face dataset or any LightningDataModule, without a partition;
            in a configuration its class_path and init_args. Samples need a class.
        num_clients: Number of clients.
        arrivals: Plan of who gets which sample when; if not given, all labels for everyone, each arriving by itself.
        shift: Change in how clients see their samples: ShiftDrift, RotationDrift, CorruptionDrift or LabelSwaps.
        **kwargs: Further arguments of StreamDataModule: window, static, test_share, shared, proxy_per_class and others.
    """

    def __init__(
        self,
        datamodule: LightningDataModule | dict[str, Any],
        num_clients: int = 20,
        arrivals: ArrivalPlan | None = None,
        shift: Shift | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_classes=1, input_shape=(), num_clients=num_clients, arrivals=arrivals, shift=shift, **kwargs
        )
        self._planned = arrivals is not None
        self._take_up(datamodule, kwargs)

    def setup(self, stage: str | None = None) -> None:
        """Open the data, draw the stream and try the shift, once; later calls do nothing."""
        if self._drawn is not None:
            return
        super().setup(stage)
        self._learn(self._stream.holding.train.sample.astype(np.int64))

    def draw_arrivals(self, setting: StreamSetting) -> SampleArrivals:
        """Return who gets which sample when."""
        return (self.arrivals if self._planned else label_by_label(setting)).draw(setting)

    def load(self) -> Loaded:
        """Return the training samples, and the test samples where the server holds some."""
        train, test = self._brought.train, self._brought.test
        if train.labels is None:
            raise UserError(
                f"data.datamodule: streams hand samples out by their class, which is not known of {self.name}: say "
                "where it is (labels), or use ShiftedDataModule"
            )
        self._try(train)
        pool = np.arange(len(train))
        if test is None or not self.proxy_per_class:
            return Loaded(train, pool, pool)  # type: ignore[arg-type]
        return Loaded(_both(train, test), pool, np.arange(len(train), len(train) + len(test)))  # type: ignore[arg-type]

    def _try(self, source: Samples) -> None:
        """Refuse a shift that these samples cannot take before anything is trained."""
        if self.shift is None or not len(source):
            return
        rng = seeds.rng(0, "try a shift")
        states = self.shift.first(8, self.num_classes, rng)
        moved = self.shift.moved(states, np.ones((8, self.num_classes), dtype=np.int64), rng)
        for state in moved:
            seen(source, self.shift.look(state)).read([0])  # type: ignore[arg-type, attr-defined]


def label_by_label(setting: StreamSetting) -> LabelBuckets:
    """Return a plan that any data can give: every client gets all labels, at most a third of the rarest one's samples.

    >>> plan = label_by_label(StreamSetting(np.repeat(np.arange(3), 30), 3, 5, 100, 0.2, 0))
    >>> plan.labels_per_client, plan.samples
    ((3, 3), (30, 30))
    """
    counts = np.bincount(setting.labels, minlength=setting.num_classes)
    if not counts.all():
        raise UserError(
            f"data.arrivals: no sample has the label {int(np.argmin(counts))}; give a plan (LabelBuckets, say) that "
            "does without"
        )
    classes = setting.num_classes
    samples = classes * max(1, min(int(counts.min()) // 3, 300 // classes))
    return LabelBuckets(
        samples=(samples, samples), labels_per_client=(classes, classes), buckets=classes, concentration=None
    )


def _both(train: Samples, test: Samples) -> Samples:
    """Return two sets as one, of which only the first trains."""
    assert train.labels is not None
    if test.labels is None:
        raise UserError("data.proxy_per_class needs the classes of the test samples, which are not known")
    dataset: Any = ConcatDataset([train.dataset, test.dataset])
    return Samples(dataset, train.collate, torch.cat([train.labels, test.labels]), train.transform)
