"""What CDFL, CCFL and FedSoft-Async have in common: K cluster models that move towards each upload, old ones less."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.protocol.base import at_least
from flcluster.protocol.uploads import Upload, UploadAlgorithm

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class ClusterUploads(UploadAlgorithm[S], Generic[S]):
    """How far an upload may move a cluster model, and how its age counts."""

    rho: float = 0.1
    """ρ: weight of the proximal term (ρ/2)·‖v − u‖² in the local objective."""
    beta0: float = 0.025
    """β0: largest step of a cluster model towards an upload."""
    a: float = 10.0
    """Slope of the staleness factor, per unit of staleness."""
    b: float = 5.0
    """Staleness below which an upload counts as fresh."""
    max_staleness: int | None = None
    """τ0, in epochs: older uploads change nothing; default is the number of clients."""
    staleness: Literal["cdfl", "ccfl"] = "cdfl"
    """s_k = t − τ (cdfl), or from τ to the cluster's previous change (ccfl)."""
    staleness_unit: Literal["cycles", "epochs"] = "cycles"
    """Unit of s, a and b. An epoch is one upload of anyone; a cycle is as many uploads as there are clients. The papers
    count epochs but their numbers fit cycles: in epochs b = 5 makes nine of ten uploads of 40 clients stale."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("rho", self.rho, 0)
        if not 0 <= self.beta0 <= 1:
            raise UserError(f"algorithm.beta0 must be in [0, 1], got {self.beta0}")

    @property
    def prox(self) -> float:
        """ρ."""
        return self.rho

    @property
    def title(self) -> str:
        """The method's name, and the unit of staleness where it is the printed one: such runs are no repeats."""
        return super().title + (" (staleness in epochs)" if self.staleness_unit == "epochs" else "")

    def is_deprecated(self, up: Upload, t: int, fed: Federation) -> bool:
        """Say whether an upload is too old to change anything: t − τ > τ0."""
        limit = len(fed.data.participants) if self.max_staleness is None else self.max_staleness
        return t - up.last_sync > limit

    def staleness_of(self, up: Upload, t: int, changed: Tensor, fed: Federation) -> Tensor:
        """Return s_k of an upload at epoch t, given the epoch at which each cluster last changed, ``[K]``."""
        until = torch.full_like(changed, t) if self.staleness == "cdfl" else changed
        unit = len(fed.data.participants) if self.staleness_unit == "cycles" else 1
        return (until - up.last_sync).double() / unit
