"""Metrics the papers define that torchmetrics does not have."""

import torch
from torch import Tensor


def kl_divergence(true: Tensor, estimate: Tensor, floor: float = 1e-4) -> Tensor:
    """KL(true ‖ estimate) of mixtures over the last axis.

    The estimate is floored and renormalised first, the same for every method, because counts can be zero.

    Example:
        >>> float(kl_divergence(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.5])))
        0.0
    """
    q = estimate.clamp_min(floor)
    q = q / q.sum(-1, keepdim=True)
    return torch.where(true > 0, true * (true.clamp_min(1e-30) / q).log(), 0.0).sum(-1)
