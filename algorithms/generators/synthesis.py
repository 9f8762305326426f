"""Synthetic samples: how clients' models teach a generator to draw them, and as data to train on."""

import io
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from flcluster.data import View
from flcluster.federation.federation import Federation
from flcluster.modules import SemanticGenerator
from flcluster.seeds import rng

from .losses import teacher_loss

AT_ONCE = 500
"""Samples that are drawn together."""


SHOWN = 10
"""Samples of each class in a picture."""


def supervised(images: Tensor, y: Tensor, weights: Tensor, teachers: Iterable[Tensor], fed: Federation) -> Tensor:
    """Return L_cls (``teacher_loss``) of synthetic images, through which gradients flow into the images.

    Teachers are loaded one after the other into the one module there is, and each looks only at the samples that have
    a weight with it: a client that holds two classes of ten costs a fifth.

    Args:
        images: Synthetic samples as the classifiers read them, ``[B, ...]``.
        y: The classes that they were drawn for, ``[B]``.
        weights: Each teacher's share of each class, ``[K, C]``.
        teachers: Rows of the K models.
        fed: Has the module.
    """
    module, leaf = fed.module, images.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    total, gradient = torch.zeros((), device=leaf.device), torch.zeros_like(leaf)
    module.eval()
    for teacher, share in zip(teachers, weights, strict=True):
        chosen = (share[y] > 0).nonzero().flatten()
        if len(chosen):
            fed.layout.load(teacher)
            logits = module(leaf[chosen])  # in full precision: small gradients into images would vanish in half
            loss = teacher_loss(logits[None], y[chosen], share[None]) * (len(chosen) / len(y))
            gradient += torch.autograd.grad(loss, leaf)[0]
            total += loss.detach()
    return total + ((images - images.detach()) * gradient).sum()


class NoisePool:
    """What a generator is trained with where that is drawn once: noise and classes, by number."""

    def __init__(self, noise: Tensor, y: Tensor) -> None:
        self.noise, self.y = noise, y

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return noise and the classes to draw from it."""
        return self.noise[index], self.y[index]


class Synthetic:
    """Samples of given classes that are drawn when they are first asked for: a source like any other."""

    def __init__(self, generator: SemanticGenerator, labels: Tensor, draw: np.random.Generator) -> None:
        self.generator, self.labels, self.draw = generator, labels, draw

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def images(self) -> Tensor:
        """All samples, normalised as the classifiers read them."""
        return torch.cat([self.generator.sample(y, self.draw) for y in self.labels.split(AT_ONCE)])

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return samples and their classes."""
        return self.images[index.to(self.images.device)], self.labels[index]

    def view(self) -> View:
        """Return all of them as a view."""
        return View(((self, torch.arange(len(self.labels))),))


def sample_file(generator: SemanticGenerator, names: Sequence[str], seen: Tensor, seed: int) -> bytes:
    """Return a NumPy archive with some samples of every class as pixels: what the picture of them is drawn from."""
    y = torch.arange(len(names)).repeat_interleave(SHOWN)
    source = Synthetic(generator, y, rng(seed, "shown samples"))
    pixels = source.images * generator.std + generator.mean
    shape = (len(names), SHOWN, *generator.image_shape)
    images = (255 * pixels).round().clamp(0, 255).to(torch.uint8).view(shape).cpu().numpy()
    out = io.BytesIO()
    np.savez_compressed(out, images=images, names=np.array(names), seen=seen.numpy())
    return out.getvalue()
