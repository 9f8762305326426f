"""Stacks of dense networks: their gradient is written out, and added to the weights as it is computed.

What autograd and a step do around the products of a small network takes longer than the products; and a large one's
gradient need not be laid down to be added.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flcluster.federation.layout import Layout
from flcluster.federation.together.stack import Stack


def stack_of(module: nn.Module, layout: Layout, loss: Callable[..., Tensor]) -> Stack:
    """Return what trains several models of a module in one pass."""
    return (Dense if is_dense(module) else Stack)(module, layout, loss)


def is_dense(module: Any) -> bool:
    """Say whether a module is one that says it is dense layers with ReLU in between, under cross-entropy."""
    saying = next((kind for kind in type(module).__mro__ if vars(kind).get("is_chain")), None)
    if saying is None:
        return False
    as_said = all(getattr(type(module), name) is getattr(saying, name) for name in ("forward", "features", "loss"))
    held = [tensor for layer in module.layers for tensor in (layer.weight, layer.bias)]
    here = [*module.parameters(), *(buffer for buffer in module.buffers() if buffer.is_floating_point())]
    return as_said and len(held) == len(here) and all(one is other for one, other in zip(held, here, strict=True))


class Dense(Stack):
    """Models that are nothing but dense layers; a model lies there as it does in a row.

    A product of matrices has the same bits whatever is multiplied beside it, so a stack has no rows to spare.
    """

    def learning(self, mode: bool) -> None:
        """Do nothing: dense layers do the same in training and in evaluation."""

    @staticmethod
    def room(count: int) -> int:
        """Return how many rows a stack of some clients has."""
        return count

    def laid(self, rows: Sequence[Tensor], count: int, width: int | None = None) -> Tensor:
        """Lay rows of models on one another."""
        return torch.stack([row[:width].to(self.layout.row) for row in rows])

    def rows(self, stack: Tensor) -> Tensor:
        """Return the models of a stack."""
        return stack

    def tensors(self, stack: Tensor) -> list[Tensor]:
        """View weights and biases in a stack, or their gradients."""
        return [entry.view(stack) for entry in self.layout.entries]

    def parts(self, gradients: Tensor) -> list[Tensor]:
        """View the parameters in a stack of gradients."""
        return self.tensors(gradients)

    def gradients(self, x: Tensor, y: Tensor, weights: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return each model's loss on its own batch, ``[C]``, and its gradients."""
        losses, slopes = self._backward(x, y, weights, tensors)
        found = [(slope.sum(1), torch.bmm(slope.mT, below)) for slope, below in slopes]
        return losses, *(gradient for pair in reversed(found) for gradient in reversed(pair))

    def descend(self, x: Tensor, y: Tensor, weights: Tensor, tensors: Sequence[Tensor], lr: float) -> Tensor:
        """Return each model's loss on its own batch, ``[C]``, and take one step down its gradient."""
        losses, slopes = self._backward(x, y, weights, tensors)
        for at, (slope, below) in zip(range(len(tensors) - 2, -1, -2), slopes, strict=True):
            tensors[at].baddbmm_(slope.mT, below, alpha=-lr)
            tensors[at + 1].add_(slope.sum(1), alpha=-lr)
        return losses

    def scores(self, x: Tensor, y: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        """Return each model's losses on its own samples, and 1 where it is right, ``[C, 2, n]``."""
        *_, logits = forward(x, tensors)
        losses = -log_shares(logits).gather(1, y[:, None])[:, 0]
        return torch.stack([losses, (logits.argmax(2) == y).float()], dim=1)

    def _backward(
        self, x: Tensor, y: Tensor, weights: Tensor, tensors: Sequence[Tensor]
    ) -> tuple[Tensor, Iterator[tuple[Tensor, Tensor]]]:
        """Return the losses; and of each layer, from the last, the loss' slope by what comes out and what went in."""
        *inputs, logits = forward(x, tensors)
        known = log_shares(logits)
        losses = -(known.gather(1, y[:, None])[:, 0] * weights).sum(1)
        slope = known.exp_().scatter_(1, y[:, None], -1, reduce="add").mul_(weights[:, None]).mT

        def slopes(slope: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
            for below, weight in zip(inputs[:0:-1], tensors[-2:0:-2], strict=True):
                next_ = torch.bmm(slope, weight)  # before the weights are stepped
                yield slope, below
                slope = torch.ops.aten.threshold_backward(next_, below, 0)
            yield slope, inputs[0]

        return losses, slopes(slope)


def forward(x: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return what goes into each layer, ``[C, batch, width]``, and the logits."""
    values = [x.flatten(2)]
    for weight, bias in zip(tensors[::2], tensors[1::2], strict=True):
        below = values[-1].relu_() if len(values) > 1 else values[-1]
        values.append(torch.baddbmm(bias[:, None], below, weight.mT))
    return values


def log_shares(logits: Tensor) -> Tensor:
    """Return the logarithms of what each class is given, ``[C, classes, batch]``: vectorised over samples."""
    return logits.mT.log_softmax(1)
