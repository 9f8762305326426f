"""Cached update calibration for asynchronous FL (CA2FL; Wang et al., ICLR 2024), after a community port."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from flcluster.federation.federation import Federation
from flcluster.protocol.base import at_least
from flcluster.protocol.uploads import Reply, Upload, UploadAlgorithm

from .fedbuff import update_of


@dataclass(frozen=True, eq=False)
class CA2FLState:
    """One global model, the buffer of corrections, and the mean of all clients' cached updates."""

    model: Tensor
    initial: Tensor
    total: Tensor
    count: int
    mean_cache: Tensor
    """h = (1/N)·Σ h_i as of the last server step."""
    drift: Tensor
    """(1/N)·Σ of the cache replacements since then."""


@dataclass(frozen=True, kw_only=True)
class CA2FL(UploadAlgorithm[CA2FLState]):
    """Buffered updates are calibrated by each client's last update, so that absent clients keep their say."""

    paper: ClassVar[str] = "Wang et al., 2024"

    buffer_size: int = 10
    """B: uploads per server step."""
    server_lr: float = 1.0
    """η: step size."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("buffer_size", self.buffer_size, 1)

    def init(self, fed: Federation) -> CA2FLState:
        """Begin with the mean of the pre-trained cluster models and empty caches."""
        model = self.pretrained(fed).mean(0)
        zero = torch.zeros_like(model)
        return CA2FLState(model, model, zero, 0, zero, zero)

    def join(self, state: CA2FLState, client: int, fed: Federation) -> Reply:
        """The first global model."""
        return Reply(state.initial)

    def server_models(self, state: CA2FLState) -> Tensor:
        """The one global model."""
        return state.model[None]

    def upload(self, state: CA2FLState, up: Upload, fed: Federation) -> tuple[CA2FLState, Reply]:
        """acc += Δ_i − h_i; h_i ← Δ_i; after B uploads x ← x + η·(h + acc/B) with the old h."""
        cache = fed.table("cache")
        p = fed.layout.num_parameters
        delta = update_of(up.row, up.start, state.model, p)
        correction = delta - cache[up.client].to(delta)
        cached = delta.clone()
        cached[p:] = 0  # statistics are averaged, not calibrated
        cache[up.client] = cached
        total, drift = state.total + correction, state.drift + correction / len(fed.data.participants)
        drift[p:] = 0
        new = replace(state, total=total, drift=drift, count=state.count + 1)
        if new.count == self.buffer_size:
            zero = torch.zeros_like(total)
            model = ca2fl_step(state.model, state.mean_cache, total, new.count, self.server_lr)
            new = replace(new, model=model, total=zero, count=0, mean_cache=state.mean_cache + drift, drift=zero)
        return new, Reply(new.model)


def ca2fl_step(model: Tensor, mean_cache: Tensor, total: Tensor, size: int, lr: float) -> Tensor:
    """CA2FL: move by the mean cached update plus the mean correction of the buffer."""
    return model + lr * (mean_cache + total / size)
