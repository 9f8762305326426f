"""Steps of optimisers on one flat row: torch's own numbers to the last bit, without what torch.optim does around them.

For a small model that is most of a step: hooks, checks, and a counter that is read like a tensor of a device.
"""

from typing import Any

import torch
from torch import Tensor

from flcluster.federation.layout import Layout


class Steps:
    """An optimiser that steps by itself, on the gradients that lie in the layout."""

    def __init__(self, optimizer: Any, layout: Layout) -> None:
        self.optimizer, self.layout = optimizer, layout
        self.group: dict[str, Any] = optimizer.param_groups[0]
        self.row = layout.row[: layout.num_parameters]

    def begin(self) -> None:
        """Forget what earlier steps left."""
        self.optimizer.state.clear()

    @property
    def direct(self) -> bool:
        """Whether a step only adds gradients to the row, which then need not lie in one piece."""
        return False

    def take(self) -> None:
        """Take one step down the gradient that lies in the layout, which may be changed."""
        self.optimizer.step()


class SGDSteps(Steps):
    """``torch.optim.SGD``: with momentum, Nesterov's too, dampening and weight decay."""

    def begin(self) -> None:
        """Begin without momentum."""
        self.moving = False

    @property
    def direct(self) -> bool:
        """Whether there is neither momentum nor weight decay."""
        return not self.group["momentum"] and not self.group["weight_decay"]

    def take(self) -> None:
        """Take one step."""
        group, grad = self.group, self.layout.grad
        if group["weight_decay"]:
            grad.add_(self.row, alpha=group["weight_decay"])
        if group["momentum"]:
            kept = self._moved(grad)
            grad = grad.add_(kept, alpha=group["momentum"]) if group["nesterov"] else kept
        self.row.add_(grad, alpha=-group["lr"])

    def _moved(self, grad: Tensor) -> Tensor:
        if self.moving:
            return self.kept.mul_(self.group["momentum"]).add_(grad, alpha=1 - self.group["dampening"])
        self.moving = True
        self.kept: Tensor = grad.clone()
        return self.kept


class AdamSteps(Steps):
    """``torch.optim.Adam`` and ``AdamW``."""

    def __init__(self, optimizer: torch.optim.Optimizer, layout: Layout) -> None:
        super().__init__(optimizer, layout)
        self.decoupled = isinstance(optimizer, torch.optim.AdamW) or bool(self.group.get("decoupled_weight_decay"))
        self.mean, self.square, self.divisor = (torch.zeros_like(self.row) for _ in range(3))

    def begin(self) -> None:
        """Begin without moments."""
        self.taken = 0
        self.mean.zero_()
        self.square.zero_()

    def take(self) -> None:
        """Take one step."""
        group, grad = self.group, self.layout.grad
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        self.taken += 1
        if decay and self.decoupled:
            self.row.mul_(1 - lr * decay)
        elif decay:
            grad.add_(self.row, alpha=decay)
        self.mean.lerp_(grad, 1 - beta1)
        self.square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        torch.sqrt(self.square, out=self.divisor).div_((1 - beta2**self.taken) ** 0.5).add_(group["eps"])
        self.row.addcdiv_(self.mean, self.divisor, value=-(lr / (1 - beta1**self.taken)))


UNUSUAL = ("amsgrad", "maximize", "capturable", "differentiable", "fused")
"""Flags of optimisers with which they step by themselves."""


def steps_of(optimizer: torch.optim.Optimizer, layout: Layout) -> Steps:
    """Return what takes an optimiser's steps: itself, unless it is a usual one on the whole flat row."""
    group = optimizer.param_groups[0]
    flat = len(optimizer.param_groups) == 1 and len(group["params"]) == 1 and group["params"][0] is layout.parameter
    if flat and not any(group.get(name) for name in UNUSUAL) and not any(isinstance(v, Tensor) for v in group.values()):
        if type(optimizer) is torch.optim.SGD:
            return SGDSteps(optimizer, layout)
        if type(optimizer) in (torch.optim.Adam, torch.optim.AdamW):
            return AdamSteps(optimizer, layout)
    return Steps(optimizer, layout)
