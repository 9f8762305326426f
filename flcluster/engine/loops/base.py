"""A run in progress, one step at a time, and what is known of each client update."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from flcluster.engine.loops.guard import unknown
from flcluster.engine.loops.returned import check_extra, check_kept, check_untouched, marks, state_of
from flcluster.engine.measures import BOTH
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.layout import all_finite
from flcluster.given import is_own, named
from flcluster.protocol.base import Algorithm
from flcluster.records.exchange import Exchange
from flcluster.records.population import Population

S = TypeVar("S")

ORDINARY = 1e20
"""Sum of squares of a row below which no product of a few of its numbers overflows."""

ENOUGH = 10
"""Local trainings that fail from the first on, after which it is not the clients."""

EARLY = 3
"""Steps of a run at which a method is looked at more closely."""


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
        self.gaps: set[str] = set()
        """Parts of the state in which NaN stands for what is not known; all else must stay finite."""
        self.troubles: list[str] = []
        """What went wrong in the last steps and was put right, in a sentence each."""
        self.failed: int | None = 0
        """Local trainings so far, none of which came to finite numbers; None once one did."""
        self.stop: str | None = None
        """Set by a callback to end the run: the reason."""
        self.everyone: Population | None = None
        """All clients as ``gauges`` last measured them; None where it does not."""

    def begin(self) -> None:
        """Make the first state."""
        self.state = state_of(self.algorithm.init(self.fed), self.algorithm, "init")
        models = self.algorithm.server_models(self.state)
        if models is not None and not all_finite(models):
            raise UserError(
                "the first models are not finite: look at the weights they start from (model_start), or, if they were "
                f"trained before the first step, try a lower learning rate (model.lr); {named(self.algorithm, 'init')} "
                "made them"
            )
        self.gaps = unknown(self.state)
        check_kept(self.algorithm, self.state, self.fed.layout.row, "init")

    @property
    def early(self) -> bool:
        """Whether the next step is among the first, at which what a method does is looked at more closely."""
        return self.position < EARLY

    def check_arithmetic(self, why: str, squares: float, method: str) -> None:
        """Refuse a user's own method that made numbers that are not finite of such as are finite and not large.

        Args:
            why: What of its state, or of what it returned, is not finite.
            squares: The largest sum of squares of a row that clients sent.
            method: What of it did so.
        """
        if self.position == 0 and is_own(type(self.algorithm)) and squares < ORDINARY:
            raise UserError(
                f"{named(self.algorithm, method)} makes {why} NaN or infinite, though all that clients sent is finite: "
                "look for a division by 0, say by a number of clients or of samples"
            )

    def heard(self, finite: bool) -> None:
        """Take note whether a local training came to finite numbers; refuse a user's own module with which none does.

        That of one client may be its data's fault, that of the first ten, or of all where there are fewer, is not.
        """
        if self.failed is None:
            return
        self.failed = None if finite else self.failed + 1
        module = self.fed.module
        if self.failed == min(ENOUGH, len(self.fed.data.participants)) and is_own(type(module)):
            raise UserError(
                f"{named(module)}: all of the first {self.failed} local trainings ended in NaN or infinity: "
                "lower its learning rate (model.lr), or look at its loss"
            )

    @contextmanager
    def looking(self, method: str) -> Iterator[None]:
        """Look, if the step in the block is among the first, whether it leaves the state alone that it is given."""
        before = marks(self.state) if self.early else None
        yield
        if before is not None:
            check_untouched(before, self.state, self.algorithm, method)

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
    def apart(self) -> bool:
        """Whether the next step begins without ranks having to meet; then they do not, to agree on going on."""
        return False

    @property
    def closing(self) -> bool:
        """Whether the run is in steps that its method takes at the end, none of which may be left out."""
        return False

    @property
    def tenth_done(self) -> bool:
        """Whether a tenth of the way was completed since the last session: then all clients are recorded."""
        before = max(self.position - self.session, 0)
        return self.position == self.total or 10 * self.position // self.total > 10 * before // self.total

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """Names of all columns besides the common ones: the method's, and accuracies and drift for data with them."""
        both = BOTH if self.fed.data.global_test() is not None else ()
        return (*self.algorithm.extra_metrics, *both, *(("changed",) if self.fed.data.rounds_only else ()))

    def gauges(self) -> dict[str, float]:
        """Return what a session's row shows of the run as it is now."""
        return check_extra(self.algorithm.gauges(self.state), self.extra_metrics, self.algorithm, "gauges")

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        at = {"position": self.position, "epoch": self.epoch, "time": self.time, "together": self.fed.together}
        return {**at, "state": self.algorithm.pack(self.state), "gaps": sorted(self.gaps)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped."""
        self.position, self.epoch, self.time = saved["position"], saved["epoch"], saved["time"]
        self.fed.together = saved.get("together", 1)  # whatever the rule says here: older runs trained one by one
        self.state = self.algorithm.unpack(saved["state"], self.fed.layout.row)
        self.failed = None
        self.gaps = set(saved["gaps"]) if "gaps" in saved else unknown(self.state)
