"""A model as a row: parameters first, float buffers after, in one flat tensor."""

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@dataclass(frozen=True)
class Entry:
    """One tensor of the module and where it lies in the row."""

    name: str
    shape: torch.Size
    start: int
    stop: int

    def view(self, row: Tensor) -> Tensor:
        """View this tensor inside a row, or inside each of some rows ``[C, size]``, as ``[C, *shape]``.

        4-D weights lie there in channels_last order, which convolutions prefer.
        """
        flat = row[..., self.start : self.stop]
        if len(self.shape) != 4:
            return flat.unflatten(-1, self.shape) if self.shape else flat.squeeze(-1)
        o, i, h, w = self.shape
        laid: Tensor = flat.unflatten(-1, (o, h, w, i))
        return laid.movedim(-1, -3)


class Layout:
    """Maps a module to a row and back, and binds the module's tensors to one such row.

    Integer buffers (``num_batches_tracked``) are left out. ``row[:num_parameters]`` are the parameters, which is what
    distances and proximal terms look at; averaging takes the whole row, so BatchNorm statistics are averaged too.
    After binding, loading a model is one copy into ``row`` and an optimiser works on the single tensor ``parameter``.
    """

    def __init__(self, module: nn.Module) -> None:
        parameters = dict(module.named_parameters())
        buffers = {name: b for name, b in module.named_buffers() if b.is_floating_point()}
        self.entries: list[Entry] = []
        at = 0
        for name, tensor in (*parameters.items(), *buffers.items()):
            self.entries.append(Entry(name, tensor.shape, at, at + tensor.numel()))
            at += tensor.numel()
        self.size = at
        self.num_parameters = sum(p.numel() for p in parameters.values())
        self.has_batch_norm = any(isinstance(m, _BatchNorm) for m in module.modules())
        self.module = module
        self.row = torch.zeros(self.size, device=next(iter(parameters.values())).device)
        self.grad = torch.zeros_like(self.row[: self.num_parameters])
        self._bind(parameters, buffers)
        self.training = tuple(parameter for parameter in parameters.values() if parameter.requires_grad)
        """The parameters that train."""
        trains = {name for name, parameter in parameters.items() if parameter.requires_grad}
        self._pieces = [entry.view(self.row) for entry in self.entries if entry.name in trains]
        self._slopes = [entry.view(self.grad) for entry in self.entries if entry.name in trains]
        self._whole = len(trains) == len(parameters)
        self.parameter = nn.Parameter(self.row[: self.num_parameters])
        self.parameter.grad = self.grad

    def _bind(self, parameters: dict[str, nn.Parameter], buffers: dict[str, Tensor]) -> None:
        for entry in self.entries:
            place = entry.view(self.row)
            if entry.name in parameters:
                parameter = parameters[entry.name]
                place.copy_(parameter.data)
                parameter.data = place
                if parameter.requires_grad:
                    parameter.grad = entry.view(self.grad)
            else:
                place.copy_(buffers[entry.name])
                owner, _, name = entry.name.rpartition(".")
                self.module.get_submodule(owner)._buffers[name] = place

    def lay(self, gradients: Sequence[Tensor | None]) -> None:
        """Lay gradients of what trains into ``grad``; that of a parameter without one is zero."""
        places, known = _known(self._slopes, gradients)
        if not self._whole or len(known) < len(gradients):
            self.grad.zero_()
        if known:
            torch._foreach_copy_(places, known)

    def add(self, gradients: Sequence[Tensor | None], factor: float) -> None:
        """Add gradients of what trains to the row, times a factor."""
        places, known = _known(self._pieces, gradients)
        if known:
            torch._foreach_add_(places, known, alpha=factor)

    @property
    def row_bytes(self) -> int:
        """Bytes of one model on the wire."""
        return self.size * self.row.element_size()

    def load(self, row: Tensor) -> None:
        """Make the bound module be this row."""
        check_row(row, self.row)
        self.row.copy_(row)

    def snapshot(self) -> Tensor:
        """Return a copy of the bound module's row."""
        return self.row.clone()

    def state_dict(self, row: Tensor) -> dict[str, Tensor]:
        """Turn a row into an ordinary state dict (integer buffers as the module has them)."""
        state = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        tensors = {
            **dict(self.module.named_parameters(remove_duplicate=False)),
            **dict(self.module.named_buffers(remove_duplicate=False)),
        }
        place = {entry.view(self.row).data_ptr(): entry for entry in self.entries}  # tied weights share a place
        for name in state:
            entry = place.get(tensors[name].data_ptr()) if name in tensors else None
            if entry is not None:
                state[name] = entry.view(row).detach().clone(memory_format=torch.contiguous_format)
        return state

    def flat_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Rebuild an element-wise optimiser on the one flat parameter: the same steps in a few kernels.

        Optimisers that look at single tensors, have several groups, or leave parameters out or frozen are returned as
        they are.
        """
        frozen = any(not p.requires_grad for p in self.module.parameters())
        covers = sum(p.numel() for group in optimizer.param_groups for p in group["params"])
        whole = len(optimizer.param_groups) == 1 and covers == self.num_parameters and not frozen
        return rebuilt(optimizer, self.parameter) if type(optimizer) in ELEMENTWISE and whole else optimizer


def rebuilt(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> torch.optim.Optimizer:
    """Make an optimiser like another one, of one parameter, with the settings that the other one was made with."""
    kind: type[Any] = type(optimizer)
    accepted = settings_of(kind)  # type: ignore[arg-type]
    kwargs = {k: v for k, v in optimizer.defaults.items() if k in accepted}
    return type(optimizer)([parameter], **kwargs)


@cache
def settings_of(kind: type[Any]) -> frozenset[str]:
    """Return the names of what a class is made with."""
    return frozenset(inspect.signature(kind).parameters)


ELEMENTWISE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adagrad,
    torch.optim.RMSprop,
    torch.optim.Adadelta,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
)
"""Optimisers that treat every number alone, so that it does not matter how parameters are laid out."""


def _known(places: list[Tensor], gradients: Sequence[Tensor | None]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the gradients that there are, and where they belong."""
    known = [gradient for gradient in gradients if gradient is not None]
    if len(known) < len(gradients):
        places = [place for place, gradient in zip(places, gradients, strict=True) if gradient is not None]
    return places, known


def check_row(row: Tensor, like: Tensor) -> None:
    """Refuse what is no row: a shorter one would be repeated to fill the model, a longer one cut."""
    if row.shape != like.shape:
        raise ValueError(f"a model is a row of {len(like)} numbers here, and this one has shape {tuple(row.shape)}")


def all_finite(row: Tensor) -> bool:
    """Say whether a row has no NaN, no infinity, and nothing so large that its squares overflow.

    The distance to such a row, and soon the mean with it, would be infinite. One pass, no temporary of the row's size.
    """
    return math.isfinite(float(square_norm(row)))


def square_norm(row: Tensor) -> Tensor:
    """Return the sum of a row's squares where the row lies; it is finite if the row is (see ``all_finite``)."""
    flat = row.flatten()
    return flat.dot(flat)
