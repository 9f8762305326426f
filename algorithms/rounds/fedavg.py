"""FedAvg (McMahan et al., 2017) and FedProx: rounds of models that are averages of what clients trained.

There may be several models, each trained by the clients of its cluster: FIELDING and its baselines are FedAvg with
clusters that follow the data.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar

from flcluster.clustering.distances import L1
from flcluster.clustering.kmeans import centres_of
from flcluster.clustering.points import shares
from flcluster.federation.averaging import average_by_label
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Observe, Trained
from flcluster.protocol.outcome import Round, Served
from flcluster.protocol.participation import Cohort, Load, side_by_side
from flcluster.protocol.rounds import RoundAlgorithm
from flcluster.seeds import rng

from .aggregation import Aggregator, Memory
from .selection import Asked, RandomSelection, Selection, quotas


@dataclass(frozen=True)
class Average(Aggregator):
    """The mean of the trained models (FedAvg)."""

    by: Literal["size", "uniform"] = "size"
    """Weigh clients by their number of samples (FedAvg) or equally (FIELDING's Algorithm 1)."""

    def combine(
        self, trained: Iterable[Trained[Any]], labels: list[int], old: Tensor, memory: Memory, numbers: int, lr: float
    ) -> tuple[Tensor, Memory]:
        """Average per cluster: w ← Σ n_i w_i / Σ n_i."""
        by_size = self.by == "size"
        return average_by_label(trained, labels, old, weight=lambda r: float(r.size) if by_size else 1.0), memory


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


S = TypeVar("S", bound=ClusteredState, default=ClusteredState)


@dataclass(frozen=True, kw_only=True)
class FedAvg(RoundAlgorithm[S]):
    """Averaging of local models, round by round: one model for everyone."""

    paper: ClassVar[str] = "McMahan et al., 2017"

    selection: Selection = field(default_factory=RandomSelection)
    """Which clients of a cluster train: RandomSelection, Oort, DistanceSelection."""
    server: Aggregator = field(default_factory=Average)
    """How trained models become the new one: Average, Yogi, QFair."""

    state_type: ClassVar[type] = ClusteredState

    def init(self, fed: Federation) -> S:
        """One random model that everyone uses."""
        state: S = self.state_type(**vars(self.one_model(fed)))
        return state

    def one_model(self, fed: Federation) -> ClusteredState:
        """Return the state of one random model that everyone uses."""
        models, N = fed.init_rows(1), fed.data.num_clients
        labels = torch.zeros(N, dtype=torch.int64)
        return ClusteredState(models, labels, self.server.start(models), self.selection.start(N))

    def step(self, state: S, t: int, fed: Federation) -> tuple[S, Round]:
        """Run one round of all clusters side by side."""
        state, waited = self.follow(state, t, fed)
        cohort = self.pick(state, t, fed).delayed(waited)
        training = fed.train(self.jobs(state, cohort, t, fed), self.observe(fed))
        state = self.aggregate(state, training, cohort, t, fed)
        memory = self.selection.learn(state.memory, t, training.results, self.asked_of(state, t, fed))
        done = Round(cohort, training.results, state.models)
        return self.learn(replace(state, memory=memory), t, done, fed)

    # the parts of a round, in the order in which they happen ------------------------------------------------------

    def follow(self, state: S, t: int, fed: Federation) -> tuple[S, float]:
        """Look at what changed before round ``t``; return the new state and how long that took in virtual time."""
        return state, 0.0

    def pick(self, state: S, t: int, fed: Federation) -> Cohort:
        """Pick this round's clients cluster by cluster."""
        pool = self.available(t, fed)
        home = state.labels.numpy()[pool]
        members = [pool[home == k] for k in range(len(state.models))]
        asked_of, parts = self.asked_of(state, t, fed), []
        for k, quota in enumerate(self.quotas([len(m) for m in members], fed)):
            draw = rng(fed.seed, "select", t, k)
            asked = self.selection.pick(members[k], self.asked(quota), t, state.memory, asked_of, draw)
            parts.append(self.race(asked, quota, t, fed, self.load))
        return side_by_side(parts)

    def jobs(self, state: S, cohort: Cohort, t: int, fed: Federation) -> Iterable[Job]:
        """Plan the training of each participant: from the model of its cluster, and what is sent along with it."""
        jobs = (self.job(m, state.models[k], t, fed) for m, k in cohort)
        return (replace(job, scores_start=True) for job in jobs) if self.asks_loss else jobs

    def observe(self, fed: Federation) -> Observe[Any] | None:
        """Return what looks at a trained model where it was trained, if a method wants to see it."""
        return None

    def aggregate(self, state: S, trained: Iterable[Trained[Any]], cohort: Cohort, t: int, fed: Federation) -> S:
        """Train, and make new models of the trained ones as they come in."""
        lr, numbers = fed.lr * self.lr_decay**t, fed.layout.num_parameters
        models, memory = self.server.combine(trained, cohort.places, state.models, state.server, numbers, lr)
        return replace(state, models=models, server=memory)

    def learn(self, state: S, t: int, done: Round, fed: Federation) -> tuple[S, Round]:
        """Learn from what the round's participants sent; return the new state, and the round as it is told."""
        return state, done

    def served(self, state: S, t: int, fed: Federation) -> Served:
        """The model of each client's cluster."""
        return Served(state.models, state.labels.numpy())

    def server_models(self, state: S) -> Tensor:
        """All models."""
        return state.models

    def cluster_of(self, state: S, client: int) -> int:
        """The client's cluster; the first one before it has any."""
        return max(int(state.labels[client]), 0)

    # who takes part -----------------------------------------------------------------------------------------------

    @property
    def load(self) -> Load:
        """What a participant does: a model each way; the loss of the received one costs a pass over its data."""
        return Load(forwards=float(self.asks_loss))

    @property
    def asks_loss(self) -> bool:
        """Whether clients report the losses of the model they received."""
        return self.selection.needs_start_loss or self.server.needs_start_loss

    def quotas(self, sizes: list[int], fed: Federation) -> list[int]:
        """Say how many participants clusters of some sizes train."""
        return quotas(sizes, self.wanted(fed))

    def asked_of(self, state: S, t: int, fed: Federation) -> Asked:
        """Return what the selection may ask about clients."""

        def work(clients: NDArray[np.int64]) -> NDArray[np.float64]:
            sizes = fed.data.sizes_of(clients, t).astype(np.float64)
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


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg whose local training is pulled towards the received model."""

    paper: ClassVar[str] = "Li et al., 2020"

    prox: float = 0.1
    """μ: weight of the proximal term (μ/2)·‖w − w_received‖² of local training."""
