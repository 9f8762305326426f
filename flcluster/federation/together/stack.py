"""A module on stacked rows: losses, gradients and scores of several models at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from flcluster.federation.layout import Entry, Layout
from flcluster.federation.together.batches import rows_for
from flcluster.federation.together.recorded import Recorded


@dataclass(frozen=True)
class Place:
    """Where one tensor of a module lies in a stack of models: matrices lie there transposed.

    The gradient of a dense layer's weights comes out transposed where several are computed at once, and to lay it down
    as it comes is what makes a third of the step of a small model.
    """

    entry: Entry

    def view(self, stack: Tensor) -> Tensor:
        """View this tensor in a stack, ``[C, *shape]``."""
        if len(self.entry.shape) != 2:
            return self.entry.view(stack)
        fan_out, fan_in = self.entry.shape
        laid: Tensor = stack[:, self.entry.start : self.entry.stop].unflatten(1, (fan_in, fan_out))
        return laid.transpose(1, 2)


class Stack:
    """One module that reads its tensors from any model of a stack ``[C, size]``; the module itself stays as it is."""

    def __init__(self, module: nn.Module, layout: Layout, loss: Callable[..., Tensor]) -> None:
        self.module, self.layout, self.loss = module, layout, loss
        trained = {name for name, _ in module.named_parameters()}
        self.trained = [entry.name in trained for entry in layout.entries]
        self.places = [Place(entry) for entry in layout.entries]
        self._descent = Recorded(self._losses_and_gradients)
        self._sight = Recorded(self._losses_and_hits)

    def learning(self, mode: bool) -> None:
        """Set the module to training or evaluation."""
        self.module.train(mode)

    @staticmethod
    def room(count: int) -> int:
        """Return how many rows a stack of some clients has."""
        return rows_for(count)

    def laid(self, rows: Sequence[Tensor], count: int, width: int | None = None) -> Tensor:
        """Lay rows of models on one another in the stack's own order; so many rows that are none stay zero at the end.

        Args:
            rows: Rows of the layout, or of its parameters only.
            count: Rows of the stack.
            width: How long a row is in the stack; that of a model if not given.
        """
        width = self.layout.size if width is None else width
        given = torch.stack([row[:width].to(self.layout.row) for row in rows])
        stack = torch.zeros(count, width, device=given.device)
        for place in self.places:
            if place.entry.stop <= width:
                place.view(stack[: len(rows)]).copy_(place.entry.view(given))
        return stack

    def rows(self, stack: Tensor) -> Tensor:
        """Return the models of a stack as rows of the layout."""
        rows = torch.empty_like(stack)
        for place in self.places:
            place.entry.view(rows).copy_(place.view(stack))
        return rows

    def tensors(self, stack: Tensor) -> list[Tensor]:
        """View the module's tensors in a stack, ``[C, *shape]`` each."""
        return [place.view(stack) for place in self.places]

    def parts(self, gradients: Tensor) -> list[Tensor]:
        """View the parameters in a stack of gradients ``[C, P]``."""
        return [place.view(gradients) for place, own in zip(self.places, self.trained, strict=True) if own]

    def gradients(self, x: Tensor, y: Tensor, weights: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return each model's loss on its own batch, ``[C]``, and the gradients of it, one ``[C, *shape]`` a parameter.

        Args:
            x: Inputs, ``[C, batch, …]``.
            y: Labels, ``[C, batch]``.
            weights: What each sample counts, ``[C, batch]``: a loss is the weighted sum of those of its samples.
            tensors: The models, as ``tensors`` views them.
        """
        return self._descent(x, y, weights, *tensors)

    def scores(self, x: Tensor, y: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        """Return each model's losses on its own samples, and 1 where it is right, ``[C, 2, n]``."""
        with torch.no_grad():
            (found,) = self._sight(x, y, *tensors)
        return found

    # what is recorded -------------------------------------------------------------------------------------------

    def _losses_and_gradients(self, x: Tensor, y: Tensor, weights: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        leaves = [tensor.detach().requires_grad_(own) for tensor, own in zip(tensors, self.trained, strict=True)]
        with torch.enable_grad():
            losses = self._each(self._logits(x, leaves), y)
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            found = torch.autograd.grad(losses, wanted, weights, allow_unused=True, materialize_grads=True)
        return (losses.detach() * weights).sum(1), *found

    def _losses_and_hits(self, x: Tensor, y: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        logits = self._logits(x, tensors)
        return (torch.stack([self._each(logits.float(), y), (logits.argmax(2) == y).float()], dim=1),)

    def _logits(self, x: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        """Let each model see its own inputs: a model's gradient is its own, though all go backward at once."""
        names = [entry.name for entry in self.layout.entries]

        def one(x: Tensor, *tensors: Tensor) -> Any:
            return functional_call(self.module, dict(zip(names, tensors, strict=True)), (x,))

        logits: Tensor = vmap(one)(x, *tensors)
        return logits

    def _each(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the loss of every sample, ``[C, n]``: it is the same whoever's it is."""
        return self.loss(logits.flatten(0, 1), y.flatten(0, 1), reduction="none").view(y.shape[:2])
