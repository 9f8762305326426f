"""Auxo: Efficient Federated Learning via Scalable Client Clustering (Liu et al., 2023), by its public code.

A re-implementation. The code asks for 100 / (share of clients in a round) clients in a cohort that splits, which only
fits thousands: that number is an option here.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from flcluster.algorithms.rounds.aggregation import Aggregator
from flcluster.algorithms.rounds.fedavg import Average, ClusteredState, FedAvg
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Observe, Trained
from flcluster.federation.worker import Worker
from flcluster.protocol.base import at_least
from flcluster.protocol.outcome import Round
from flcluster.protocol.participation import Cohort
from flcluster.seeds import rng

from .reassign import Ids

FEWEST = 5
"""Participants of a cohort below which its features say too little."""


@dataclass(frozen=True, eq=False)
class AuxoState(ClusteredState):
    """Adds what cohorts know of the clients they have seen."""

    reward: Tensor
    """R: how well each client fits each cohort, ``[N, K]``; 1 at first."""
    halves: Tensor
    """Scores of each client for the two halves of each cohort, ``[N, K, 2]``; 1 at first, equal: not known."""
    trained: Tensor
    """Whether a cohort has learnt of a client that trained in it, bool ``[N, K]``."""
    parted: Tensor
    """Whether a cohort has been parted into halves once, bool ``[K]``."""
    epsilon: float
    """Probability with which a client tries a random cohort."""
    splits: int
    """Splits so far."""


@dataclass(frozen=True, kw_only=True)
class Auxo(FedAvg[AuxoState]):
    """One cohort that splits in two again and again, by the updates of those who train; only they are re-assigned."""

    paper: ClassVar[str] = "Liu et al., 2023"

    max_clusters: int = 8
    """Most cohorts."""
    tail: float = 0.1
    """Share of the parameters, the last ones, whose change describes a client."""
    base_reward: float = 5.0
    """R0: reward of a client at the centre of its cohort."""
    half_reward: float = 1.0
    """What a client's score for its half grows by, and at a split its R for that half; those for the other stay."""
    epsilon: float = 0.01
    """Probability with which a client tries a random cohort, at first."""
    epsilon_decay: float = 0.99
    """Factor on it from round to round."""
    known_share: float = 0.05
    """Share of all clients that must be known in each half before the first split; ×0.9 for each further cohort."""
    balance: tuple[float, float] = (0.5, 2.0)
    """Bounds of the ratio of the halves' sizes at later splits."""
    min_cohort: int | None = None
    """Clients that a cohort must have to split; as many as a round trains if not given."""
    split_rounds: list[int] | None = None
    """Rounds at which the largest cohort splits in any case, as the public configuration has them."""
    until: int = 500
    """Round after which cohorts split no more."""
    server: Aggregator = field(default_factory=lambda: Average("uniform"))
    """How trained models become the new one: Average, Yogi, QFair."""

    extra_names: ClassVar[tuple[str, ...]] = ("splits",)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("max_clusters", self.max_clusters, 1)
        if self.min_cohort is not None:
            at_least("min_cohort", self.min_cohort, 1)
        if not 0 <= self.balance[0] < self.balance[1]:
            raise UserError(f"algorithm.balance: give a smaller and a larger ratio, got {self.balance}")
        if not 0 < self.tail <= 1:
            raise UserError(f"algorithm.tail must be in (0, 1], got {self.tail}")

    def init(self, fed: Federation) -> AuxoState:
        """One cohort."""
        N, models = fed.data.num_clients, fed.init_rows(1)
        return AuxoState(
            models=models,
            labels=torch.zeros(N, dtype=torch.int64),
            server=self.server.start(models),
            memory=self.selection.start(N),
            reward=torch.ones(N, 1),
            halves=torch.ones(N, 1, 2),
            trained=torch.zeros(N, 1, dtype=torch.bool),
            parted=torch.zeros(1, dtype=torch.bool),
            epsilon=self.epsilon,
            splits=0,
        )

    def pick(self, state: AuxoState, t: int, fed: Federation) -> Cohort:
        """Let some clients try another cohort in this round."""
        draw, N, K = rng(fed.seed, "explore", t), fed.data.num_clients, len(state.models)
        tries, where = draw.random(N) < state.epsilon, torch.from_numpy(draw.integers(K, size=N))
        return super().pick(replace(state, labels=torch.where(torch.from_numpy(tries), where, state.labels)), t, fed)

    def observe(self, fed: Federation) -> Observe[Tensor]:
        """See the last part of a client's update."""
        width = fed.layout.num_parameters
        return UpdateTail(width - max(1, round(self.tail * width)), width)

    def learn(self, state: AuxoState, t: int, done: Round, fed: Federation) -> tuple[AuxoState, Round]:
        """Let each cohort learn from its participants; then clients choose anew and one cohort may split."""
        who = np.array([result.client if result.finite else -1 for result in done.results], dtype=np.int64)
        where = np.array(done.cohort.places, dtype=np.int64)
        for k in range(len(state.models)):
            here = np.flatnonzero((where == k) & (who >= 0))
            if len(here) >= FEWEST:
                updates = torch.stack([seen for i in here.tolist() if (seen := done.results[i].seen) is not None])
                state = self.scored(state, k, who[here], updates, int(rng(fed.seed, "halves", t, k).integers(2**31)))
        state = replace(state, labels=cohort_of(state), epsilon=state.epsilon * self.epsilon_decay)
        return self.maybe_split(state, t, fed), done

    def scored(self, state: AuxoState, k: int, clients: Ids, updates: Tensor, seed: int) -> AuxoState:
        """Score a cohort's participants: for its halves, and for the cohort itself if there are others."""
        centred, several = updates - updates.mean(0), len(state.models) > 1
        halves, reward = state.halves.clone(), state.reward.clone()
        trained, parted = state.trained.clone(), state.parted.clone()
        known = trained[clients, k] & (reward[clients, k] > 1)
        asked = known if several else torch.ones_like(known)
        half = half_labels(F.normalize(centred, dim=1), sides(state)[clients, k], asked, bool(parted[k]), seed)
        learnt = half >= 0
        halves[clients[learnt.numpy()], k, half[learnt]] += self.half_reward
        parted[k] |= learnt.any()
        if several and int(known.sum()) >= 2:
            gained = rewards(centred, known, self.base_reward)
            reward[clients, k] += gained
            halves[clients[(gained < 0).numpy()], k] = 1.0
            learnt = torch.ones_like(learnt)
        trained[clients[learnt.numpy()], k] = True
        return replace(state, halves=halves, reward=reward, trained=trained, parted=parted)

    def maybe_split(self, state: AuxoState, t: int, fed: Federation) -> AuxoState:
        """Split the first cohort whose halves are both known well enough; at given rounds the largest."""
        K = len(state.models)
        if self.max_clusters <= K or t >= self.until:
            return state
        sizes = half_sizes(state)
        forced = int(torch.bincount(state.labels, minlength=K).argmax()) if t in (self.split_rounds or []) else -1
        members = torch.bincount(state.labels, minlength=K).tolist()
        least = self.wanted(fed) if self.min_cohort is None else self.min_cohort
        enough = self.known_share * len(fed.data.participants) * 0.9 ** (K - 1)
        for k, (first, second) in enumerate(sizes.tolist()):
            low, high = self.balance
            balanced = state.splits == 0 or low < first / max(second, 1) < high
            ready = members[k] >= least and min(first, second) > enough and balanced
            if ready or (k == forced and min(first, second) > 0):
                return split(state, k, self.half_reward, rng(fed.seed, "split", t))
        return state

    def gauges(self, state: AuxoState) -> dict[str, float]:
        """Show the number of splits."""
        return {"splits": float(state.splits)}


