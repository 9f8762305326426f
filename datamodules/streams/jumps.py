"""Clients that jump between ways of seeing which a user names."""

from dataclasses import dataclass

import numpy as np
import torch

from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

from .looks import Look
from .named_looks import Named, look_named
from .shifts import Shift, States


@dataclass(frozen=True)
class ShiftDrift(Shift):
    """Clients jump to another of some ways of seeing their samples; everyone starts with the first.

    Args:
        shifts: Ways of seeing, by name (``none``, ``rot90``, ``swap0-1``, …) or as functions of a sample.
    """

    shifts: tuple[Named, ...] = ("none", "rot90", "rot180", "rot270")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shifts) < 2:
            raise UserError(f"data.shift.shifts is {self.shifts}: give two or more to jump between")

    def first(self, num_clients: int, num_classes: int, rng: np.random.Generator) -> States:
        """Start everyone with the first; a state is the number of a way, and the label it shows for each."""
        return self._states(np.zeros(num_clients, dtype=np.int64), num_classes)

    def moved(self, states: States, held: Ints, rng: np.random.Generator) -> States:
        """Jump to another."""
        now = states[:, 0]
        return self._states((now + rng.integers(1, len(self.shifts), len(now))) % len(self.shifts), states.shape[1] - 1)

    def look(self, state: States) -> Look:
        """See everything in the way of that number."""
        return look_named(self.shifts[int(state[0])], len(state) - 1)

    def seen_labels(self, states: States) -> Ints | None:
        """Return the labels shown, where any way changes them."""
        found = states[:, 1:].astype(np.int64)
        plain = all(look_named(name, found.shape[1]).labels is None for name in self.shifts)
        return None if plain else found

    def _states(self, number: Ints, num_classes: int) -> States:
        looks = [look_named(name, num_classes) for name in self.shifts]
        same = torch.arange(num_classes)
        labels = torch.stack([same if look.labels is None else look.labels for look in looks])
        return np.concatenate([number[:, None], labels.numpy()[number]], axis=1)
