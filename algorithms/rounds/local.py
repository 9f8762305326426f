"""No collaboration, in rounds: every client trains its own model from one common initialisation, dropouts too."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.federation.federation import Federation
from flcluster.protocol.budget import WithData
from flcluster.protocol.outcome import OwnOrCommon, Round, Served, own_or_common
from flcluster.protocol.rounds import RoundAlgorithm


@dataclass(frozen=True, eq=False)
class LocalRoundsState:
    """What every client starts from, and who has trained; the models are in a table."""

    initial: Tensor
    """``[1, P]``"""
    trained: Tensor
    """Whether each client has a model of its own, bool ``[N]``."""


@dataclass(frozen=True, kw_only=True)
class LocalRounds(RoundAlgorithm[LocalRoundsState]):
    """Clients go on with their own models round by round; nothing is sent."""

    @property
    def title(self) -> str:
        """The papers' name."""
        return "Local"

    def init(self, fed: Federation) -> LocalRoundsState:
        """One random model for all."""
        return LocalRoundsState(fed.init_rows(1), torch.zeros(fed.data.num_clients, dtype=torch.bool))

    def wanted(self, fed: WithData) -> int:
        """Return how many clients a round trains; training alone, dropouts count too."""
        able = fed.data.num_clients - len(fed.data.newcomers)
        return self.participants or max(1, round(self.participation * able))

    def available(self, t: int, fed: Federation) -> NDArray[np.int64]:
        """Return the clients that hold training data and are online: who has dropped out can still train alone."""
        held, late = fed.data.with_samples(t), fed.data.newcomers
        return self.online(np.setdiff1d(held, late) if len(late) else held, fed)

    def step(self, state: LocalRoundsState, t: int, fed: Federation) -> tuple[LocalRoundsState, Round]:
        """Train each client on its own data."""
        own, cohort = fed.table("own"), self.select(t, fed, downloads=0, uploads=0)
        models, started = OwnOrCommon(state.initial[0], own), state.trained.clone()
        training = fed.train(self.job(m, models[(m + 1) * int(state.trained[m])], t, fed) for m in cohort.clients)
        for result in training:
            if result.usable:
                own[result.client] = result.row
                started[result.client] = True
        which = [(m + 1) * int(started[m]) for m in cohort.clients]
        return replace(state, trained=started), Round(cohort, training.results, models, which)

    def served(self, state: LocalRoundsState, t: int, fed: Federation) -> Served:
        """Every client uses its own model, or the first one before it has trained."""
        return own_or_common(state.initial[0], fed.table("own"), state.trained.numpy())

    def newcomers(self, state: LocalRoundsState, clients: Sequence[int], t: int, fed: Federation) -> Iterator[Tensor]:
        """Yield the first model after one round's training on each client's own data."""
        training = fed.train(self.job(client, state.initial[0], t, fed) for client in clients)
        yield from (result.row if result.usable else state.initial[0] for result in training)

    def own_row(self, state: LocalRoundsState, client: int) -> tuple[str, int]:
        """Return where a client's model lies."""
        return "own", client
