"""Averages of trained models as they come in."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from flcluster.federation.jobs import Trained


def average_by_label(
    trained: Iterable[Trained[Any]], labels: Iterable[int], old: Tensor, weight: Callable[[Trained[Any]], float]
) -> Tensor:
    """Average trained rows per label, in the order in which they come; a label nobody trained keeps its old row.

    Args:
        trained: Results with their rows; those that are not usable are left out.
        labels: The model that each belongs to.
        old: The models before, ``[K, P]``.
        weight: How much a result counts.
    """
    totals, mass = torch.zeros_like(old), [0.0] * len(old)
    for result, label in zip(trained, labels, strict=True):
        if result.usable:
            totals[label].add_(result.row, alpha=weight(result))
            mass[label] += weight(result)
    for label, total in enumerate(mass):
        totals[label] = totals[label] / total if total else old[label]
    return totals
