"""Oort: guided selection of participants (Lai et al., 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.jobs import Trained

from .selection import Asked, Ids, Memory, Selection


@dataclass(frozen=True)
class Oort(Selection):
    """Utility-guided selection (Lai et al., 2021): clients with large losses first, slow ones at a discount.

    A client's utility is n·√(mean squared loss), its losses those of the model it received on its n training samples
    (at most as many as it trains on).
    """

    exploration: float = 0.9
    """Share of a round that goes to clients never tried, at first."""
    decay: float = 0.98
    """Factor on that share from round to round."""
    floor: float = 0.3
    """Where the decay ends."""
    clip: float = 0.9
    """Utilities above this quantile count as the quantile."""
    cut_off: float = 0.05
    """Clients whose score is at least this share of the last one needed may be drawn."""
    reach: float = 5.0
    """Clients never tried among which one is drawn, for each one needed: those with the most to train on."""
    preferred: float = 30.0
    """Preferred round duration, as a percentile of all clients' durations, at first."""
    pace: float = 5.0
    """By how much the percentile changes when the utility of exploited clients stays flat (up) or jumps (down)."""
    window: int = 20
    """Rounds between such changes."""
    penalty: float = 2.0
    """Exponent of the discount on clients slower than preferred, tried or not."""

    needs_start_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("exploration", "decay", "floor", "clip", "cut_off"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"selection.{name} must be from 0 to 1, got {getattr(self, name)}")
        if not (0 <= self.preferred <= 100 and self.window >= 1 and self.reach >= 1):
            raise UserError(f"selection: preferred is a percentile, window and reach are at least 1, got {self}")

    def start(self, clients: int) -> Memory:
        """Nobody was tried yet."""
        return {
            "utility": torch.full((clients,), torch.nan, dtype=torch.float64),
            "last": torch.zeros(clients, dtype=torch.float64),
            "gained": torch.zeros(0, dtype=torch.float64),
            "percentile": torch.tensor(self.preferred, dtype=torch.float64),
        }

    def pick(self, pool: Ids, count: int, t: int, memory: Memory, look: Asked, draw: np.random.Generator) -> Ids:
        """Exploit the tried clients by score, explore the others by how much they would train on."""
        count = min(count, len(pool))
        tried = ~np.isnan(memory["utility"].numpy()[pool])
        share = max(self.floor, self.exploration * self.decay**t)
        explore = min(round(share * count), int((~tried).sum()))
        exploit = min(count - explore, int(tried.sum()))
        explore = count - exploit
        best = self._exploit(pool[tried], exploit, t, memory, look, draw)
        return np.concatenate([best, self._explore(pool[~tried], explore, memory, look, draw)])

    def _explore(self, pool: Ids, count: int, memory: Memory, look: Asked, draw: np.random.Generator) -> Ids:
        """Draw among the clients with the most to train on (less if slow), ``reach`` times as many as needed."""
        work = look.work(pool) * self.discount(pool, memory, look)
        most = np.argsort(-work, kind="stable")[: round(self.reach * count)]
        return weighted(pool[most], count, work[most], draw)

    def _exploit(self, pool: Ids, count: int, t: int, memory: Memory, look: Asked, draw: np.random.Generator) -> Ids:
        if count == 0:
            return pool[:0]
        score = self.scores(pool, t, memory, look)
        least = self.cut_off * np.sort(score)[-count]
        good = score >= least
        return weighted(pool[good], count, score[good], draw)

    def scores(self, pool: Ids, t: int, memory: Memory, look: Asked) -> NDArray[np.float64]:
        """Score tried clients: normalised utility, a bonus for those long not tried, less for slow ones."""
        utility, last = memory["utility"].numpy()[pool], memory["last"].numpy()[pool]
        clipped = np.minimum(utility, np.quantile(utility, self.clip))
        low = 0.999 * clipped.min()
        score = (clipped - low) / max(utility.max() - low, 1e-4)
        score = score + np.sqrt(0.1 * np.log(t + 1) / np.maximum(last, 1))
        discounted: NDArray[np.float64] = score * self.discount(pool, memory, look)
        return discounted

    def discount(self, pool: Ids, memory: Memory, look: Asked) -> NDArray[np.float64]:
        """Return (T/t)^penalty for clients whose duration t exceeds the preferred one T, 1 for the others.

        T is a percentile of the durations of all clients, not only of the pool's; at the 100th nobody is slow.
        """
        seconds, every = look.seconds(pool), np.sort(look.seconds(np.arange(len(memory["utility"]))))
        wanted = every[min(int(len(every) * float(memory["percentile"]) / 100), len(every) - 1)]
        return np.where(seconds > wanted, (wanted / np.maximum(seconds, 1e-4)) ** self.penalty, 1.0)

    def learn(self, memory: Memory, t: int, trained: Sequence[Trained[Any]], look: Asked) -> Memory:
        """Remember utilities; every ``window`` rounds adjust the preferred duration.

        The pacer looks at a round's mean utility of the clients that were exploited: those that had been tried before.
        """
        clients = np.array([result.client for result in trained], dtype=np.int64)
        square = np.array([result.start_square for result in trained], dtype=np.float64)
        gained = look.work(clients) * np.sqrt(square)
        known = np.isfinite(gained)
        utility, last = memory["utility"].clone(), memory["last"].clone()
        utility[clients[known]] = torch.from_numpy(gained[known])
        last[clients] = t + 1.0
        exploited = gained[known & ~np.isnan(memory["utility"].numpy()[clients])]
        mean = float(exploited.mean()) if len(exploited) else 0.0
        history = torch.cat([memory["gained"], torch.tensor([mean], dtype=torch.float64)])[-2 * self.window :]
        percentile = self.paced(memory["percentile"], history) if (t + 1) % self.window == 0 else memory["percentile"]
        return {"utility": utility, "last": last, "gained": history, "percentile": percentile}

    def paced(self, percentile: Tensor, history: Tensor) -> Tensor:
        """Accept slower clients when utility stays flat (changes by at most 10 %), fewer when it jumps fivefold."""
        if len(history) < 2 * self.window:
            return percentile
        before, now = float(history[: self.window].sum()), float(history[self.window :].sum())
        change = abs(now - before)
        if change <= 0.1 * before:
            return (percentile + self.pace).clamp(max=100.0)
        return (percentile - self.pace).clamp(min=self.pace) if change >= 5 * before else percentile


def weighted(pool: Ids, count: int, weight: NDArray[np.float64], draw: np.random.Generator) -> Ids:
    """Draw ``count`` of ``pool`` without replacement, in proportion to weights."""
    if count == 0:
        return pool[:0]
    weight = np.maximum(weight, 1e-12)
    return draw.choice(pool, count, replace=False, p=weight / weight.sum())
