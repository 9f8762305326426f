"""How a server turns trained models into new ones, cluster by cluster. Replaceable parts of round methods."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.averaging import average_by_label, is_usable
from flcluster.federation.jobs import Trained

Memory = dict[str, Tensor]


class Aggregator(ABC):
    """One step of the server for K models at once. What it remembers between rounds is a dict of ``[K, P]`` tensors."""

    needs_start_loss: ClassVar[bool] = False
    """Whether clients must report the loss of the model they received (``Trained.seen["start_loss"]``)."""

    def start(self, models: Tensor) -> Memory:
        """Return the memory of models that have not been stepped yet."""
        return {}

    @abstractmethod
    def combine(
        self, trained: Iterable[Trained], labels: list[int], old: Tensor, memory: Memory, parameters: int, lr: float
    ) -> tuple[Tensor, Memory, list[Trained]]:
        """Step every model with what its clients trained.

        Args:
            trained: Results as they come in; those that were not trained or are not finite are left out.
            labels: Which model each result belongs to.
            old: The models that were sent out, ``[K, P]``; one that nobody trained stays.
            memory: What the last step left.
            parameters: How many of a row's numbers are parameters; the rest (BatchNorm statistics) is averaged.
            lr: Learning rate of the local training.
        """


@dataclass(frozen=True)
class Average(Aggregator):
    """The mean of the trained models (FedAvg)."""

    by: Literal["size", "uniform"] = "size"
    """Weigh clients by their number of samples (FedAvg) or equally (FIELDING's Algorithm 1)."""

    def combine(
        self, trained: Iterable[Trained], labels: list[int], old: Tensor, memory: Memory, parameters: int, lr: float
    ) -> tuple[Tensor, Memory, list[Trained]]:
        """Average per cluster."""
        models, light = average_by_label(trained, labels, old, self.weight)
        return models, memory, light

    def weight(self, result: Trained) -> float:
        """Return how much a client counts."""
        return float(result.size) if self.by == "size" else 1.0


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
        if not (self.eta > 0 and self.tau > 0 and 0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise UserError(f"server: eta and tau must be above 0, beta1 and beta2 in [0, 1), got {self}")

    def start(self, models: Tensor) -> Memory:
        """m = 0, v = τ."""
        return {"m": torch.zeros_like(models), "v": torch.full_like(models, self.tau)}

    def combine(
        self, trained: Iterable[Trained], labels: list[int], old: Tensor, memory: Memory, parameters: int, lr: float
    ) -> tuple[Tensor, Memory, list[Trained]]:
        """Average, then step; models that nobody trained keep their moments."""
        models, _, light = super().combine(trained, labels, old, memory, parameters, lr)
        g = models - old
        moved = torch.zeros(len(old), 1, dtype=torch.bool, device=old.device)
        moved[
            [label for label, result in zip(labels, light, strict=True) if result.steps and result.seen["finite"]]
        ] = True
        m = torch.where(moved, self.beta1 * memory["m"] + (1 - self.beta1) * g, memory["m"])
        square = g.square()
        v = memory["v"]
        v = torch.where(moved, v - (1 - self.beta2) * square * torch.sign(v - square), v)
        stepped = torch.where(moved, old + self.eta * m / (v.sqrt() + self.tau), old)
        stepped[:, parameters:] = models[:, parameters:]
        return stepped, {"m": m, "v": v}, light


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
        self, trained: Iterable[Trained], labels: list[int], old: Tensor, memory: Memory, parameters: int, lr: float
    ) -> tuple[Tensor, Memory, list[Trained]]:
        """w ← w − Σ f^q δ / Σ (q f^(q−1) ‖δ‖² + L f^q), δ = L (w − w_k), L = 1/lr, f at the received model."""
        L, step, mass = 1 / lr, torch.zeros_like(old), [0.0] * len(old)
        buffers, count, light = torch.zeros_like(old[:, parameters:]), [0] * len(old), []
        for result, k in zip(trained, labels, strict=True):
            if is_usable(result):
                f = result.seen["start_loss"] + 1e-10
                delta = L * (old[k] - result.row)
                step[k].add_(delta, alpha=f**self.q)
                mass[k] += self.q * f ** (self.q - 1) * float(delta[:parameters].square().sum()) + L * f**self.q
                buffers[k] += result.row[parameters:]
                count[k] += 1
            light.append(result.light())
        models = old.clone()
        for k, n in enumerate(count):
            if n:
                models[k] -= step[k] / mass[k]
                models[k, parameters:] = buffers[k] / n
        return models, memory, light
