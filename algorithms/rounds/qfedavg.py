"""q-FedAvg: clients with a larger loss count more (Li et al., 2020)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.jobs import Trained

from .aggregation import Aggregator, Memory
from .fedavg import FedAvg


@dataclass(frozen=True)
class QFair(Aggregator):
    """q-FedAvg (Li et al., 2020): clients with a larger loss count more."""

    q: float = 1.0
    """How much; 0 weighs all clients alike."""

    needs_start_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.q >= 0:
            raise UserError(f"server.q must be at least 0, got {self.q}")

    def combine(
        self, trained: Iterable[Trained[Any]], labels: list[int], old: Tensor, memory: Memory, numbers: int, lr: float
    ) -> tuple[Tensor, Memory]:
        """w ← w − Σ f^q δ / Σ (q f^(q−1) ‖δ‖² + L f^q), δ = L (w − w_k), L = 1/lr, f at the received model."""
        L, step, mass = 1 / lr, torch.zeros_like(old), [0.0] * len(old)
        buffers, count = torch.zeros_like(old[:, numbers:]), [0] * len(old)
        for result, k in zip(trained, labels, strict=True):
            if result.usable:
                f = result.start_loss + 1e-10
                delta = L * (old[k] - result.row)
                step[k].add_(delta, alpha=f**self.q)
                mass[k] += self.q * f ** (self.q - 1) * float(delta[:numbers].square().sum()) + L * f**self.q
                buffers[k] += result.row[numbers:]
                count[k] += 1
        models = old.clone()
        for k, n in enumerate(count):
            if n:
                models[k] -= step[k] / mass[k]
                models[k, numbers:] = buffers[k] / n
        return models, memory


@dataclass(frozen=True, kw_only=True)
class QFedAvg(FedAvg):
    """FedAvg that favours clients with large losses (q-FedAvg; Li et al., 2020)."""

    paper: ClassVar[str] = "Li et al., 2020"

    server: Aggregator = field(default_factory=QFair)
    """How trained models become the new one."""
