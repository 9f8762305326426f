"""The server's arithmetic of CDFL, CCFL and FedSoft-Async, as pure functions on small tensors."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from .history import History

Bar = float | Literal["min"]


def raw_scores(
    losses: Tensor,
    loss_gaps: Tensor,
    distances: Tensor,
    *,
    c1: float,
    c2: float,
    bars: tuple[Bar, Bar, Bar],
    clamp: bool = True,
) -> tuple[Tensor, int]:
    """Score how well an upload fits each cluster (CDFL Algorithm 2, before the softmax).

    a_k = 1/(K−1) · Σ_x c_x · (S_x − x_k)/S_x over x ∈ {l, d1, d2}, each with its bar subtracted. A value below its bar
    would turn the order round, so it is clamped to zero and counted; where all are zero the term is uniform.

    Returns:
        The scores ``[K]`` and how many values were clamped.
    """
    K = len(losses)
    scores, clamped = torch.zeros_like(losses), 0
    if K == 1:
        return torch.ones_like(losses), clamped
    parts = ((c1, losses, bars[0]), (c2, loss_gaps, bars[1]), (1 - c1 - c2, distances, bars[2]))
    for weight, x, bar in parts:
        x = x - (x.min() if bar == "min" else bar)
        if clamp:
            clamped += int((x < 0).sum())
            x = x.clamp_min(0)
        total = x.sum()
        even = torch.full_like(x, (K - 1) / K)
        scores = scores + weight * (even if abs(total) < 1e-12 else (total - x) / total)
    return scores / (K - 1), clamped


def estimate_distribution(
    losses: Tensor,
    loss_gaps: Tensor,
    distances: Tensor,
    *,
    c1: float,
    c2: float,
    amplifiers: Sequence[float],
    bars: tuple[Bar, Bar, Bar],
    clamp: bool = True,
) -> tuple[Tensor, int]:
    """Estimate a client's mixture α̂ from its model (CDFL Algorithm 2): scores, then one softmax per amplifier.

    Returns:
        α̂ ``[K]`` (sums to one) and how many values were clamped.
    """
    weights, clamped = raw_scores(losses, loss_gaps, distances, c1=c1, c2=c2, bars=bars, clamp=clamp)
    if len(weights) == 1:
        return weights, clamped
    for amplifier in amplifiers:
        weights = torch.softmax(amplifier * weights, dim=0)
    return weights, clamped


def staleness_factor(s: Tensor, a: float, b: float) -> Tensor:
    """β2: one while fresher than ``b`` epochs, then 1/(a·s + 1)."""
    return torch.where(s < b, torch.ones_like(s, dtype=torch.float64), 1 / (a * s.double().clamp_min(0) + 1))


def update_ratios(
    weights: Tensor,
    staleness: Tensor,
    *,
    beta0: float,
    a: float,
    b: float,
    threshold: float | Literal["ave"] = "ave",
) -> Tensor:
    """β_k = β0·β1_k·β2_k (CDFL Algorithm 2): how far each cluster moves towards the upload.

    ``ave`` is the mean of the weights, 1/K; a uniform estimate therefore updates every cluster.
    """
    bar = 1 / len(weights) if threshold == "ave" else threshold
    beta1 = torch.where(weights >= bar - 1e-9, weights / weights.max(), torch.zeros_like(weights))
    return beta0 * beta1 * staleness_factor(staleness, a, b).to(weights.dtype)


def passes_filter(history: History, values: Tensor, quantile: float = 0.7, min_entries: int = 20) -> Tensor:
    """Say which clusters an upload may change (CCFL's global adjustment).

    Refused where any of (l, d1, d2) exceeds that quantile of its own history for the cluster.

    Args:
        history: Raw values of past uploads, ``[K, 3]`` each.
        values: This upload's raw values ``[K, 3]``.
        quantile: The percentile that must not be exceeded.
        min_entries: Too short a history refuses nothing.
    """
    if len(history) < min_entries:
        return torch.ones(len(values), dtype=torch.bool)
    return (values <= history.quantile(quantile)).all(dim=1)


def sample_shares(sample_losses: Tensor, sigma: float = 1e-4) -> Tensor:
    """FedSoft's μ from per-sample losses ``[K, n]``: the share of samples each model fits best.

    A cluster without samples gets σ·n; shares are renormalised.
    """
    K, n = sample_losses.shape
    counts = torch.bincount(sample_losses.argmin(0), minlength=K).double()
    counts = torch.where(counts == 0, sigma * n, counts)
    return counts / counts.sum()


def soft_ratios(shares: Tensor, staleness: Tensor, *, beta0: float, a: float, b: float) -> Tensor:
    """β_k = β0·μ_k·β2_k: FedSoft-Async has neither threshold nor normalisation."""
    return beta0 * shares * staleness_factor(staleness, a, b).to(shares.dtype)
