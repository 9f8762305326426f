"""No collaboration: the lower bound of every comparison."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from flcluster.algorithm import Reply, Upload, UploadAlgorithm
from flcluster.federation import Federation


@dataclass(frozen=True, eq=False)
class LocalState:
    """What every client starts from."""

    initial: Tensor


@dataclass(frozen=True, kw_only=True)
class Local(UploadAlgorithm[LocalState]):
    """Clients never upload; each goes on from its own model on its new data, at the same times as the others would."""

    state_type: ClassVar[type] = LocalState
    sends: ClassVar[bool] = False

    def init(self, fed: Federation) -> LocalState:
        """Begin with the mean of the pre-trained cluster models, like every method here."""
        return LocalState(self.pretrained(fed).mean(0))

    def join(self, state: LocalState, client: int, fed: Federation) -> Reply:
        """The common first model."""
        return Reply(state.initial)

    def upload(self, state: LocalState, up: Upload, fed: Federation) -> tuple[LocalState, Reply]:
        """Keep one's own model; nothing is sent."""
        return state, Reply(up.row, upload_models=0, download_models=0)
