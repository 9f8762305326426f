"""Steps of an optimiser on stacked rows: torch's own class, on one parameter that is all of them."""

import torch
from torch import Tensor, nn

from flcluster.federation.layout import rebuilt


class Optimiser:
    """A fresh optimiser for every row of a stack: element by element it does what one on each row would do.

    Args:
        like: An element-wise optimiser of one parameter, whose settings are taken over.
        rows: The parameters, ``[C, P]``; they are stepped in place.
        gradients: Their gradients, ``[C, P]``.
        lr: Learning rate.
        momentum: Momentum of SGD instead of its own.
    """

    def __init__(
        self, like: torch.optim.Optimizer, rows: Tensor, gradients: Tensor, lr: float, momentum: float | None = None
    ) -> None:
        self.rows, self.gradients = rows, gradients
        self.parameter = nn.Parameter(rows)
        self.optimizer = rebuilt(like, self.parameter)
        (self.group,) = self.optimizer.param_groups
        self.group["lr"] = lr
        if momentum is not None:
            self.group["momentum"] = momentum
        self.bare = type(like) is torch.optim.SGD and not any(self.group[name] for name in ("momentum", *PLAIN))
        self.narrow(len(rows))

    def narrow(self, count: int) -> None:
        """Step the first ``count`` rows only from now on; the others are done."""
        before, now = self.parameter, nn.Parameter(self.rows[:count])
        now.grad = self.gradients[:count]
        state = self.optimizer.state.pop(before, {})
        kept = {name: value[:count] if _is_stacked(value, before) else value for name, value in state.items()}
        if kept:
            self.optimizer.state[now] = kept
        self.group["params"], self.parameter = [now], now

    def step(self) -> None:
        """Take one step down the gradients."""
        if self.bare:  # the same numbers, without what torch.optim does around them
            self.parameter.data.add_(self.gradients[: len(self.parameter)], alpha=-self.group["lr"])
        else:
            self.optimizer.step()


PLAIN = ("weight_decay", "maximize")


def _is_stacked(value: object, like: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == like.shape
