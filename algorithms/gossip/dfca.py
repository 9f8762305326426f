"""DFCA: Decentralized Federated Clustering Algorithm (Kirch et al., 2025): IFCA without a server."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from scipy.sparse import csr_array

from flcluster.algorithms.rounds.choice import (
    Candidates,
    best_of,
    check_choice,
    first_models,
    ifca_style_accuracy,
    number_of_models,
)
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.protocol.outcome import Round, Served
from flcluster.seeds import rng

from .base import GossipRounds, GossipState, degrees
from .mixing import average_in_turn, mix_rows, neighbour_means


@dataclass(frozen=True, kw_only=True)
class DFCA(GossipRounds[GossipState]):
    """Each client keeps k models, trains the one that fits its data best, and averages what its neighbours trained.

    Algorithm 1 with a barrier: all participants assign and train, then all average the models as they were after
    training, so that batch (Eq. 7) and sequential (Eq. 8) aggregation are the same but for rounding.
    """

    paper: ClassVar[str] = "Kirch et al., 2025"

    num_clusters: int | None = None
    """k: number of models per client; the data's number of clusters if not given."""
    aggregation: Literal["batch", "sequential"] = "batch"
    """batch: one mean over all neighbours; sequential: a running average as messages arrive, in random order."""
    min_share: float = 0.0
    """Global initialisation: draw the first k models again until each attracts this share of clients (IFCA's code:
    0.35 for k = 2, 0.1 for k = 4); 0 takes the first draw."""
    idle_neighbours: bool = False
    """Whether N_ij of Algorithm 1 has neighbours in it that do not take part in a round (another reading of it: they
    still hold θ_mj and their last assignment). True: a participant i also averages, for each of its neighbours m that
    could take part (online, with data) and do not, model c(m) as m holds it, where c(m) is the cluster that m trained
    last; who never trained is in no N_ij. Idle clients still neither train nor average, nobody sends to them, and what
    they send counts as messages and as the receivers' downloads. False: who does not take part neither trains nor sends
    nor averages."""
    ifca_style: bool = False
    """Also measure how good clients are that choose their model by their test loss, as IFCA's code does."""

    printed: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "DFCA-GI": {"initialisation": "global"},
        "DFCA-LI": {"initialisation": "local"},
    }
    named_clusters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_clusters, self.min_share)
        if self.min_share and self.initialisation == "local":
            raise UserError("algorithm.min_share looks at models that all clients share: use initialisation=global")

    @property
    def title(self) -> str:
        """DFCA-GI or DFCA-LI, and whether idle neighbours count: such runs are no repeats of the others."""
        name = f"{type(self).__name__}-{'GI' if self.initialisation == 'global' else 'LI'}"
        return f"{name} (idle neighbours)" if self.idle_neighbours else name

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """Add the accuracy of a choice by test loss, if that is asked for."""
        return (*super().extra_metrics, *(("ifca_style_acc",) if self.ifca_style else ()))

    def per_client(self, fed: Federation) -> int:
        """Return k."""
        return number_of_models(self.num_clusters, fed)

    def init(self, fed: Federation) -> GossipState:
        """Give every client k models: the same k (GI), or its own (LI)."""
        first = first_models(fed, self.per_client(fed), self.min_share, lambda: self.select(0, fed).clients)
        self.fill(fed, first)
        return GossipState(torch.full((fed.data.num_clients,), -1), each=len(first))

    def step(self, state: GossipState, t: int, fed: Federation) -> tuple[GossipState, Round]:
        """Assign, train, average with the neighbours."""
        table, k = self.models(fed), self.per_client(fed)
        cohort, links = self.meet(t, fed, self.idle(state, t, fed), forwards=k)
        cohort = cohort.assigned(self.assign(cohort.clients, t, fed))  # Eq. 4
        places = [client * k + label for client, label in cohort]
        jobs = (self.job(client, table[client * k + label], t, fed) for client, label in cohort)
        results = self.train(jobs, places, fed)  # Eq. 5
        sent = np.zeros((fed.data.num_clients, k), dtype=np.bool_)
        for client in np.setdiff1d(links.indices, cohort.clients).tolist():  # idle, and heard
            sent[client, int(state.labels[client])] = True
        for (client, label), result in zip(cohort, results, strict=True):
            sent[client, label] = result.usable
        self.gossip(links, sent, t, fed)
        labels = state.labels.clone()
        labels[cohort.clients] = torch.tensor(cohort.places, dtype=labels.dtype)
        heard = (links @ sent.any(1).astype(np.int64))[cohort.clients].tolist()
        told = (links.sum(0) * sent.any(1))[cohort.clients].tolist()
        messages, isolated = state.messages + sum(heard), degrees(links, cohort.clients).count(0)
        state = replace(state, labels=labels, messages=messages, isolated=isolated)
        return state, Round(cohort, results, table, places, uploads=told, downloads=heard)

    def idle(self, state: GossipState, t: int, fed: Federation) -> list[int]:
        """Return the clients whose models count even if they do not take part: all that could and trained before."""
        if not self.idle_neighbours:
            return []
        online = self.available(t, fed)
        found: list[int] = online[state.labels.numpy()[online] >= 0].tolist()
        return found

    def assign(self, clients: list[int], t: int, fed: Federation) -> list[int]:
        """Let clients choose the model with the smallest loss on their training data (Eq. 4)."""
        return best_of(fed, self.candidates(fed), clients, t)

    def candidates(self, fed: Federation) -> Candidates:
        """Return what gives the k models that a client keeps."""
        table, k = self.models(fed), self.per_client(fed)
        return lambda client: (table[client * k + j] for j in range(k))

    def gossip(self, links: csr_array, sent: np.ndarray, t: int, fed: Federation) -> None:
        """Average every model with what neighbours sent of it: all at once (Eq. 7), or in order of arrival (Eq. 8)."""
        weights = neighbour_means(links, sent)
        if self.aggregation == "batch":
            mix_rows(self.models(fed), weights)
            return
        row, column = weights.nonzero()
        messages = np.stack([row, column], axis=1)[row != column]
        rng(fed.seed, "arrival of messages", t).shuffle(messages)
        average_in_turn(self.models(fed), [(int(a), int(b)) for a, b in messages])

    # measuring --------------------------------------------------------------------------------------------------

    def served(self, state: GossipState, t: int, fed: Federation) -> Served:
        """Let every client that holds training data choose among its own models."""
        k, N = self.per_client(fed), fed.data.num_clients
        clients = fed.data.with_samples(t)
        labels = np.full(N, -1, dtype=np.int64)
        labels[clients] = self.assign(clients.tolist(), t, fed)
        return Served(self.models(fed), labels, np.where(labels < 0, -1, np.arange(N) * k + labels))

    def measures(self, state: GossipState, t: int, fed: Federation) -> dict[str, float]:
        """Add the accuracy of a choice by test loss, if that is asked for."""
        found = super().measures(state, t, fed)
        if not self.ifca_style:
            return found
        style = ifca_style_accuracy(fed, self.candidates(fed), t)
        return {**found, "ifca_style_acc": style}

    def own_row(self, state: GossipState, client: int) -> tuple[str, int]:
        """Return where a client's model of the cluster it trained last lies."""
        return "models", client * state.each + max(int(state.labels[client]), 0)
