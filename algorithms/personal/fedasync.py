"""Global training without rounds: every upload moves the model at once, as in FedAsync (uploads/fedasync.py)."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from typing_extensions import TypeVar

from flcluster.algorithms.uploads.fedasync import discount, mixed_in
from flcluster.federation.jobs import Trained

from .base import PersonalState


@dataclass(frozen=True, eq=False)
class AsyncState(PersonalState):
    """The global model, and which version of it each client has."""

    version: int = 0
    """Uploads that the global model has taken in."""
    versions: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """The version of the global model that each client received last, ``[N]``."""

    def behind(self, client: int) -> int:
        """Return how many versions old a client's model is."""
        return self.version - int(self.versions[client])


S = TypeVar("S", bound=AsyncState)


def taken_in(state: S, result: Trained[Any], lr: float, exponent: float) -> S:
    """Move the global model towards an upload; its client receives the new version."""
    model = fedasync_step(state.models[0], result.row, state.behind(result.client), lr, exponent)
    versions = state.versions.clone()
    versions[result.client] = state.version + 1
    return replace(state, models=model[None], version=state.version + 1, versions=versions)


def fedasync_step(model: Tensor, upload: Tensor, staleness: int, lr: float, exponent: float) -> Tensor:
    """Return (1 - η_s) θ + η_s θ_k with η_s = η (1 + staleness)^-exponent."""
    return mixed_in(model, upload, lr * discount(staleness, "polynomial", exponent, 0))
