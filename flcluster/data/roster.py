"""Who there is in a federation: who takes part, who joins later, who holds samples. Asked at every step, so kept."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.seeds import rng

Ids = NDArray[np.int64]


class Roster(ABC):
    """The clients by number. What is asked at every step costs what has changed since, not what is registered."""

    num_clients: int
    seed: int = 0
    unseen: float | None = None
    """Share of the clients that are held out of training and join at the end, to be scored; None: nobody is."""
    always_hold: bool = False
    """Whether every client holds training samples in every cycle, so that nobody needs to be asked."""

    _kept: tuple[object, Ids, Ids] | None = None
    _sizes: tuple[int, Ids] | None = None
    _holding: tuple[int, NDArray[np.bool_]] | None = None

    # who takes part ---------------------------------------------------------------------------------------------

    @property
    def dropouts(self) -> Sequence[int]:
        """Clients that never take part in training, ascending; they still want a model."""
        return ()

    @property
    def participants(self) -> Ids:
        """Clients that take part in training, ascending."""
        return self._parted()[0]

    @property
    def newcomers(self) -> Ids:
        """Clients that are held out of training and join at the end, ascending; drawn of those that would take part."""
        return self._parted()[1]

    def _parted(self) -> tuple[Ids, Ids]:
        """Return participants and newcomers; they are drawn again only if what they depend on has changed."""
        told = self.num_clients, tuple(self.dropouts), self.unseen, self.seed
        if self._kept is None or self._kept[0] != told:
            pool = np.setdiff1d(np.arange(self.num_clients), np.array(self.dropouts, dtype=np.int64))
            late = self._drawn_late(pool)
            self._kept = told, np.setdiff1d(pool, late), late
        return self._kept[1:]

    def _drawn_late(self, pool: Ids) -> Ids:
        if self.unseen is None:
            return np.empty(0, dtype=np.int64)
        count = min(max(1, round(self.unseen * len(pool))), len(pool) - 1)
        if count < 1:
            raise UserError(f"data.unseen={self.unseen} holds a client out of training, but there is one client")
        return np.sort(rng(self.seed, "unseen").choice(pool, size=count, replace=False))

    # who holds what; a round is a cycle ---------------------------------------------------------------------------

    @abstractmethod
    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client, without drawing them."""

    def drifted(self, cycle: int) -> Ids:
        """Return the clients whose data changed at this round, ascending; none at round 0.

        Where a subclass says so, a client that held samples is taken to hold some, and one that held none to hold none,
        until it is named here; otherwise all clients are asked in every cycle.
        """
        return np.empty(0, dtype=np.int64)

    def sizes_of(self, clients: Ids, cycle: int) -> Ids:
        """Return how many training samples some clients hold; nobody else is asked."""
        return np.array([self.size(client, cycle) for client in clients.tolist()], dtype=np.int64)

    def sizes(self, cycle: int) -> Ids:
        """Return how many training samples each client holds; the last answer is kept."""
        if self._sizes is None or self._sizes[0] != cycle:
            self._sizes = cycle, self.sizes_of(np.arange(self.num_clients), cycle)
        return self._sizes[1]

    def with_samples(self, cycle: int) -> Ids:
        """Return the clients that hold training samples, ascending, whether or not they take part."""
        return np.arange(self.num_clients) if self.always_hold else np.flatnonzero(self.holds(cycle))

    def holding(self, cycle: int) -> Ids:
        """Return the clients that take part in training and hold samples, ascending."""
        taking = self.participants
        return taking if self.always_hold else taking[self.holds(cycle)[taking]]

    def holds(self, cycle: int) -> NDArray[np.bool_]:
        """Say of each client whether it holds training samples; of those known before, whoever has drifted is asked."""
        if self.always_hold:
            return np.ones(self.num_clients, dtype=np.bool_)
        if type(self).drifted is Roster.drifted:  # of data that do not tell who changed, everyone is asked
            return self.sizes(cycle) > 0
        at, held = self._holding if self._holding is not None and self._holding[0] <= cycle else (0, self.sizes(0) > 0)
        changed = [self.drifted(t) for t in range(at + 1, cycle + 1)]
        if sum(map(len, changed)):
            some = np.unique(np.concatenate(changed))
            held = held.copy()
            held[some] = self.sizes_of(some, cycle) > 0
        self._holding = cycle, held
        return held
