"""Decentralized Federated Averaging with momentum (DFedAvgM; Sun et al., 2021): one model, no clusters."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.protocol.outcome import Round, Served

from .base import GossipRounds, GossipState, between, degrees
from .mixing import metropolis, mix_rows


@dataclass(frozen=True, kw_only=True)
class DFedAvgM(GossipRounds[GossipState]):
    """Each client trains its one model with heavy-ball momentum, then averages it with its neighbours'.

    x_i ← Σ_l w_il z_l with Metropolis weights: symmetric and doubly stochastic on any graph.
    """

    paper: ClassVar[str] = "Sun et al., 2021"

    momentum: float = 0.9
    """θ: momentum of local training, which begins anew every round; the model's optimiser must be SGD.

    The default is our choice: DFCA's paper compares itself with DFedAvgM and does not state θ, which decides who is
    ahead on MNIST. In five steps along one gradient θ = 0.9 goes 13.1 times the learning rate, 0.5 goes 8.1, and 0,
    like DFCA itself, 5.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise UserError(f"algorithm.momentum must be in [0, 1), got {self.momentum}")

    @property
    def title(self) -> str:
        """DFedAvgM, and θ where it is not the default: runs with different θ are no repeats of each other."""
        usual = DFedAvgM.momentum
        return "DFedAvgM" if self.momentum == usual else f"DFedAvgM (θ = {self.momentum:g})"

    def init(self, fed: Federation) -> GossipState:
        """Give every client one model."""
        self.fill(fed, fed.init_rows(1))
        return GossipState(torch.full((fed.data.num_clients,), -1))

    def step(self, state: GossipState, t: int, fed: Federation) -> tuple[GossipState, Round]:
        """Train, then average with the neighbours."""
        table = self.models(fed)
        cohort, links = self.meet(t, fed)
        clients = cohort.clients
        jobs = (replace(self.job(m, table[m], t, fed), momentum=self.momentum) for m in clients)
        results = self.train(jobs, clients, fed)
        used = between(links, [result.client for result in results if result.usable])
        mix_rows(table, metropolis(used))
        labels = state.labels.clone()
        labels[clients] = 0
        sent, isolated = degrees(used, clients), degrees(links, clients).count(0)
        state = replace(state, labels=labels, messages=state.messages + sum(sent), isolated=isolated)
        return state, Round(cohort, results, table, clients, uploads=sent, downloads=sent)

    def served(self, state: GossipState, t: int, fed: Federation) -> Served:
        """Every client uses its own model."""
        held = fed.data.holds(t)
        return Served(self.models(fed), np.where(held, 0, -1), np.where(held, np.arange(len(held)), -1))

    def own_row(self, state: GossipState, client: int) -> tuple[str, int]:
        """Return where a client's model lies."""
        return "models", client
