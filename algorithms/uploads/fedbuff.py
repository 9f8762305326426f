"""Federated Learning with Buffered Asynchronous Aggregation (FedBuff; Nguyen et al., 2022)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from flcluster.federation.federation import Federation
from flcluster.protocol.base import at_least
from flcluster.protocol.uploads import Reply, Upload, UploadAlgorithm


@dataclass(frozen=True, eq=False)
class FedBuffState:
    """One global model, the buffer, and which version each client has."""

    model: Tensor
    initial: Tensor
    total: Tensor
    count: int
    version: int
    versions: Tensor


@dataclass(frozen=True, kw_only=True)
class FedBuff(UploadAlgorithm[FedBuffState]):
    """Updates Δ = v − u are buffered; every ``buffer_size`` uploads the global model moves by their weighted mean."""

    paper: ClassVar[str] = "Nguyen et al., 2022"

    buffer_size: int = 10
    """B: uploads per server step."""
    server_lr: float = 1.0
    """η_g: step size; the step is the mean of the buffer."""
    staleness_exponent: float = 0.5
    """A client that is s versions behind counts (1 + s)^−exponent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("buffer_size", self.buffer_size, 1)

    def init(self, fed: Federation) -> FedBuffState:
        """Begin with the mean of the pre-trained cluster models, like every method here."""
        model = self.pretrained(fed).mean(0)
        versions = torch.zeros(fed.data.num_clients, dtype=torch.int64)
        return FedBuffState(model, model, torch.zeros_like(model), 0, 0, versions)

    def join(self, state: FedBuffState, client: int, fed: Federation) -> Reply:
        """The first global model."""
        return Reply(state.initial)

    def server_models(self, state: FedBuffState) -> Tensor:
        """The one global model."""
        return state.model[None]

    def upload(self, state: FedBuffState, up: Upload, fed: Federation) -> tuple[FedBuffState, Reply]:
        """Buffer the update; step when the buffer is full."""
        behind = state.version - int(state.versions[up.client])
        delta = update_of(up.row, up.start, state.model, fed.layout.num_parameters)
        total = torch.add(state.total, delta, alpha=fedbuff_weight(behind, self.staleness_exponent))
        model, count, version = state.model, state.count + 1, state.version
        if count == self.buffer_size:
            model, version, count = buffer_step(model, total, count, self.server_lr), version + 1, 0
            total = torch.zeros_like(total)
        versions = state.versions.clone()
        versions[up.client] = version
        new = replace(state, model=model, total=total, count=count, version=version, versions=versions)
        return new, Reply(model)


def update_of(row: Tensor, start: Tensor, model: Tensor, parameters: int) -> Tensor:
    """What an upload adds: Δ = v − start for parameters; for BatchNorm statistics, behind them, v − current model.

    Summed differences of statistics could make a variance negative; this way a step moves them towards a mean.
    """
    delta = row - start
    delta[parameters:] = row[parameters:] - model[parameters:]
    return delta


def fedbuff_weight(staleness: int, exponent: float = 0.5) -> float:
    """Weight (1 + staleness)^−exponent of a stale update, staleness counted in server versions."""
    return float((1 + staleness) ** -exponent)


def buffer_step(model: Tensor, total: Tensor, size: int, lr: float) -> Tensor:
    """FedBuff: move by the mean of the buffered (weighted) updates."""
    return model + lr * total / size
