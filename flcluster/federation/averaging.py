"""Averages of trained models as they come in."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from flcluster.federation.jobs import Trained
from flcluster.federation.layout import all_finite


def is_usable(result: Trained) -> bool:
    """Say whether a result is worth aggregating: it was trained at all (BatchNorm needs two samples), and is finite."""
    return result.steps > 0 and all_finite(result.row)


def average_by_label(
    trained: Iterable[Trained], labels: list[int], old: Tensor, weight: Callable[[Trained], float]
) -> tuple[Tensor, list[Trained]]:
    """Average trained rows per label as they come in, in client order; a label nobody trained keeps its old row.

    Results that do not count are left out. Returns the models and the results without their rows.
    """
    totals, mass, light = torch.zeros_like(old), [0.0] * len(old), []
    for result, label in zip(trained, labels, strict=True):
        if is_usable(result):
            totals[label].add_(result.row, alpha=weight(result))
            mass[label] += weight(result)
        light.append(result.light())
    for label, total in enumerate(mass):
        totals[label] = totals[label] / total if total else old[label]
    return totals, light


def usable(result: Trained, otherwise: Tensor) -> Tensor:
    """Return a trained row, or another one if it is not finite."""
    return result.row if result.seen["finite"] else otherwise
