"""FedYogi: FedAvg with an adaptive step of the server (Reddi et al., 2021)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from flcluster.errors import above, refuse
from flcluster.federation.jobs import Trained

from .aggregation import Aggregator, Memory
from .fedavg import Average, FedAvg


@dataclass(frozen=True)
class Yogi(Average):
    """An adaptive step along the mean update (FedYogi; Reddi et al., 2021), without bias correction."""

    eta: float = 3e-3
    """η: server learning rate."""
    tau: float = 1e-8
    """τ: added to the denominator; also where the second moment begins."""
    beta1: float = 0.9
    """Decay of the first moment."""
    beta2: float = 0.99
    """Decay of the second moment."""

    def __post_init__(self) -> None:
        for name in ("eta", "tau"):
            above(name, getattr(self, name), 0, "algorithm.server.")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                refuse(name, "in [0, 1)", getattr(self, name), "algorithm.server.")

    def start(self, models: Tensor) -> Memory:
        """m = 0, v = τ."""
        return {"m": torch.zeros_like(models), "v": torch.full_like(models, self.tau)}

    def combine(
        self, trained: Iterable[Trained[Any]], labels: list[int], old: Tensor, memory: Memory, numbers: int, lr: float
    ) -> tuple[Tensor, Memory]:
        """Average, then step; models that nobody trained keep their moments."""
        seen: list[Trained[Any]] = []
        models, _ = super().combine(remembered(trained, seen), labels, old, memory, numbers, lr)
        g = models - old
        moved = torch.zeros(len(old), 1, dtype=torch.bool, device=old.device)
        moved[[label for label, result in zip(labels, seen, strict=True) if result.usable]] = True
        m = torch.where(moved, self.beta1 * memory["m"] + (1 - self.beta1) * g, memory["m"])
        square = g.square()
        v = memory["v"]
        v = torch.where(moved, v - (1 - self.beta2) * square * torch.sign(v - square), v)
        stepped = torch.where(moved, old + self.eta * m / (v.sqrt() + self.tau), old)
        stepped[:, numbers:] = models[:, numbers:]
        return stepped, {"m": m, "v": v}


def remembered(trained: Iterable[Trained[Any]], seen: list[Trained[Any]]) -> Iterator[Trained[Any]]:
    """Pass results on, and keep them without their rows."""
    for result in trained:
        seen.append(result.light())
        yield result


@dataclass(frozen=True, kw_only=True)
class FedYogi(FedAvg):
    """FedAvg with an adaptive server step."""

    paper: ClassVar[str] = "Reddi et al., 2021"

    server: Aggregator = field(default_factory=Yogi)
    """How trained models become the new one."""
