"""Losses of learning from models instead of data: what teaches a generator, and what a student learns from teachers.

Pure functions on tensors: K teachers, B samples, C classes. AP-FL's equations come first, then those of FedGen
(Zhu et al., 2021) and FedDF (Lin et al., 2020), as their authors' code has them.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def class_weights(counts: Tensor, prior: float = 0.0, total: bool = False) -> Tensor:
    """Return each teacher's share w_k^y of the samples of each class, ``[K, C]``.

    Shares add up to 1 over the teachers, so that rare classes count as much as frequent ones; a class that no teacher
    holds has shares of 0. FedGen begins to count at 1, which is a ``prior`` of 1. As shares of the teachers' samples of
    all classes (AP-FL's words: of the entire training set) all weights together add up to 1.

    Args:
        counts: Training samples per teacher and class, ``[K, C]``.
        prior: Added to every count.
        total: Divide by the number of all samples, not by that of the class.

    Example:
        >>> class_weights(torch.tensor([[3, 0], [1, 0]])).tolist()
        [[0.75, 0.0], [0.25, 0.0]]
        >>> class_weights(torch.tensor([[3, 0], [1, 4]]), total=True).tolist()
        [[0.375, 0.0], [0.125, 0.5]]
    """
    held = counts.float() + prior
    return held / (held.sum() if total else held.sum(0)).clamp(min=torch.finfo(held.dtype).tiny)


def taught_classes(counts: Tensor) -> Tensor:
    """Return the classes that some teacher holds: only for those is there a loss, so only those may be drawn.

    Example:
        >>> taught_classes(torch.tensor([[3, 0, 0], [1, 0, 2]])).tolist()
        [0, 2]
    """
    return counts.sum(0).nonzero().flatten()


def teacher_loss(logits: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Return L_cls = Σ_k w_k^y CE(θ_k(x̂), y), the mean over the batch (AP-FL, Eq. 6 and 7; FedGen has the same).

    A sample of a class that nobody holds has weights of 0 and teaches nothing.

    Args:
        logits: Each teacher's logits of the synthetic samples, ``[K, B, C]``.
        y: The classes that the samples were drawn for, ``[B]``.
        weights: ``class_weights``, ``[K, C]``.
    """
    teachers, batch, classes = logits.shape
    losses = F.cross_entropy(logits.reshape(-1, classes), y.repeat(teachers), reduction="none")
    return (weights[:, y] * losses.view(teachers, batch)).sum(0).mean()


def diversity_loss(images: Tensor, y: Tensor, norm: bool = True) -> Tensor:
    """Return L_div, minus the mean distance of a synthetic sample to the others of its class (AP-FL, Eq. 8).

    Minimising it drives samples apart, as the equation says; the sentence beneath it says the opposite. A sample
    without another of its class in the batch has no distance and is left out; a batch without a pair has a loss of 0.

    Args:
        images: Synthetic samples in [-1, 1], ``[B, ...]``.
        y: Their classes, ``[B]``.
        norm: Divide distances by 2√d, the largest that d values in [-1, 1] can have, so that the loss lies in [-1, 0].
            Without it (the equation as printed) distances of up to 111 for 3x32x32 face a cross-entropy of about 2.
    """
    flat = images.flatten(1)
    same = (y[:, None] == y[None, :]).fill_diagonal_(False)
    others = same.sum(1)
    # Distances by subtraction: the faster way by products loses those of samples that are nearly equal.
    distances = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")
    mean = (distances * same).sum(1) / others.clamp(min=1)
    loss = -mean.sum() / (others > 0).sum().clamp(min=1)
    return loss / (2 * math.sqrt(flat.shape[1])) if norm else loss


def generator_loss(classification: Tensor, diversity: Tensor, gamma: float = 0.5) -> Tensor:
    """Return L_G = γ L_cls + (1 - γ) L_div (AP-FL, Eq. 9)."""
    return gamma * classification + (1 - gamma) * diversity


def fedgen_diversity(noise: Tensor, outputs: Tensor) -> Tensor:
    """Return exp(-mean_ij(‖ε_i - ε_j‖² / d · ‖z_i - z_j‖₁ / d')): 1 if all outputs are the same, less if they differ.

    Distances are means over dimensions, and the mean is over all B² pairs, whatever their classes, a sample's with
    itself among them (FedGen's code).

    Args:
        noise: What the outputs were made from, ``[B, d]``.
        outputs: What the generator made of it, ``[B, ...]``.
    """
    flat = outputs.flatten(1)
    apart = torch.cdist(flat, flat, p=1) / flat.shape[1]
    noise_apart = (noise[:, None] - noise[None, :]).square().mean(2)
    return (-noise_apart * apart).mean().exp()


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Return KL(softmax(teacher / T) ‖ softmax(student / T)), the mean over the batch, without the factor T².

    Args:
        student: Logits that learn, ``[B, C]``.
        teacher: Logits to come close to, ``[B, C]``; no gradient flows into them.
        temperature: T; above 1 it softens both.
    """
    target = F.log_softmax(teacher.detach() / temperature, dim=1)
    return F.kl_div(F.log_softmax(student / temperature, dim=1), target, reduction="batchmean", log_target=True)
