"""FedSPD: soft clustering for personalised decentralised federated learning (Lin et al., 2025), a re-implementation.

Written from the paper's description and its published code; where they differ, the paper is followed: a client draws
the cluster it trains from its own shares. The published alignment of cluster indices minimises a similarity, which
looks like a slip: here it is maximised. Momentum and the decays of the learning rate are the published code's; its
first round of twice the epochs, and its last training that goes through the data ``local_epochs`` times per epoch, are
not followed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from torch import Tensor

from flcluster.algorithms.rounds.choice import number_of_models
from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job
from flcluster.federation.worker import Worker
from flcluster.protocol.base import at_least
from flcluster.protocol.needs import LOSSES
from flcluster.protocol.outcome import Round, Served
from flcluster.seeds import rng

from .base import GossipRounds, GossipState, degrees
from .mixing import mix_rows, neighbour_means

LEAST = {"num_clusters": 1, "min_samples": 0, "align_every": 0, "tune_epochs": 0}


LEAST |= {"decay_every": 1, "tune_decay_every": 1}
"""The smallest values that settings can have."""


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

    needs: ClassVar[tuple[str, ...]] = (LOSSES,)
    paper: ClassVar[str] = "Lin et al., 2025"

    momentum: float | None = 0.5
    """Momentum of all training, which begins anew every round, and in the last training every epoch; the model's
    optimiser must be SGD. Null leaves that as it is. This and the decays of the learning rate are the published code's;
    DFCA's paper states none of them."""
    lr_decay: float = 0.8
    """Factor on the learning rate after every ``decay_every`` rounds (of other methods after every round)."""
    decay_every: int = 5
    """Rounds that are trained at the same learning rate; after so many it is multiplied by ``lr_decay``."""
    num_clusters: int | None = None
    """k: number of models per client; the data's number of clusters if not given."""
    min_samples: int = 10
    """A cluster with fewer of a client's samples borrows as many from the client's largest."""
    align_every: int = 10
    """Rounds between two alignments of the clients' cluster indices, which look at all clients; 0: never."""
    tune_epochs: int = 5
    """Epochs of the last training of each client's own model."""
    tune_lr: float = 0.5
    """Factor on the learning rate of the last training, which begins at this share of the model's, decayed or not."""
    tune_decay: float = 0.8
    """Factor on the learning rate of the last training after every ``tune_decay_every`` epochs."""
    tune_decay_every: int = 3
    """Epochs of the last training at the same learning rate."""

    named_clusters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in LEAST.items():
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least)
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise UserError(f"algorithm.momentum must be in [0, 1), got {self.momentum}")
        for name in ("tune_lr", "tune_decay"):
            if not getattr(self, name) > 0:
                raise UserError(f"algorithm.{name} must be above 0, got {getattr(self, name)}")

    @property
    def title(self) -> str:
        """FedSPD, and what of its training is not the published code's: such runs are no repeats of the others."""
        theta = "the model's own momentum" if self.momentum is None else f"θ = {self.momentum:g}"
        unusual = [theta] if self.momentum != FedSPD.momentum else []
        if (self.lr_decay, self.decay_every) != (FedSPD.lr_decay, FedSPD.decay_every):
            unusual.append(f"lr × {self.lr_decay:g} every {self.decay_every}" if self.lr_decay != 1 else "no lr decay")
        return f"FedSPD ({', '.join(unusual)})" if unusual else "FedSPD"

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
        table, k, last = self.models(fed), self.per_client(fed), t + 1 == self.rounds
        cohort, links = self.meet(t, fed, forwards=self._passes(t, last, k))
        plan = list(self._plan(cohort.clients, t, fed))
        places = [client * k + s for client, s, _ in plan]
        results = self.train((self._job(client, s, view, t, fed) for client, s, view in plan), places, fed)
        sent = np.zeros((fed.data.num_clients, k), dtype=np.bool_)
        for (client, s, _), result in zip(plan, results, strict=True):
            sent[client, s] = result.usable
        mix_rows(table, neighbour_means(links, sent, receive=sent))
        named = [s for _, s, _ in plan]
        if self.align_every and (t + 1) % self.align_every == 0:
            orders = align(table, fed.data.num_clients, k)
            named = [orders[client].index(s) for client, s, _ in plan]
        if last:
            self._personalise(t, fed)
        labels = state.labels.clone()
        for (client, _, _), label in zip(plan, named, strict=True):
            labels[client] = label
        uploads, downloads = self._traffic(plan, sent, links, t)
        isolated = degrees(links, cohort.clients).count(0)
        messages = state.messages + sum(uploads)
        state = replace(state, labels=labels, tuned=last, messages=messages, isolated=isolated)
        clients = [client for client, _, _ in plan]
        return state, Round(
            replace(cohort, clients=clients, labels=named),  # one for each training, of which a client may have several
            results,
            Mixtures(fed.data.num_clients, lambda client: self._own(state, client, t, fed)),
            clients,
            uploads=uploads,
            downloads=downloads,
            forwards=[self._passes(t, last, k) if t or s == 0 else 0 for _, s, _ in plan],
        )

    def _job(self, client: int, s: int, view: View, t: int, fed: Federation) -> Job:
        """Plan the training of a client's model s on some of its samples."""
        plain = self.job(client, self.models(fed)[client * self.per_client(fed) + s], t, fed)
        factor = self.lr_decay ** (t // self.decay_every)
        return replace(plain, view=view, purpose=f"train {s}", lr_factor=factor, momentum=self.momentum)

    def _traffic(
        self, plan: Sequence[tuple[int, int, View]], sent: NDArray[np.bool_], links: csr_array, t: int
    ) -> tuple[list[int], list[int]]:
        """Return the models that go out and come in with each training: a client hears all that its neighbours send."""
        degree, heard = np.diff(links.indptr), links @ sent.astype(np.int64)
        uploads = [int(degree[client] * sent[client, s]) for client, s, _ in plan]
        return uploads, [int(heard[client].sum() if t else heard[client, s]) for client, s, _ in plan]

    def _passes(self, t: int, last: bool, k: int) -> int:
        """Return a round's passes over all samples: dividing them, and after the last round once more, and tuning."""
        return (k if t else 0) + (k + 3 * self.tune_epochs if last else 0)

    def _plan(self, clients: list[int], t: int, fed: Federation) -> Iterator[tuple[int, int, View]]:
        """Yield what is trained: client, cluster and the client's samples of that cluster."""
        k = self.per_client(fed)
        divisions = self._divisions(clients, t, fed) if t else [np.empty(0, dtype=np.int64)] * len(clients)
        for client, division in zip(clients, divisions, strict=True):
            draw, view = rng(fed.seed, "cluster", client, t), fed.shard(client, t).train
            if t == 0:
                division = draw.choice(k, size=len(view), p=draw.dirichlet(np.ones(k)))
            shares = np.bincount(division, minlength=k) / len(division)
            for s in range(k) if t == 0 else [int(draw.choice(k, p=shares))]:
                yield client, s, view.where(torch.from_numpy(borrowed(division, s, self.min_samples, draw)))

    def _divisions(self, clients: list[int], t: int, fed: Federation) -> list[NDArray[np.int64]]:
        """Return the cluster of every training sample of some clients: the model with the smallest loss, never NaN."""
        table, k = self.models(fed), self.per_client(fed)
        views = [fed.shard(client, t).train for client in clients]

        def own(worker: Worker, i: int) -> NDArray[np.int64]:
            rows = (table[clients[i] * k + j].to(fed.device) for j in range(k))
            losses = torch.stack([worker.per_sample(row, views[i])[0] for row in rows]).nan_to_num(nan=torch.inf)
            return losses.argmin(0).cpu().numpy()

        return fed.map(own, views)

    # personalised models ----------------------------------------------------------------------------------------

    def _mixed(self, client: int, division: NDArray[np.int64], fed: Federation) -> Tensor:
        """Return Σ_s u_is c_is."""
        k, table = self.per_client(fed), self.models(fed)
        shares = np.bincount(division, minlength=k) / len(division)
        return torch.stack([table[client * k + s] * float(shares[s]) for s in range(k)]).sum(0)

    def _personalise(self, t: int, fed: Federation) -> None:
        """Make every client's own model: its mixture, trained on all its samples."""
        clients = fed.data.with_samples(t).tolist()
        table = fed.table("personal")
        mixed = (self._mixed(c, d, fed) for c, d in zip(clients, self._divisions(clients, t, fed), strict=True))
        for client, row in zip(clients, mixed, strict=True):
            table[client] = row
        for epoch in range(self.tune_epochs):
            factor = self.tune_lr * self.tune_decay ** (epoch // self.tune_decay_every)
            plain = (
                Job(client, table[client], fed.shard(client, t).train, 1, self.batch_size, "tune", cycle=epoch)
                for client in clients
            )
            for done in fed.train(replace(job, lr_factor=factor, momentum=self.momentum) for job in plain):
                if done.usable:
                    table[done.client] = done.row

    def _own(self, state: SoftState, client: int, t: int, fed: Federation) -> Tensor:
        """Return a client's own model as it is now."""
        if state.tuned:
            return fed.table("personal")[client]
        return self._mixed(client, self._divisions([client], t, fed)[0], fed)

    def served(self, state: SoftState, t: int, fed: Federation) -> Served:
        """Every client uses its own model; its cluster is the one of most of its samples."""
        clients = fed.data.with_samples(t)
        divisions = dict(zip(clients.tolist(), self._divisions(clients.tolist(), t, fed), strict=True))
        labels = np.full(fed.data.num_clients, -1, dtype=np.int64)
        for client, division in divisions.items():
            labels[client] = np.bincount(division).argmax()
        own = np.where(labels < 0, -1, np.arange(len(labels)))
        if state.tuned:
            return Served(fed.table("personal"), labels, own)
        return Served(Mixtures(len(labels), lambda client: self._mixed(client, divisions[client], fed)), labels, own)

    def own_row(self, state: SoftState, client: int) -> tuple[str, int]:
        """Return where a client's own model lies, once it is made."""
        if not state.tuned:
            raise UserError("FedSPD makes the clients' own models in the last round: let the run finish first")
        return "personal", client


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Rows that are mixed when they are asked for."""

    count: int
    make: Callable[[int], Tensor]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return self.make(index)


def borrowed(division: NDArray[np.int64], s: int, least: int, draw: np.random.Generator) -> NDArray[np.bool_]:
    """Return which samples train cluster s: its own, and if these are too few ``least`` of the largest cluster's."""
    mask: NDArray[np.bool_] = division == s
    if mask.sum() < least:
        largest = np.bincount(division).argmax()
        pool = np.flatnonzero((division == largest) & ~mask)
        mask[draw.choice(pool, size=min(least, len(pool)), replace=False)] = True
    return mask


def align(table: Table, clients: int, k: int) -> list[list[int]]:
    """Renumber each client's k models so that they agree with the clients before it, by cosine similarity.

    The reference is the running mean of the models seen so far, beginning with client 0's. Returns for each client
    which of its old models stands at each number now.
    """
    orders = [list(range(k))]
    reference = torch.stack([table[j] for j in range(k)])
    for client in range(1, clients):
        rows = torch.stack([table[client * k + j] for j in range(k)])
        order = best_order(torch.nn.functional.normalize(reference), torch.nn.functional.normalize(rows))
        for j, which in enumerate(order):
            if which != j:
                table[client * k + j] = rows[which]
        reference.lerp_(rows[order], 1 / (client + 1))
        orders.append(order)
    return orders


def best_order(reference: torch.Tensor, rows: torch.Tensor) -> list[int]:
    """Return which row stands for each reference so that the similarities add up to the most."""
    _, order = linear_sum_assignment((reference @ rows.T).double().numpy(), maximize=True)
    which: list[int] = np.asarray(order).tolist()
    return which
