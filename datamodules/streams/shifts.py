"""What changes in how clients see their data: rotation, corruption and label swaps, at rounds of their own."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError, at_least, probability

from .looks import CORRUPTIONS, Look

States = NDArray[Any]
"""One row per client; what the columns mean is the shift's own."""


@dataclass(frozen=True)
class Shift(ABC):
    """A change of view that comes over clients at certain rounds, on top of whatever arrives.

    A shift holds hyper-parameters only. It says how every client starts (:meth:`first`), how an event changes a share
    of them (:meth:`moved`), and what a client's state looks like (:meth:`look`); a
    ``ShiftHistory`` unrolls it. Training and test samples, held and new, are seen alike.

    Args:
        share: Share of clients that each event changes, drawn anew each time.
        gap: Rounds between events.
        times: Number of events.
        at: The rounds of the events, instead of ``gap`` and ``times``.
    """

    share: float = 0.5
    gap: int = 30
    times: int = 100
    at: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        probability("share", self.share, "data.shift.")
        at_least("gap", self.gap, 1, "data.shift.")
        at_least("times", self.times, 1, "data.shift.")
        if self.at is not None and (min(self.at, default=0) < 1 or sorted(set(self.at)) != list(self.at)):
            raise UserError(f"data.shift.at is {self.at}: give rounds above 0 in ascending order")

    @property
    def events(self) -> Ints:
        """The rounds at which views change, ascending."""
        return np.arange(1, self.times + 1) * self.gap if self.at is None else np.array(self.at, dtype=np.int64)

    @abstractmethod
    def first(self, num_clients: int, num_classes: int, rng: np.random.Generator) -> States:
        """Return how every client starts."""

    @abstractmethod
    def moved(self, states: States, held: Ints, rng: np.random.Generator) -> States:
        """Return the states of the clients that an event changes; ``held`` is their true label counts."""

    @abstractmethod
    def look(self, state: States) -> Look:
        """Return what one client's state looks like."""

    def seen_labels(self, states: States) -> Ints | None:
        """Return the label shown for each true label, ``[n, num_classes]``; None if labels stay true."""
        return None


@dataclass(frozen=True)
class RotationDrift(Shift):
    """Images turn: a jump to another of some angles, or a step further at each event.

    Args:
        angles: What a sudden jump chooses from; everyone starts at the first.
        step: Degrees that a gradual turn goes on at each event, instead of jumps.
    """

    angles: tuple[float, ...] = (0.0, 90.0, 180.0, 270.0)
    step: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is None and len({angle % 360 for angle in self.angles}) < max(2, len(self.angles)):
            raise UserError(f"data.shift.angles is {self.angles}: give two or more different angles to jump between")

    def first(self, num_clients: int, num_classes: int, rng: np.random.Generator) -> States:
        """Start everyone upright, or at the first angle."""
        return np.full((num_clients, 1), 0.0 if self.step is not None else self.angles[0])

    def moved(self, states: States, held: Ints, rng: np.random.Generator) -> States:
        """Turn on by a step, or jump to another angle."""
        if self.step is not None:
            return (states + self.step) % 360
        angles = np.array(self.angles)
        now = np.argmin(np.abs(states - angles), axis=1)
        turned: States = angles[(now + rng.integers(1, len(angles), len(states))) % len(angles)][:, None]
        return turned

    def look(self, state: States) -> Look:
        """See everything turned."""
        return Look(angle=float(state[0]))


@dataclass(frozen=True)
class CorruptionDrift(Shift):
    """Images lose contrast, brighten, blur or get noisy: a jump to another kind, or a kind that grows worse.

    Args:
        kinds: Corruptions to choose from: contrast, brightness, blur, noise.
        severity: Severity after a jump, above 0 and up to 1; where a gradual one ends.
        step: By how much severity grows at each event, instead of jumps; a client keeps its first kind.
    """

    kinds: tuple[str, ...] = CORRUPTIONS
    severity: float = 0.6
    step: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kinds or set(self.kinds) - set(CORRUPTIONS):
            raise UserError(f"data.shift.kinds is {self.kinds}: choose from {', '.join(CORRUPTIONS)}")
        if not 0 < self.severity <= 1 or (self.step is not None and self.step <= 0):
            raise UserError("data.shift.severity must be above 0 and up to 1, and data.shift.step above 0")

    def first(self, num_clients: int, num_classes: int, rng: np.random.Generator) -> States:
        """Start with clean images; the kind is drawn already."""
        return np.stack([rng.integers(len(self.kinds), size=num_clients), np.zeros(num_clients)], axis=1)

    def moved(self, states: States, held: Ints, rng: np.random.Generator) -> States:
        """Grow worse, or jump to a kind other than the present."""
        kind, severity = states.T
        if self.step is not None:
            return np.stack([kind, np.minimum(severity + self.step, self.severity)], axis=1)
        on = rng.integers(min(1, len(self.kinds) - 1), max(2, len(self.kinds)), len(states))
        jumped = np.where(severity > 0, (kind + on) % len(self.kinds), kind)
        return np.stack([jumped, np.full(len(states), self.severity)], axis=1)

    def look(self, state: States) -> Look:
        """See everything corrupted."""
        return Look(corruption=self.kinds[int(state[0])], severity=float(state[1]))


@dataclass(frozen=True)
class LabelSwaps(Shift):
    """Concept drift: at each event a share of clients each swap two labels for good; swaps accumulate.

    The two labels are drawn from those among a client's training samples at that round, where it has two.

    Args:
        pairs: The pairs to draw from instead, if given: few pairs make few concepts.
    """

    pairs: tuple[tuple[int, int], ...] | None = None

    def first(self, num_clients: int, num_classes: int, rng: np.random.Generator) -> States:
        """Start with true labels."""
        for a, b in self.pairs or ():
            if not (0 <= a < num_classes and 0 <= b < num_classes and a != b):
                raise UserError(f"data.shift.pairs has {(a, b)}: give two different labels below {num_classes}")
        return np.tile(np.arange(num_classes, dtype=np.int32), (num_clients, 1))

    def moved(self, states: States, held: Ints, rng: np.random.Generator) -> States:
        """Let two labels change places."""
        if states.shape[1] < 2:
            return states
        if self.pairs:
            pair = np.array(self.pairs)[rng.integers(len(self.pairs), size=len(states))]
        else:
            liking = rng.random(states.shape) + (held > 0)
            pair = np.argpartition(-liking, 1, axis=1)[:, :2]
        swapped = states.copy()
        np.put_along_axis(swapped, pair, np.take_along_axis(states, pair[:, ::-1], axis=1), axis=1)
        return swapped

    def look(self, state: States) -> Look:
        """See samples under swapped labels."""
        return Look(labels=torch.from_numpy(state.astype(np.int64)))

    def seen_labels(self, states: States) -> Ints | None:
        """Return the permutations."""
        return states.astype(np.int64)


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
        changed: NDArray[np.bool_] = self.since(event) == event
        return changed

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
