"""A run in progress, one step at a time, and what is known of each client update."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from flcluster.engine.measures import BOTH
from flcluster.federation.federation import Federation
from flcluster.protocol.base import Algorithm
from flcluster.records.exchange import Exchange

S = TypeVar("S")


class Loop(ABC, Generic[S]):
    """A run in progress: a position on the way to ``total``, the method's state, and a step."""

    state: S
    unit: ClassVar[str]
    """What a step is called."""

    def __init__(self, algorithm: Algorithm[S], fed: Federation, total: int, session: int) -> None:
        self.algorithm, self.fed = algorithm, fed
        self.position, self.epoch, self.total = 0, 0, total
        self.time = 0.0
        """Virtual time reached."""
        self.session = session
        """Steps between two rows of metrics."""
        self.run_dir = Path(".")
        """Where callbacks may write."""
        self.stop: str | None = None
        """Set by a callback to end the run: the reason."""

    def begin(self) -> None:
        """Make the first state."""
        self.state = self.algorithm.init(self.fed)

    @abstractmethod
    def advance(self) -> list[Exchange]:
        """Take one step."""

    def cluster_accuracies(self) -> list[float]:
        """Return the accuracy of each cluster's model on its cluster; empty for methods without cluster models."""
        clusters = self.algorithm.clusters(self.state)
        if clusters is None:
            return []
        return self.fed.cluster_accuracies(clusters, self.algorithm.named_clusters)

    @property
    def phase(self) -> str:
        """What the steps under way are called."""
        return self.unit

    @property
    def data_cycle(self) -> int:
        """The cycle whose data the clients hold now."""
        return 0

    @property
    def steady(self) -> bool:
        """Whether the last steps are like those before, so that a mean over their accuracies means something."""
        return True

    @property
    def closing(self) -> bool:
        """Whether the run is in steps that its method takes at the end, none of which may be left out."""
        return False

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """Names of all columns besides the common ones: the method's, and both accuracies where the data have them."""
        return (*self.algorithm.extra_metrics, *(BOTH if self.fed.data.global_test() is not None else ()))

    def gauges(self) -> dict[str, float]:
        """Return what a session's row shows of the run as it is now."""
        return self.algorithm.gauges(self.state)

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        at = {"position": self.position, "epoch": self.epoch, "time": self.time}
        return {**at, "state": self.algorithm.pack(self.state)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped."""
        self.position, self.epoch, self.time = saved["position"], saved["epoch"], saved["time"]
        self.state = self.algorithm.unpack(saved["state"], self.fed.layout.row)
