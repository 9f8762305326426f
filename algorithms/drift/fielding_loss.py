"""FIELDING that also re-clusters when clients' training losses rise: for drift that their reports do not show."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Trained
from flcluster.protocol.base import at_least
from flcluster.protocol.outcome import Round

from .fielding import Fielding, FieldingState
from .reassign import Ids


@dataclass(frozen=True, eq=False)
class WatchedState(FieldingState):
    """Adds what clients remember of their training."""

    losses: Tensor
    """Each client's training loss when it last took part, ``[N]``; NaN: not since it reported a change or all were
    re-clustered."""


@dataclass(frozen=True, kw_only=True)
class LossTriggeredFielding(Fielding):
    """FIELDING whose clients track their training loss and ask for re-clustering when it rises from round to round.

    The paper names this (section 2.1) for concept drift that label histograms do not show, without a threshold. A
    client compares the mean training loss of a round with that of the round in which it last took part; both a report
    of a change and a re-clustering explain a rise, so that it begins anew then. Who asks reports anew, too.
    """

    rise: float = 0.5
    """By how much a client's training loss must have risen; our choice, the paper's words are 0: any rise."""

    state_type: ClassVar[type] = WatchedState
    extra_names: ClassVar[tuple[str, ...]] = (*Fielding.extra_names, "requests")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("rise", self.rise, 0)

    def init(self, fed: Federation) -> WatchedState:
        """Nobody has trained yet."""
        losses = torch.full((fed.data.num_clients,), torch.nan, dtype=torch.float64)
        return WatchedState(**vars(super().init(fed)), losses=losses)

    def learn(self, state: FieldingState, t: int, done: Round, fed: Federation) -> tuple[FieldingState, Round]:
        """Let those whose loss rose ask for re-clustering."""
        assert isinstance(state, WatchedState)
        losses, risen = watched(state.losses, done.results, self.rise)
        state = replace(state, losses=losses)
        if len(risen):
            state, seconds = self.requested(state, risen, t, fed)
            done = replace(done, cohort=done.cohort.delayed(seconds))
        return super().learn(state, t, done, fed)

    def requested(self, state: WatchedState, clients: Ids, t: int, fed: Federation) -> tuple[FieldingState, float]:
        """Let some clients report anew; then all are re-clustered, unless that is never done."""
        points = torch.from_numpy(self.representation.of(clients, t, state.shared, fed))
        waited = self.reporting_seconds(clients, state, t, fed)
        began = time.perf_counter()
        reports, pending = state.reports.clone(), state.pending.clone()
        reports[clients], pending[clients] = points, False
        counts = {**state.counts, "requests": state.counts["requests"] + len(clients)}
        asked = self if self.recluster == "never" else replace(self, recluster="always")
        after = asked.event(replace(state, reports=reports, pending=pending, counts=counts), clients, t, fed)
        return self.counted(after, clients, len(clients), t, fed, time.perf_counter() - began), waited

    def event(self, state: FieldingState, drifted: Ids, t: int, fed: Federation) -> FieldingState:
        """Forget the losses that what happened explains."""
        after = super().event(state, drifted, t, fed)
        assert isinstance(after, WatchedState)
        losses = after.losses.clone()
        losses[slice(None) if after.fired else drifted] = torch.nan
        return replace(after, losses=losses)


def watched(losses: Tensor, trained: Sequence[Trained[Any]], rise: float) -> tuple[Tensor, Ids]:
    """Compare participants' training losses with the last ones; return the new ones and who has a rise, ascending.

    Args:
        losses: Each client's last training loss, ``[N]``; NaN: none to compare with.
        trained: A round's results; those that were not trained or are not finite tell nothing.
        rise: By how much a loss must have risen.

    Example:
        >>> seen = [Trained(m, torch.zeros(1), 1, 1, loss) for m, loss in ((0, 0.75), (1, 2.0))]
        >>> watched(torch.tensor([0.25, torch.nan]), seen, 0.3)
        (tensor([0.7500, 2.0000]), array([0]))
    """
    new, risen = losses.clone(), []
    for result in trained:
        if result.usable:
            new[result.client] = result.loss
            if result.loss - float(losses[result.client]) > rise:
                risen.append(result.client)
    return new, np.array(sorted(risen), dtype=np.int64)
