"""The one training loop: clients' models, the server's students and generators all go down their losses in it."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor

B = TypeVar("B")


def descend(
    batches: Iterable[B], loss: Callable[[B], Tensor], step: Callable[[Tensor], None], device: torch.device
) -> tuple[float, int]:
    """Take a step down the loss of every batch; return the mean loss and the number of steps.

    Args:
        batches: What the loss is computed of, one after the other.
        loss: The loss of a batch.
        step: Clears gradients, goes backward and lets an optimiser step.
        device: Where the losses are.
    """
    total, steps = torch.zeros((), device=device), 0
    for batch in batches:
        value = loss(batch)
        step(value)
        total += value.detach()
        steps += 1
    return float(total) / max(steps, 1), steps
