"""What methods without a server share: who meets whom in a round, and models that live with the clients."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from torch import Tensor

from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained
from flcluster.protocol.participation import Cohort, Load
from flcluster.protocol.rounds import RoundAlgorithm
from flcluster.topology.base import Topology, edge_table
from flcluster.topology.families import ErdosRenyi

from .mixing import disagreement

S = TypeVar("S", bound="GossipState")


@dataclass(frozen=True, eq=False)
class GossipState:
    """What all methods without a server remember; the models are in a table."""

    labels: Tensor
    """The cluster whose model each client trained last, ``[N]``; −1: never."""
    each: int = 1
    """Models that each client keeps."""
    messages: int = 0
    """Models sent so far."""
    isolated: int = 0
    """Participants of the last round without a neighbour."""


@dataclass(frozen=True, kw_only=True)
class GossipRounds(RoundAlgorithm[S]):
    """Rounds without a server: clients train, send their models to their neighbours and average what they receive."""

    topology: Topology = field(default_factory=ErdosRenyi)
    """Who is a neighbour of whom."""
    initialisation: Literal["global", "local"] = "global"
    """global: all clients begin with the same models (GI); local: each with random models of its own (LI)."""
    overcommit: float = 1.0
    """Clients asked per client needed where devices are simulated. 1: nobody asks for more than it needs."""

    extra_names: ClassVar[tuple[str, ...]] = ("messages", "isolated", "disagreement")

    def per_client(self, fed: Federation) -> int:
        """Return how many models a client keeps."""
        return 1

    def models(self, fed: Federation) -> Table:
        """Return all clients' models; client i's model of cluster j is row i · k + j."""
        return fed.table("models", self.per_client(fed))

    def fill(self, fed: Federation, first: Tensor) -> None:
        """Give every client its first models: the k given ones, or random ones of its own."""
        table, k, N = self.models(fed), len(first), fed.data.num_clients
        alone = N - len(np.unique(self.topology.edges(N, 0, fed.seed)))  # also: refuse a graph that cannot be
        if alone:
            fed.note(
                f"{alone} of {N} clients have no neighbour (algorithm.topology.connected=true draws another graph)"
            )
        for client in range(N):
            rows = first if self.initialisation == "global" else fed.init_rows(k, first=client * k)
            for j in range(k):
                table[client * k + j] = rows[j]
            if self.initialisation == "local" and client % 50 == 49:
                fed.note(f"first models of {client + 1} of {N} clients")

    # a round ----------------------------------------------------------------------------------------------------

    def available(self, t: int, fed: Federation) -> NDArray[np.int64]:
        """Return the clients that hold data and have not dropped out of this round."""
        clients = super().available(t, fed)
        return clients[self.topology.online(fed.data.num_clients, t, fed.seed)[clients]]

    def meet(
        self, t: int, fed: Federation, idle: Sequence[int] = (), forwards: float = 0.0
    ) -> tuple[Cohort, csr_array]:
        """Draw this round's clients and return them with the links over which they hear; others never average.

        Args:
            t: The round.
            fed: The federation.
            idle: Clients that are heard even if they do not take part; without them only participants send.
            forwards: Passes of each participant over its training samples besides training.
        """
        links, asked = self.topology.links(fed.data.num_clients, t, fed.seed), self.drawn(t, fed)
        hears = heard_by(links, asked.tolist(), idle)
        sends = np.diff(between(links, asked.tolist()).indptr).astype(np.float64)
        load = Load(np.diff(hears.indptr).astype(np.float64), sends, forwards)
        cohort = self.race(asked, self.wanted(fed), t, fed, load)
        return cohort, heard_by(links, cohort.clients, idle)

    def train(self, jobs: Iterable[Job], places: Iterable[int], fed: Federation) -> list[Trained]:
        """Train jobs and write the usable results into their rows of the table; return them without their rows."""
        table, training = self.models(fed), fed.train(jobs)
        for trained, place in zip(training, places, strict=True):
            if trained.usable:
                table[place] = trained.row
        return training.results

    def newcomers(self, state: S, clients: Sequence[int], t: int, fed: Federation) -> Iterator[Tensor]:
        """Let each ask its neighbours that take part in training, and average what they hold of every model.

        It then takes the mean that fits its data best. Without such a neighbour it is left with its first models.
        """
        table, k, trained = self.models(fed), self.per_client(fed), set(fed.data.participants.tolist())
        links = self.topology.links(fed.data.num_clients, t, fed.seed)
        for client in clients:
            heard = [m for m in links[[client]].indices.tolist() if m in trained] or [client]
            means = [torch.stack([table[m * k + j].to(fed.device) for m in heard]).mean(0) for j in range(k)]
            view = fed.shard(client, t).train
            losses = [fed.loss(mean, view) for mean in means] if k > 1 and len(view) else [0.0]
            yield means[losses.index(min(losses))]

    def measures(self, state: S, t: int, fed: Federation) -> dict[str, float]:
        """Say how far clients' copies of a model are apart, and what was sent."""
        k = self.per_client(fed)
        apart = disagreement(self.models(fed), fed.data.num_clients, k, fed.layout.num_parameters)
        return {"messages": float(state.messages), "isolated": float(state.isolated), "disagreement": apart}

    def files(self, state: S, position: int, fed: Federation) -> dict[str, str | bytes]:
        """Leave the first and the last graph behind."""
        rounds = [0] if self.topology.redraw is None or not self.topology.chance else sorted({0, max(position - 1, 0)})
        return {"edges.csv": edge_table(self.topology, fed.data.num_clients, rounds, fed.seed)}


def heard_by(links: csr_array, clients: Sequence[int], idle: Sequence[int] = ()) -> csr_array:
    """Return the links over which clients hear each other and the idle: row i has whom i hears, and the idle none."""
    hears, speaks = np.zeros(links.shape[0]), np.zeros(links.shape[0])
    hears[list(clients)] = 1
    speaks[[*clients, *idle]] = 1
    kept = csr_array(diags_array(hears) @ links @ diags_array(speaks)).astype(np.int64)
    kept.eliminate_zeros()
    return kept


def between(links: csr_array, clients: list[int]) -> csr_array:
    """Return the links whose two ends both take part."""
    return heard_by(links, clients)


def degrees(links: csr_array, clients: list[int]) -> list[int]:
    """Return the number of neighbours of some clients."""
    found: list[int] = np.diff(links.indptr)[clients].tolist()
    return found
