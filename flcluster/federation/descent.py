"""The one training loop: clients' models, the server's students and generators all go down their losses in it."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

B = TypeVar("B")


def descend(
    batches: Iterable[B], loss: Callable[[B], Tensor], step: Callable[[Tensor], None], device: torch.device
) -> Tensor:
    """Take a step down the loss of every batch; return the losses, where they are: nothing is waited for.

    Args:
        batches: What the loss is computed of, one after the other.
        loss: The loss of a batch.
        step: Goes backward and lets an optimiser step.
        device: Where the losses are.
    """
    losses = []
    for batch in batches:
        value = loss(batch)
        step(value)
        losses.append(value.detach())
    return torch.stack(losses) if losses else torch.zeros(0, device=device)


def mean_of(losses: Tensor) -> float:
    """Return the mean of a descent's losses that are on the host, added up one after the other; 0 of none."""
    total = np.cumsum(losses.float().numpy(), dtype=np.float32)
    return float(total[-1]) / len(total) if len(total) else 0.0
