"""Rounds of K models, each trained by the clients of its cluster: what FedAvg, FIELDING and its baselines share."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.clustering.distances import L1
from flcluster.clustering.kmeans import centres_of
from flcluster.clustering.points import shares
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Observe, Trained
from flcluster.federation.worker import Worker
from flcluster.protocol.participation import Cohort, Load
from flcluster.protocol.rounds import Round, RoundAlgorithm, Served
from flcluster.seeds import rng

from .aggregation import Aggregator, Average
from .selection import Asked, RandomSelection, Selection


@dataclass(frozen=True, eq=False)
class ClusteredState:
    """The server's models and who uses which."""

    models: Tensor
    """``[K, P]``"""
    labels: Tensor
    """The cluster of each client, int64 ``[N]``."""
    server: dict[str, Tensor]
    """What the aggregation remembers."""
    memory: dict[str, Tensor]
    """What the selection remembers."""


S = TypeVar("S", bound=ClusteredState)


@dataclass(frozen=True, kw_only=True)
class ClusteredRounds(RoundAlgorithm[S]):
    """Every round: follow the data, pick clients in each cluster, train from the cluster's model, combine."""

    selection: Selection = field(default_factory=RandomSelection)
    """Which clients of a cluster train: RandomSelection, Oort, DistanceSelection."""
    server: Aggregator = field(default_factory=Average)
    """How trained models become the new one: Average, Yogi, QFair."""

    state_type: ClassVar[type] = ClusteredState

    def follow(self, state: S, t: int, fed: Federation) -> tuple[S, float]:
        """Asked at what changed before round ``t``; return the new state and how long that took in virtual time."""
        return state, 0.0

    def step(self, state: S, t: int, fed: Federation) -> tuple[S, Round]:
        """Run one round of all clusters in parallel."""
        state, seconds = self.follow(state, t, fed)
        cohort, labels = self.cohort(state, t, fed)
        jobs = self.jobs(state, cohort.clients, labels, t, fed)
        results = self.received(state, fed.train(jobs, self.observe(fed, t)), fed)
        lr = fed.worker.rates[0] * self.lr_decay**t
        parameters = fed.layout.num_parameters
        models, server, trained = self.server.combine(results, labels, state.models, state.server, parameters, lr)
        memory = self.selection.learn(state.memory, t, trained, self.look(state, t, fed))
        done = Round(
            trained,
            row_of=lambda i: models[labels[i]],
            labels=labels,
            forwards_of=lambda i: trained[i].size if self.asks_loss else 0,
            seconds=seconds + cohort.seconds,
            lost=cohort.lost,
        )
        return self.after(replace(state, models=models, server=server, memory=memory), t, done, fed)

    def jobs(self, state: S, clients: list[int], labels: list[int], t: int, fed: Federation) -> Iterable[Job]:
        """Plan the local training of a round's participants, each from the model of a cluster."""
        plans = (self.job(m, state.models[k], t, fed) for m, k in zip(clients, labels, strict=True))
        return (self.plan(state, job, t, fed) for job in plans)

    def plan(self, state: S, job: Job, t: int, fed: Federation) -> Job:
        """Add to a client's job what the server sends along with the model."""
        return job

    def received(self, state: S, results: Iterable[Trained], fed: Federation) -> Iterable[Trained]:
        """Asked at trained models as they come in, before they are combined and forgotten."""
        return results

    def after(self, state: S, t: int, done: Round, fed: Federation) -> tuple[S, Round]:
        """Learn from what the round's participants sent."""
        return state, done

    def served(self, state: S, t: int, fed: Federation) -> Served:
        """The model of each client's cluster."""
        return Served(state.models, state.labels.numpy())

    # who takes part ---------------------------------------------------------------------------------------------

    def cohort(self, state: S, t: int, fed: Federation) -> tuple[Cohort, list[int]]:
        """Pick this round's clients cluster by cluster, with the cluster of each; clusters run in parallel."""
        pool = self.available(t, fed)
        home = state.labels.numpy()[pool]
        members = [pool[home == k] for k in range(len(state.models))]
        look, parts = self.look(state, t, fed), []
        for k, quota in enumerate(self.quotas([len(m) for m in members], fed)):
            draw = rng(fed.seed, "select", t, k)
            asked = self.selection.pick(members[k], self.asked(quota), t, state.memory, look, draw)
            parts.append(self.race(asked, quota, t, fed, self.load))
        labelled = sorted((client, k) for k, part in enumerate(parts) for client in part.clients)
        whole = Cohort([c for c, _ in labelled], max(p.seconds for p in parts), sum(p.lost for p in parts))
        return whole, [k for _, k in labelled]

    def quotas(self, sizes: list[int], fed: Federation) -> list[int]:
        """Say how many participants clusters of some sizes train."""
        return quotas(sizes, self.wanted(fed))

    def look(self, state: S, t: int, fed: Federation) -> Asked:
        """Return what the selection may ask."""

        def work(clients: NDArray[np.int64]) -> NDArray[np.float64]:
            sizes = fed.data.sizes(t)[clients].astype(np.float64)
            return sizes if self.local_steps is None else np.minimum(sizes, self.local_steps * self.batch_size)

        return Asked(
            distance=lambda clients: self.distances(state, clients, t, fed),
            seconds=lambda clients: self.durations(clients, t, fed, self.load),
            work=work,
        )

    def distances(self, state: S, clients: NDArray[np.int64], t: int, fed: Federation) -> NDArray[np.float64]:
        """Return how far clients of one cluster lie from its centre: L1 between label shares and their mean."""
        points = shares(fed.data.label_counts(clients, t))
        centre = centres_of(points, np.zeros(len(points), dtype=np.int64), 1)
        return L1().between(points, centre)[:, 0].astype(np.float64)

    @property
    def load(self) -> Load:
        """What a participant does; the loss of the received model costs a pass over its data."""
        return Load(forwards=float(self.asks_loss))

    # what clients report ----------------------------------------------------------------------------------------

    @property
    def asks_loss(self) -> bool:
        """Whether clients report the loss of the model they received."""
        return self.selection.needs_start_loss or self.server.needs_start_loss

    def observe(self, fed: Federation, t: int) -> Observe:
        """Add the losses of the received model, if a part needs them."""
        look = super().observe(fed, t)
        if not self.asks_loss:
            return look

        def observe(worker: Worker, job: Job, trained: Trained) -> dict[str, Any]:
            losses = worker.per_sample(job.start, job.view)[0].double()
            seen = {"start_loss": float(losses.mean()), "start_square": float(losses.square().mean())}
            return {**look(worker, job, trained), **seen}

        return observe


