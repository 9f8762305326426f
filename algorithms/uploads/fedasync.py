"""Asynchronous Federated Optimization (FedAsync; Xie et al., 2019): every upload moves the one global model at once.

AP-FL's global training takes its steps from here too (algorithms/personal/fedasync.py).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from flcluster.errors import above, at_least, refuse
from flcluster.federation.federation import Federation
from flcluster.protocol.uploads import Reply, Upload, UploadAlgorithm

from .fedbuff import fedbuff_weight

Staleness = Literal["constant", "polynomial", "hinge"]


@dataclass(frozen=True, eq=False)
class FedAsyncState:
    """The global model, the first one, and which version each client has."""

    model: Tensor
    initial: Tensor
    version: int
    versions: Tensor
    """The version that each client received last, ``[N]``."""


@dataclass(frozen=True, kw_only=True)
class FedAsync(UploadAlgorithm[FedAsyncState]):
    """Every upload is mixed into the global model, x = (1 − α_t) x + α_t v with α_t = α·s(t − τ), a stale one less.

    The client gets the new model at once and trains from it, pulled towards it by (ρ/2)·‖v − x_τ‖². The staleness t − τ
    is the number of uploads that the model has taken in since the client received it, so that s = 1 for a client that
    nobody came before, as the paper asks for.
    """

    alpha: float = 0.6
    """α: share of a fresh upload in the new global model."""
    staleness: Staleness = "polynomial"
    """s: constant 1; polynomial (t − τ + 1)^−a; or hinge, 1 up to b and 1 / (a·(t − τ − b) + 1) beyond."""
    a: float | None = None
    """Default the paper's: 0.5 for polynomial, 10 for hinge."""
    b: float = 4.0
    """Where the hinge is, in uploads."""
    rho: float = 0.005
    """ρ: weight of the proximal term of local training."""

    paper: ClassVar[str] = "Xie et al., 2019"

    def __post_init__(self) -> None:
        super().__post_init__()
        above("alpha", self.alpha, 0)
        if self.alpha > 1:
            refuse("alpha", "at most 1", self.alpha)
        at_least("a", self.slope, 0)
        at_least("b", self.b, 0)
        at_least("rho", self.rho, 0)

    @property
    def slope(self) -> float:
        """The value of a."""
        return {"hinge": 10.0}.get(self.staleness, 0.5) if self.a is None else self.a

    @property
    def prox(self) -> float:
        """ρ."""
        return self.rho

    @property
    def title(self) -> str:
        """FedAsync, and how staleness counts where that is not as usual."""
        return "FedAsync" if self.staleness == "polynomial" else f"FedAsync ({self.staleness})"

    def init(self, fed: Federation) -> FedAsyncState:
        """Begin with the mean of the pre-trained cluster models, like every method of uploads here."""
        model = self.pretrained(fed).mean(0)
        return FedAsyncState(model, model, 0, torch.zeros(fed.data.num_clients, dtype=torch.int64))

    def join(self, state: FedAsyncState, client: int, fed: Federation) -> Reply:
        """The first global model."""
        return Reply(state.initial)

    def server_models(self, state: FedAsyncState) -> Tensor:
        """The one global model."""
        return state.model[None]

    def upload(self, state: FedAsyncState, up: Upload, fed: Federation) -> tuple[FedAsyncState, Reply]:
        """Mix the upload in; its client receives the new version."""
        behind = state.version - int(state.versions[up.client])
        share = self.alpha * discount(behind, self.staleness, self.slope, self.b)
        model, version = mixed_in(state.model, up.row, share), state.version + 1
        versions = state.versions.clone()
        versions[up.client] = version
        return replace(state, model=model, version=version, versions=versions), Reply(model)


def discount(behind: int, kind: Staleness, a: float, b: float) -> float:
    """Return s(t − τ), in (0, 1].

    >>> discount(3, "constant", 0, 0), discount(3, "polynomial", 0.5, 0), discount(4, "hinge", 10, 4)
    (1.0, 0.5, 1.0)
    >>> discount(6, "hinge", 2, 4)
    0.2
    """
    if kind == "polynomial":
        return fedbuff_weight(behind, a)
    return 1.0 if kind == "constant" or behind <= b else 1 / (a * (behind - b) + 1)


def mixed_in(model: Tensor, upload: Tensor, share: float) -> Tensor:
    """Return (1 − share)·model + share·upload."""
    return torch.lerp(model, upload, share)
