"""Clients whose data come and go: the holding rule and the views, shared by every streaming dataset."""

from abc import abstractmethod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from flcluster.data import FederatedDataModule, Shard, View
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError, at_least

from .arrivals import ArrivalPlan, SampleArrivals, StreamSetting, check_arrivals
from .holding import Drawn, Holding, Loaded
from .label_buckets import LabelBuckets
from .looks import LabelledSource
from .seen import seen
from .set_apart import SHARED, Shared, choose_proxy, choose_shared, without
from .shifts import RotationDrift, Shift, ShiftHistory


class StreamDataModule(FederatedDataModule):
    """Clients that receive samples at certain rounds and keep those of the last ``window`` rounds (FIELDING).

    The clock ticks with arrivals. Let τ be the last round up to t at which anything arrives for anyone: at round t a
    client holds what arrived in (τ - window, τ]; before the first arrival it holds what arrived in [-window, 0]. Each
    client's samples are parted into train and test along time, and a client may hold nothing for a while. A shift, if
    given, changes how clients see what they hold, at rounds of its own. There is one cluster: all of it.

    To subclass for other data, implement :meth:`load`, and to take arrivals from elsewhere than a plan override
    :meth:`draw_arrivals`; nothing else is needed. ``num_clients``, ``num_classes`` and ``input_shape`` go to
    ``super().__init__`` (read them from a small file there if need be; :meth:`load` is called by :meth:`setup`)::

        class MyStream(StreamDataModule):
            def load(self) -> Loaded:
                source = ImageSource(images, mean, std)           # any source with ``labels`` will do
                return Loaded(source, np.arange(len(source)), np.arange(0))
            def draw_arrivals(self, setting: StreamSetting) -> SampleArrivals:
                return SampleArrivals(sample, client, arrival)          # int64 arrays, one row per sample of a client;
                                                                  # a sample is its position in ``setting.labels``

    Args:
        num_classes: Number of classes.
        input_shape: Channels, height and width of a sample.
        num_clients: Number of clients.
        arrivals: Plan of who gets which sample when; LabelBuckets if not given.
        shift: Change in how clients see their data; none if not given.
        window: Rounds for which a sample is kept.
        static: Let everything arrive before the start and stay: no drift but that of the shift.
        test_share: Share of a client's samples that are for testing, at most 0.5.
        shared: Samples that every client holds for training, always: none, one of each label of the rarer half, or one
            or two of every label. They are taken out of the stream.
        proxy_per_class: Images per class that the server holds, taken out of the test split.
        batch_size: Batch size of the DataLoaders.
        root: Folder that holds the datasets.
        download: Download what is missing, where that is possible.
        seed: Seed of every draw.
        val_share: Share of the training samples that is set apart as they arrive, to choose by; 0 sets none apart.
        unseen: Share of the clients that are held out of training and join at the end, to be scored; none if not given.
    """

    num_clusters = 1
    rounds_only = True

    def __init__(
        self,
        num_classes: int,
        input_shape: tuple[int, ...],
        num_clients: int = 100,
        arrivals: ArrivalPlan | None = None,
        shift: Shift | None = None,
        window: int = 100,
        static: bool = False,
        test_share: float = 0.2,
        shared: Shared = "none",
        proxy_per_class: int = 0,
        batch_size: int = 128,
        root: str | Path = "data",
        download: bool = False,
        seed: int = 0,
        val_share: float = 0.0,
        unseen: float | None = None,
    ) -> None:
        super().__init__()
        self.unseen = self._held_out(unseen)
        at_least("num_classes", num_classes, 1, "data.")
        self.num_classes, self.input_shape = num_classes, tuple(input_shape)
        self.num_clients = num_clients
        self.arrivals, self.shift = arrivals or LabelBuckets(), shift
        self.window, self.static, self.test_share = window, static, test_share
        self.shared: Shared = shared
        self.val_share = val_share
        self.proxy_per_class, self.batch_size, self.seed = proxy_per_class, batch_size, seed
        self.root, self.download = Path(root).expanduser(), download
        self._drawn: Drawn | None = None
        self._history: ShiftHistory | None = None
        self._check_arguments()

    # What a subclass gives -------------------------------------------------------------------------------------

    @abstractmethod
    def load(self) -> Loaded:
        """Read the dataset."""

    def draw_arrivals(self, setting: StreamSetting) -> SampleArrivals:
        """Return who gets which sample when."""
        return self.arrivals.draw(setting)

    # What the engine asks --------------------------------------------------------------------------------------

    def setup(self, stage: str | None = None) -> None:
        """Load the data and draw the stream once; later calls do nothing."""
        if self._drawn is not None:
            return
        self._drawn = self._draw()
        if self.shift is not None:
            self._history = ShiftHistory(
                self.shift, self.num_clients, self.num_classes, self.seed, self._drawn.label_counts
            )

    @property
    def events(self) -> Ints:
        """The rounds above 0 at which data may change, ascending: arrivals and the shift's events."""
        ticks = self._stream.holding.ticks
        return ticks if self._history is None else np.union1d(ticks, self._history.events)

    def drifted(self, cycle: int) -> Ints:
        """Return the clients for whom a sample comes or goes at this round, or who see theirs otherwise, ascending."""
        changed = self._stream.holding.changed(cycle)
        if self._history is not None and (seen := self._history.changed(cycle)).any():
            changed |= seen & (self.sizes(cycle) + self.test_sizes(cycle) > 0)
        return np.flatnonzero(changed)

    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client, without making a view of them."""
        return len(self._stream.held("train", self._checked(client), cycle))

    def sizes_of(self, clients: Ints, cycle: int) -> Ints:
        """Return how many training samples some clients hold."""
        return self._stream.sizes_of(clients, "train", cycle)

    def sizes(self, cycle: int) -> Ints:
        """Return how many training samples each client holds; they change when the clock of arrivals ticks."""
        return super().sizes(self._stream.holding.bounds(cycle)[1])

    def holds(self, cycle: int) -> NDArray[np.bool_]:
        """Say of each client whether it holds training samples."""
        return self.sizes(cycle) > 0

    def test_sizes(self, cycle: int) -> Ints:
        """Return how many test samples each client holds."""
        return self._stream.sizes_of(np.arange(self.num_clients), "test", cycle)

    def label_counts(self, clients: Ints, cycle: int) -> Ints:
        """Count the training labels of some clients as they see them, ``[n, num_classes]``."""
        counts = self._stream.label_counts(clients, cycle)
        history = self._history
        shown = None if history is None else history.shift.seen_labels(history.states(cycle)[clients])
        if shown is None:
            return counts
        out = np.empty_like(counts)
        np.put_along_axis(out, shown, counts, axis=1)
        return out

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Return what a client holds at a round."""
        source, stream = self._seen(self._checked(client), cycle), self._stream
        train, test = stream.held("train", client, cycle), stream.held("test", client, cycle)
        val = _view(source, stream.held("val", client, cycle)) if self.val_share else None
        return Shard(_view(source, train), _view(source, test), torch.ones(1), val)

    def arrived(self, client: int, cycle: int) -> list[tuple[int, View]]:
        """Return the training samples a client holds, by the round they arrived; shared ones count as the oldest.

        Samples that the client sees in another way since a later round count as having arrived then.
        """
        source, stream = self._seen(self._checked(client), cycle), self._stream
        held, rounds = stream.held("train", client, cycle), stream.rounds(client, cycle)
        if self._history is not None:
            rounds = np.maximum(rounds, self._history.since(cycle)[client])
        return [(int(r), _view(source, held[rounds == r])) for r in np.unique(rounds)]

    def proxy(self, cluster: int) -> View:
        """Return the server's proxy set (no client ever holds any of it)."""
        return _view(self._stream.source, self._stream.proxy)

    def cluster_train(self, cluster: int) -> View:
        """Return every sample that is a training sample at some time, once."""
        stream = self._stream
        return _view(stream.source, np.union1d(stream.holding.train.sample, stream.shared))

    def cluster_test(self, cluster: int) -> View:
        """Return every sample that is a test sample at some time, once."""
        return _view(self._stream.source, np.unique(self._stream.holding.test.sample))

    # How it is drawn and read ----------------------------------------------------------------------------------

    @property
    def _stream(self) -> Drawn:
        self.setup()
        assert self._drawn is not None
        return self._drawn

    def _draw(self) -> Drawn:
        if isinstance(self.shift, RotationDrift) and len(set(self.input_shape[1:])) > 1:
            raise UserError(
                f"data.shift turns images, which must be square, but data.input_shape is {self.input_shape}"
            )
        loaded = self.load()
        labels = loaded.source.labels.numpy()
        proxy = choose_proxy(labels, loaded.reserve, self.num_classes, self.proxy_per_class, self.seed)
        free = np.setdiff1d(loaded.pool, proxy)
        sizes = self.num_classes, self.num_clients, self.window
        setting = StreamSetting(labels[free], *sizes, self.test_share, self.seed)
        found = self.draw_arrivals(setting)
        check_arrivals(found, setting)
        if self.static:
            found = found._replace(arrival=np.zeros_like(found.arrival))
        shared = choose_shared(self.shared, setting.labels[found.sample], setting)
        holding = Holding.of(without(found, shared), setting, free, self.val_share)
        return Drawn(loaded.source, labels, holding, free[shared], proxy, self.num_classes)

    def _checked(self, client: int) -> int:
        if not 0 <= client < self.num_clients:
            raise IndexError(f"client {client} of {self.num_clients}")
        return client

    def _seen(self, client: int, cycle: int) -> LabelledSource:
        """Return the source as a client sees it at a round."""
        source = self._stream.source
        return source if self._history is None else seen(source, self._history.look(client, cycle))

    def _check_arguments(self) -> None:
        self._at_least(1, "num_clients", "batch_size", "window")
        self._at_least(0, "seed", "proxy_per_class")
        self._check_share("val_share")
        if not 0 <= self.test_share <= 0.5:
            raise UserError(f"data.test_share is {self.test_share}: it must be from 0 to 0.5")
        if self.shared not in SHARED:
            raise UserError(f"data.shared is {self.shared!r}: it must be one of {', '.join(SHARED)}")


def _view(source: LabelledSource, sample: Ints) -> View:
    return View(((source, torch.from_numpy(sample.astype(np.int64))),))
