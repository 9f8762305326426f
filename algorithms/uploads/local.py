"""No collaboration: the lower bound of every comparison."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from flcluster.federation.federation import Federation
from flcluster.protocol.base import at_least
from flcluster.protocol.uploads import Reply, Upload, UploadAlgorithm


@dataclass(frozen=True, eq=False)
class LocalState:
    """What every client starts from."""

    initial: Tensor


@dataclass(frozen=True, kw_only=True)
class Local(UploadAlgorithm[LocalState]):
    """Clients never upload; each trains on its new data at the same times as the others would."""

    start: Literal["common", "own"] = "common"
    """What a cycle's training starts from: the common first model, which is what the CDFL paper's numbers fit (it does
    not say), or the client's own model of the last cycle, which has seen all its data."""
    rho: float = 0.0
    """ρ: weight of a pull towards that start, (ρ/2)·‖v − u‖², as CDFL's clients have it."""

    sends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("rho", self.rho, 0)

    @property
    def prox(self) -> float:
        """ρ."""
        return self.rho

    @property
    def title(self) -> str:
        """The papers' name; models that go on from cycle to cycle are said."""
        return "Local" if self.start == "common" else "Local (going on)"

    def init(self, fed: Federation) -> LocalState:
        """Begin with the mean of the pre-trained cluster models, like every method here."""
        return LocalState(self.pretrained(fed).mean(0))

    def join(self, state: LocalState, client: int, fed: Federation) -> Reply:
        """The common first model."""
        return Reply(state.initial)

    def trains_from(self, state: LocalState, held: Tensor) -> Tensor:
        """The common first model again, or one's own."""
        return state.initial if self.start == "common" else held

    def upload(self, state: LocalState, up: Upload, fed: Federation) -> tuple[LocalState, Reply]:
        """Keep one's own model; nothing is sent."""
        return state, Reply(up.row, upload_models=0, download_models=0)
