"""What of a module no row holds: a local training begins with it as it was given, and leaves no trace in the next."""

import contextlib
import zlib
from collections import deque
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from flcluster.errors import UserError
from flcluster.federation.trainer.copied import tensors_of

_Attributes = dict[str, dict[str, Any]]
_LEFT_ALONE = (Dataset, DataLoader, nn.Parameter)
"""Attributes that are not worth a copy: large, and nothing that training changes."""


class AsGiven:
    """Python attributes, modes and ``requires_grad`` of a module and all its parts, to be set back before a training.

    A plain Trainer finds a module's counters, lists and averages as they were made; so must the second local training,
    though the first one went through the same module.
    """

    def __init__(self, module: Any, package: Any) -> None:
        self.module = module
        self.internal = vars(package.LightningModule()).keys() - {"training"}
        self.kept = self._copied(self._attributes())
        self.takes_gradients = {name: parameter.requires_grad for name, parameter in module.named_parameters()}

    def restore(self) -> None:
        """Set everything back that has changed."""
        now = self._attributes()
        changed = {
            part: {name: value for name, value in held.items() if not alike(value, now.get(part, {}).get(name, now))}
            for part, held in self.kept.items()
        }
        fresh = self._copied(changed)
        parts = dict(self.module.named_modules())
        for name, part in parts.items():
            for key in now[name].keys() - self.kept.get(name, now[name]).keys():
                del part.__dict__[key]
            registered = part._parameters.keys() | part._buffers.keys() | part._modules.keys()
            part.__dict__.update({key: value for key, value in fresh.get(name, {}).items() if key not in registered})
        for name, parameter in self.module.named_parameters():
            parameter.requires_grad_(self.takes_gradients.get(name, parameter.requires_grad))

    def _attributes(self) -> _Attributes:
        return {
            name: {key: value for key, value in vars(part).items() if key not in self.internal}
            for name, part in self.module.named_modules()
        }

    def _copied(self, attributes: _Attributes) -> _Attributes:
        """Copy attributes, those that can be; tensors and parts of the module stay the ones that they are."""
        own = [*self.module.modules(), *tensors_of(self.module).values()]
        memo: dict[int, Any] = {id(each): each for each in own}
        found: _Attributes = {}
        for part, held in attributes.items():
            found[part] = dict(held)
            for name, value in held.items():
                if not isinstance(value, _LEFT_ALONE):
                    with contextlib.suppress(Exception):  # a lock, a generator that runs, a tensor with a history
                        found[part][name] = deepcopy(value, memo)
        return found


def alike(a: Any, b: Any, depth: int = 8) -> bool:
    """Say whether two values hold the same, however deep; arrays and tensors number by number.

    >>> alike({"seen": [1, 2]}, {"seen": [1, 2]}), alike({"seen": [1, 2]}, {"seen": [1, 2, 3]})
    (True, False)
    """
    if a is b or depth == 0:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return bool(a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b))
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key], depth - 1) for key in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(alike(x, y, depth - 1) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dict__") and not callable(a):
        return alike(vars(a), vars(b), depth - 1)
    return bool(a == b)


class Unchanged:
    """Tensors that stay out of the row because a short training did not change them: a longer one must not either."""

    def __init__(self, module: nn.Module, names: list[str]) -> None:
        self.module, self.names = module, names
        held = tensors_of(module)
        self.sums = {name: _sum(held[name]) for name in names}
        self.marks = {name: mark(held[name]) for name in names}

    def check(self) -> None:
        """Refuse a training that changed one of them; only what was written to is read again."""
        held = tensors_of(self.module)
        for name in self.names:
            if name not in held or mark(held[name]) == self.marks[name]:
                continue
            if _sum(held[name]) != self.sums[name]:
                raise UserError(
                    f"{type(self.module).__name__} changes {name} in training later than in the first two steps, so it "
                    "would not travel: what trains must require gradients from the start"
                )
            self.marks[name] = mark(held[name])


def mark(tensor: Tensor) -> tuple[int, int]:
    """Return what differs when a tensor was written to."""
    return tensor.data_ptr(), tensor._version


def _sum(tensor: Tensor) -> int:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return zlib.crc32(flat.view(torch.uint8).numpy().data) if flat.numel() else 0