def quotas(sizes: list[int], total: int) -> list[int]:
    """Share ``total`` participants among clusters: equally, at most the cluster's size, the rest to the largest.

    Every cluster that has clients trains at least one, so that more clusters than ``total`` train more clients.

    Example:
        >>> quotas([50, 2, 0, 30], 20)
        [11, 2, 0, 7]
    """
    share = max(1, round(total / max(1, sum(size > 0 for size in sizes))))
    quota = [min(share, size) for size in sizes]
    while sum(quota) > total and max(quota) > 1:  # rounded up: take back from the largest quotas, at least one stays
        quota[max(range(len(quota)), key=lambda k: (quota[k], -sizes[k], k))] -= 1
    rest = total - sum(quota)
    for k in sorted(range(len(sizes)), key=lambda k: (-sizes[k], k)):
        more = min(max(rest, 0), sizes[k] - quota[k])
        quota[k] += more
        rest -= more
    return quota


def one_cluster(algorithm: "ClusteredRounds[Any]", fed: Federation) -> ClusteredState:
    """Return the state of one random model that everyone uses."""
    models = fed.init_rows(1)
    labels = torch.zeros(fed.data.num_clients, dtype=torch.int64)
    return ClusteredState(models, labels, algorithm.server.start(models), algorithm.selection.start(len(labels)))