@dataclass(frozen=True)
class UpdateTail:
    """Looks at a part of what training changed: numbers from ``first`` to ``last`` of the row."""

    first: int
    last: int

    def __call__(self, worker: Worker, job: Job, trained: Trained[Tensor]) -> Tensor:
        """Return the change."""
        return (job.start - trained.row)[self.first : self.last]


def half_labels(unit: Tensor, now: Tensor, asked: Tensor, parted: bool, seed: int) -> Tensor:
    """Return the half that each participant falls into in this round, int64 ``[n]``; −1 where nothing is learnt.

    The first time those ``asked`` are parted by 2-means. Later everyone without a half takes that of the nearest one
    that has one; if all of those are of the same half, the quarter of the participants nearest to the first of them do.

    Args:
        unit: Features of length 1, ``[n, D]``.
        now: The half that each is known to be in, −1 if it is not known.
        asked: Who is parted the first time, bool ``[n]``.
        parted: Whether the cohort has been parted.
        seed: Of the 2-means.
    """
    out = torch.full((len(unit),), -1, dtype=torch.int64)
    if not parted:
        if int(asked.sum()) >= 2:
            with threadpool_limits(1):  # the same on every rank
                found = KMeans(2, n_init=10, random_state=seed).fit(unit[asked].numpy()).labels_
            out[asked] = torch.from_numpy(found).long()
        return out
    apart = torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist")
    labelled = now >= 0
    if len(now[labelled].unique()) == 2:
        out[~labelled] = now[labelled][apart[~labelled][:, labelled].argmin(1)]
    elif bool(labelled.any()):
        first = int(labelled.nonzero()[0])
        out[apart[first].argsort(stable=True)[: len(unit) // 4]] = now[first]
    return out


def rewards(centred: Tensor, known: Tensor, base: float) -> Tensor:
    """Return (R0 − R0 · d / (mean d + sd d)) × share known, d being the distance to the known members' centroid."""
    apart = (centred - centred[known].mean(0)).norm(dim=1)
    scale = (apart.mean() + apart.std(correction=0)).clamp_min(1e-12)
    gained: Tensor = (base - base * apart / scale) * known.float().mean()
    return gained


def cohort_of(state: AuxoState) -> Tensor:
    """Return the cohort of each client: the one with the largest reward; who never trained stays."""
    return torch.where(state.trained.any(1), state.reward.argmax(1), state.labels)


def sides(state: AuxoState) -> Tensor:
    """Return the half of each cohort that each client is known to be in, int64 ``[N, K]``; −1: not known, or R < 0."""
    known = (state.halves[..., 0] != state.halves[..., 1]) & (state.reward >= 0)
    return torch.where(known, state.halves.argmax(2), -1)


def half_sizes(state: AuxoState) -> Tensor:
    """Count each cohort's members known to be in either half, ``[K, 2]``."""
    member, side = F.one_hot(state.labels, len(state.models)).bool(), sides(state)
    return torch.stack([((side == half) & member).sum(0) for half in (0, 1)], 1)


def split(state: AuxoState, k: int, gain: float, draw: np.random.Generator) -> AuxoState:
    """Split cohort ``k``: the second half becomes a new one, with a copy of the model.

    A client's R grows by ``gain`` for the half it is in, and stays for the other. Unknown clients choose anew.
    """

    def with_child(values: Tensor, first: Tensor, second: Tensor) -> Tensor:
        out = torch.cat([values, second[:, None]], 1)
        out[:, k] = first
        return out

    inside = [sides(state)[:, k] == half for half in (0, 1)]
    reward = with_child(state.reward, *(state.reward[:, k] + gain * part for part in inside))
    trained = with_child(state.trained, *(state.trained[:, k] & part for part in inside))
    fresh, K = torch.ones(len(reward), 2), len(state.models) + 1
    labels = torch.where(trained.any(1), reward.argmax(1), torch.from_numpy(draw.integers(K, size=len(reward))))
    return replace(
        state,
        models=torch.cat([state.models, state.models[k : k + 1]]),
        labels=labels,
        server={name: torch.cat([part, part[k : k + 1]]) for name, part in state.server.items()},
        reward=reward,
        halves=with_child(state.halves, fresh, fresh),
        trained=trained,
        parted=torch.cat([state.parted, torch.zeros(1, dtype=torch.bool)]).index_fill(0, torch.tensor([k]), False),
        splits=state.splits + 1,
    )
