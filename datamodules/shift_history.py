"""How a shift unfolds over its events."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flcluster import seeds

from .looks import Look
from .shifts import Shift, States
from .timeline import Ints

NEVER = np.iinfo(np.int64).min


class ShiftHistory:
    """A shift unrolled over its events, for all clients at once; only the states last asked for are kept.

    Args:
        shift: The shift.
        num_clients: Number of clients.
        num_classes: Number of classes.
        seed: Seed of the draws of every event.
        held: Gives the true training label counts ``[n, num_classes]`` of some clients at a round.
    """

    KEPT = 4

    def __init__(
        self, shift: Shift, num_clients: int, num_classes: int, seed: int, held: Callable[[Ints, int], Ints]
    ) -> None:
        self.shift, self.events = shift, shift.events
        self.num_clients, self.seed, self.held = num_clients, seed, held
        self._first = shift.first(num_clients, num_classes, seeds.rng(seed, "shift start"))
        self._kept: dict[int, tuple[States, Ints]] = {}

    def states(self, cycle: int) -> States:
        """Return the state of every client at a round."""
        return self._after(int(np.searchsorted(self.events, cycle, side="right")))[0]

    def since(self, cycle: int) -> Ints:
        """Return, for every client, the last event up to a round that changed its state; NEVER if there was none."""
        return self._after(int(np.searchsorted(self.events, cycle, side="right")))[1]

    def changed(self, event: int) -> NDArray[np.bool_]:
        """Mark the clients whose state an event changes."""
        if event not in self.events:
            return np.zeros(self.num_clients, dtype=bool)
        return self.since(event) == event

    def look(self, client: int, cycle: int) -> Look:
        """Return how a client sees its samples at a round."""
        return self.shift.look(self.states(cycle)[client])

    def _after(self, count: int) -> tuple[States, Ints]:
        """Return the states after some events and when they last changed, unrolled from the latest that are kept."""
        at = max((n for n in self._kept if n <= count), default=0)
        found = self._kept.pop(at, (self._first, np.full(self.num_clients, NEVER)))
        if at < count:
            self._kept[at] = found
        while at < count:
            states = self._next(found[0], at)
            found = states, np.where((states != found[0]).any(axis=1), self.events[at], found[1])
            at += 1
        self._kept[count] = found  # last in the dictionary: last to be forgotten
        while len(self._kept) > self.KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    def _next(self, states: States, number: int) -> States:
        rng = seeds.rng(self.seed, "shift event", number)
        chosen = np.sort(rng.permutation(self.num_clients)[: round(self.shift.share * self.num_clients)])
        after = states.copy()
        after[chosen] = self.shift.moved(states[chosen], self.held(chosen, int(self.events[number])), rng)
        return after
