"""FedAvg rounds as one would write them by hand to be fast: what the engine is held against.

Samples and orders are the engine's; batches are gathered once for a client, and models are trained where they lie.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from flcluster.data import FederatedDataModule
from flcluster.modules.classifier import Classifier
from flcluster.seeds import rng

Train = Callable[[Sequence[Tensor], Tensor, Tensor], None]
"""Trains parameters, where they lie, on a client's samples in the order in which they come."""
Forward = Callable[[Sequence[Tensor], Tensor], Tensor]


def by_autograd(module: Classifier, lr: float, batch: int) -> Train:
    """Return training with autograd's gradients, added to all parameters in one call."""

    def train(parameters: Sequence[Tensor], x: Tensor, y: Tensor) -> None:
        for a, b in zip(x.split(batch), y.split(batch), strict=True):
            gradients = torch.autograd.grad(F.cross_entropy(module(a), b), parameters)
            with torch.no_grad():
                torch._foreach_add_(parameters, gradients, alpha=-lr)

    return train


def by_hand(lr: float, batch: int) -> Train:
    """Return training of an MLP with one hidden layer by its written-out gradient, added as it is computed."""

    @torch.inference_mode()
    def train(parameters: Sequence[Tensor], x: Tensor, y: Tensor) -> None:
        w1, b1, w2, b2 = (parameter.detach() for parameter in parameters)
        for a, one_hot in zip(x.flatten(1).split(batch), F.one_hot(y, len(b2)).float().split(batch), strict=True):
            hidden = torch.addmm(b1, a, w1.T).relu_()
            slope = torch.addmm(b2, hidden, w2.T).softmax(1).sub_(one_hot)
            below, step = (slope @ w2).mul_(hidden > 0), -lr / len(a)
            w2.addmm_(slope.T, hidden, alpha=step)
            b2.add_(slope.sum(0), alpha=step)
            w1.addmm_(below.T, a, alpha=step)
            b1.add_(below.sum(0), alpha=step)

    return train


def rounds_of(
    module: Classifier, data: FederatedDataModule, train: Train, participants: int, evaluates: bool
) -> Callable[[], object]:
    """Return what runs a round: draw clients, train each from the common model, average; with evaluation, score
    each trained model and then their mean on the clients' test samples.
    """
    parameters, turns = list(module.parameters()), count()
    data.setup()

    def run() -> None:
        t = next(turns)
        start = [p.detach().clone() for p in parameters]
        total = [torch.zeros_like(p) for p in parameters]
        tests = []
        for client in sorted(rng(0, "select", t, 0).choice(data.num_clients, participants, replace=False).tolist()):
            shard = data.shard(client, t)
            with torch.no_grad():
                torch._foreach_copy_(parameters, start)
            train(parameters, *_ordered(module, *shard.train.tensors(), rng(0, "train", client, t)))
            torch._foreach_add_(total, [p.detach() for p in parameters], alpha=1 / participants)
            if evaluates:
                tests.append(shard.test.tensors())
                _hits(module, [tests[-1]])
        with torch.no_grad():
            torch._foreach_copy_(parameters, total)
        _hits(module, tests)

    return run


def _ordered(module: Classifier, x: Tensor, y: Tensor, draw: Any) -> Iterator[Tensor]:
    order = torch.from_numpy(draw.permutation(len(y)))
    x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 and module.images else x
    yield from (x[order], y[order])


@torch.inference_mode()
def _hits(module: Classifier, tests: Sequence[tuple[Tensor, Tensor]]) -> float:
    if not tests:
        return 0.0
    x, y = (torch.cat(parts) for parts in zip(*tests, strict=True))
    return float((module(x).argmax(1) == y).sum())
