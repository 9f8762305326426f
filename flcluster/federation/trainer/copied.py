"""A module whose tensors stay its own: what travels is copied into a row and out of it."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from flcluster.federation.layout import Entry, check_row


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers of a module by name; tied ones once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def as_real(tensor: Tensor) -> Tensor:
    """See complex numbers as pairs of real ones, which is what a row holds."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


class Copied:
    """Maps some tensors of a module to a row and back, by name, whatever becomes of the tensors in between.

    ``row[:num_parameters]`` is what trains, the rest what training changes besides (BatchNorm's statistics, a momentum
    encoder). What never changes stays in the module and out of the row.
    """

    def __init__(self, module: nn.Module, trained: Sequence[str], changed: Sequence[str], device: torch.device) -> None:
        self.module, self.entries = module, list[Entry]()
        held, at = tensors_of(module), 0
        for name in (*trained, *changed):
            shape = as_real(held[name].detach()).shape
            self.entries.append(Entry(name, shape, at, at + shape.numel()))
            at += shape.numel()
        self.size, self.num_parameters = at, sum(as_real(held[name].detach()).numel() for name in trained)
        self.has_batch_norm = any(isinstance(part, _BatchNorm) for part in module.modules())
        self.row = torch.zeros(self.size, device=device)
        """A row like all others; the module is not bound to it."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one model on the wire."""
        return self.size * self.row.element_size()

    def part(self, row: Tensor, entry: Entry) -> Tensor:
        """Return one tensor of a row in its shape."""
        return row[entry.start : entry.stop].view(entry.shape)

    @torch.no_grad()
    def load(self, row: Tensor) -> None:
        """Make the module be this row."""
        check_row(row, self.row)
        held = tensors_of(self.module)
        for entry in self.entries:
            as_real(held[entry.name]).copy_(self.part(row, entry))

    @torch.no_grad()
    def snapshot(self) -> Tensor:
        """Return the module as a row."""
        held = tensors_of(self.module)
        flat = [as_real(held[entry.name].detach()).reshape(-1).to(self.row) for entry in self.entries]
        return torch.cat([self.row[:0], *flat]).clone()

    def state_dict(self, row: Tensor) -> dict[str, Tensor]:
        """Turn a row into an ordinary state dict, with all that does not travel."""
        self.load(row)
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}
