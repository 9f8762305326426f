"""FedSPD: soft clustering for personalised decentralised federated learning (Lin et al., 2025), a re-implementation.

Written from the paper's description and its published code; where they differ, the paper is followed: a client draws
the cluster it trains from its own shares. The published alignment of cluster indices minimises a similarity, which
looks like a slip: here it is maximised.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.algorithm import at_least
from flcluster.choosing import number_of_models
from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation import Federation
from flcluster.gossip import mix_rows, neighbour_means
from flcluster.rounds import Round, Served
from flcluster.seeds import rng
from flcluster.worker import Job

from .alignment import align
from .gossip_rounds import GossipRounds, GossipState, degrees


@dataclass(frozen=True, eq=False)
class SoftState(GossipState):
    """Whether the personalised models are made."""

    tuned: bool = False


@dataclass(frozen=True, kw_only=True)
class FedSPD(GossipRounds[SoftState]):
    """Each client keeps k models and a cluster for each of its *samples*; its own model mixes the k by its shares.

    In a round a client draws a cluster s from its shares u_i, trains its model s on the samples of s and averages it
    with the neighbours that drew s too; a sample belongs to the model with the smallest loss. In the first round all
    clients train all models, on a random division of their samples. After the last round each client's own model is
    Σ_s u_is c_is, trained for a few epochs on all its samples.
    """

    num_clusters: int | None = None
    """k: number of models per client; the data's number of clusters if not given."""
    min_samples: int = 10
    """A cluster with fewer of a client's samples borrows as many from the client's largest."""
    align_every: int = 10
    """Rounds between two alignments of the clients' cluster indices, which look at all clients; 0: never."""
    tune_epochs: int = 5
    """Epochs of the last training of each client's own model."""
    tune_lr: float = 0.5
    """Factor on the learning rate of the last training."""

    state_type: ClassVar[type] = SoftState
    named_clusters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("num_clusters", 1), ("min_samples", 0), ("align_every", 0), ("tune_epochs", 0)):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least)
        if not self.tune_lr > 0:
            raise UserError(f"algorithm.tune_lr must be above 0, got {self.tune_lr}")

    def per_client(self, fed: Federation) -> int:
        """Return k."""
        return number_of_models(self.num_clusters, fed)

    def init(self, fed: Federation) -> SoftState:
        """Give every client k models."""
        k = self.per_client(fed)
        self.fill(fed, fed.init_rows(k))
        return SoftState(torch.full((fed.data.num_clients,), -1), each=k)

    def step(self, state: SoftState, t: int, fed: Federation) -> tuple[SoftState, Round]:
        """Divide the samples, train, average, and now and then align."""
        table, k = self.models(fed), self.per_client(fed)
        cohort, links = self.meet(t, fed, forwards=k)
        plan = list(self._plan(cohort.clients, t, fed))
        places = [client * k + s for client, s, _ in plan]
        jobs = (
            replace(self.job(client, table[client * k + s], t, fed), view=view, purpose=f"train {s}")
            for client, s, view in plan
        )
        trained = self.train(jobs, places, t, fed)
        sent = np.zeros((fed.data.num_clients, k), dtype=np.bool_)
        for (client, s, _), result in zip(plan, trained, strict=True):
            sent[client, s] = result.seen["usable"]
        mix_rows(table, neighbour_means(links, sent, receive=sent))
        if self.align_every and (t + 1) % self.align_every == 0:
            align(table, fed.data.num_clients, k)
        last = t + 1 == self.rounds
        if last:
            self._personalise(t, fed)
        now = state.labels.clone()
        for client, s, _ in plan:
            now[client] = s
        neighbours = dict(zip(cohort.clients, degrees(links, cohort.clients), strict=True))
        uploads = [neighbours[c] * int(r.seen["usable"]) for (c, _, _), r in zip(plan, trained, strict=True)]
        heard = links @ sent.astype(np.int64)
        state = replace(state, labels=now, tuned=last, messages=state.messages + sum(uploads))
        return replace(state, isolated=list(neighbours.values()).count(0)), Round(
            trained,
            row_of=lambda i: self._own(state, plan[i][0], t, fed),
            labels=[s for _, s, _ in plan],
            upload_models=uploads,
            download_models=[int(heard[client, s]) for client, s, _ in plan],
            forwards_of=lambda i: k * fed.data.size(plan[i][0], t),
            seconds=cohort.seconds,
            lost=cohort.lost,
        )

    def _plan(self, clients: list[int], t: int, fed: Federation) -> Iterator[tuple[int, int, View]]:
        """Yield what is trained: client, cluster and the client's samples of that cluster."""
        k = self.per_client(fed)
        for client, division in zip(clients, self._divisions(clients, t, fed), strict=True):
            draw = rng(fed.seed, "cluster", client, t)
            if t == 0:
                division = draw.choice(k, size=len(division), p=draw.dirichlet(np.ones(k)))
            shares = np.bincount(division, minlength=k) / len(division)
            view = fed.data.shard(client, t).train
            for s in range(k) if t == 0 else [int(draw.choice(k, p=shares))]:
                yield client, s, view.where(torch.from_numpy(borrowed(division, s, self.min_samples, draw)))

    def _divisions(self, clients: list[int], t: int, fed: Federation) -> list[NDArray[np.int64]]:
        """Return the cluster of every training sample of some clients: the model with the smallest loss."""
        table, k = self.models(fed), self.per_client(fed)
        views = [fed.data.shard(client, t).train for client in clients]
        owners = fed.ranks.balance([len(view) for view in views])
        mine = {}
        for i, view in enumerate(views):
            if owners[i] == fed.ranks.rank:
                rows = (table[clients[i] * k + j].to(fed.device) for j in range(k))
                mine[i] = torch.stack([fed.worker.per_sample(row, view)[0] for row in rows]).argmin(0).cpu().numpy()
        return fed.ranks.collect(mine, len(views))

    # personalised models ----------------------------------------------------------------------------------------

    def _mixed(self, client: int, division: NDArray[np.int64], fed: Federation) -> Tensor:
        """Return Σ_s u_is c_is."""
        k, table = self.per_client(fed), self.models(fed)
        shares = np.bincount(division, minlength=k) / len(division)
        return torch.stack([table[client * k + s] * float(shares[s]) for s in range(k)]).sum(0)

    def _personalise(self, t: int, fed: Federation) -> None:
        """Make every client's own model: its mixture, trained on all its samples."""
        clients = np.flatnonzero(fed.data.sizes(t)).tolist()
        table = fed.table("personal")
        mixed = (self._mixed(c, d, fed) for c, d in zip(clients, self._divisions(clients, t, fed), strict=True))
        for client, row in zip(clients, mixed, strict=True):
            table[client] = row
        if self.tune_epochs == 0:
            return
        jobs = (
            Job(client, table[client], fed.data.shard(client, t).train, self.tune_epochs, self.batch_size)
            for client in clients
        )
        factor = self.tune_lr * self.lr_decay**t
        for done in fed.train(replace(job, purpose="tune", lr_factor=factor) for job in jobs):
            table[done.client] = done.row

    def _own(self, state: SoftState, client: int, t: int, fed: Federation) -> Tensor:
        """Return a client's own model as it is now."""
        if state.tuned:
            return fed.table("personal")[client]
        return self._mixed(client, self._divisions([client], t, fed)[0], fed)

    def served(self, state: SoftState, t: int, fed: Federation) -> Served:
        """Every client uses its own model; its cluster is the one of most of its samples."""
        clients = np.flatnonzero(fed.data.sizes(t))
        divisions = dict(zip(clients.tolist(), self._divisions(clients.tolist(), t, fed), strict=True))
        labels = np.full(fed.data.num_clients, -1, dtype=np.int64)
        for client, division in divisions.items():
            labels[client] = np.bincount(division).argmax()
        own = np.where(labels < 0, -1, np.arange(len(labels)))
        if state.tuned:
            return Served(fed.table("personal"), labels, own)
        return Served(_Mixtures(len(labels), lambda client: self._mixed(client, divisions[client], fed)), labels, own)


@dataclass(frozen=True, eq=False)
class _Mixtures:
    """Rows that are mixed when they are asked for."""

    count: int
    make: Callable[[int], Tensor]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return self.make(index)


def borrowed(division: NDArray[np.int64], s: int, least: int, draw: np.random.Generator) -> NDArray[np.bool_]:
    """Return which samples train cluster s: its own, and if these are too few ``least`` of the largest cluster's."""
    mask = division == s
    if mask.sum() < least:
        largest = np.bincount(division).argmax()
        pool = np.flatnonzero((division == largest) & ~mask)
        mask[draw.choice(pool, size=min(least, len(pool)), replace=False)] = True
    return mask
