"""Auxo: Efficient Federated Learning via Scalable Client Clustering (Liu et al., 2023), by its public code.

A re-implementation: the split test on the absolute cohort size is left out, since it only fits thousands of clients.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from flcluster.algorithm import at_least
from flcluster.errors import UserError
from flcluster.federation import Federation
from flcluster.rounds import Cohort, Round
from flcluster.seeds import rng
from flcluster.worker import Job, Observe, Trained, Worker

from .aggregation import Average, Server
from .clustered import ClusteredRounds, ClusteredState
from .reassign import Ids

FEWEST = 5
"""Participants of a cohort below which its features say too little."""


@dataclass(frozen=True, eq=False)
class AuxoState(ClusteredState):
    """Adds what cohorts know of the clients they have seen."""

    reward: Tensor
    """R: how well each client fits each cohort, ``[N, K]``."""
    halves: Tensor
    """Scores of each client for the two halves of each cohort, ``[N, K, 2]``; zeros: not known."""
    trained: Tensor
    """Whether a client has trained in a cohort, bool ``[N, K]``."""
    parted: Tensor
    """Whether a cohort has been parted into halves once, bool ``[K]``."""
    epsilon: float
    """Probability with which a client tries a random cohort."""
    splits: int
    """Splits so far."""


@dataclass(frozen=True, kw_only=True)
class Auxo(ClusteredRounds[AuxoState]):
    """One cohort that splits in two again and again, by the updates of those who train; only they are re-assigned."""

    max_clusters: int = 8
    """Most cohorts."""
    tail: float = 0.1
    """Share of the parameters, the last ones, whose change describes a client."""
    base_reward: float = 5.0
    """R0: reward of a client at the centre of its cohort."""
    half_reward: float = 1.0
    """Score that a client gets for the half it falls into."""
    confidence: float = 1.5
    """How many times nearer a labelled client of one half must be than one of the other to pass its label on."""
    epsilon: float = 0.01
    """Probability with which a client tries a random cohort, at first."""
    epsilon_decay: float = 0.99
    """Factor on it from round to round."""
    known_share: float = 0.05
    """Share of all clients that must be known in each half before the first split; ×0.9 for each further cohort."""
    balance: tuple[float, float] = (0.5, 2.0)
    """Bounds of the ratio of the halves' sizes at later splits."""
    split_rounds: list[int] | None = None
    """Rounds at which the largest cohort splits in any case, as the public configuration has them."""
    until: int = 500
    """Round after which cohorts split no more."""
    server: Server = field(default_factory=lambda: Average("uniform"))
    """How trained models become the new one: Average, Yogi, QFair."""

    state_type: ClassVar[type] = AuxoState
    extra_names: ClassVar[tuple[str, ...]] = ("splits",)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("max_clusters", self.max_clusters, 1)
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
            reward=torch.zeros(N, 1),
            halves=torch.zeros(N, 1, 2),
            trained=torch.zeros(N, 1, dtype=torch.bool),
            parted=torch.zeros(1, dtype=torch.bool),
            epsilon=self.epsilon,
            splits=0,
        )

    def cohort(self, state: AuxoState, t: int, fed: Federation) -> tuple[Cohort, list[int]]:
        """Let some clients try another cohort in this round."""
        draw, N, K = rng(fed.seed, "explore", t), fed.data.num_clients, len(state.models)
        tries, where = draw.random(N) < state.epsilon, torch.from_numpy(draw.integers(K, size=N))
        return super().cohort(replace(state, labels=torch.where(torch.from_numpy(tries), where, state.labels)), t, fed)

    def before(self, fed: Federation, t: int) -> Observe:
        """Add the last part of a client's update."""
        look, width = super().before(fed, t), fed.layout.num_parameters
        first = width - max(1, round(self.tail * width))

        def observe(worker: Worker, job: Job, trained: Trained) -> dict[str, Any]:
            return {**look(worker, job, trained), "update": (job.start - trained.row)[first:width].cpu()}

        return observe

    def after(self, state: AuxoState, t: int, done: Round, fed: Federation) -> tuple[AuxoState, Round]:
        """Let each cohort learn from its participants; then clients choose anew and one cohort may split."""
        who = np.array([result.client if result.seen["finite"] else -1 for result in done.trained], dtype=np.int64)
        where = np.array(done.labels, dtype=np.int64)
        for k in range(len(state.models)):
            here = np.flatnonzero((where == k) & (who >= 0))
            if len(here) >= FEWEST:
                updates = torch.stack([done.trained[i].seen["update"] for i in here.tolist()])
                state = self.learn(state, k, who[here], updates, int(rng(fed.seed, "halves", t, k).integers(2**31)))
        for result in done.trained:
            result.seen.pop("update")
        state = replace(state, labels=chosen(state), epsilon=state.epsilon * self.epsilon_decay)
        return self.maybe_split(state, t, fed), done

    def learn(self, state: AuxoState, k: int, clients: Ids, updates: Tensor, seed: int) -> AuxoState:
        """Score a cohort's participants: for its halves, and for the cohort itself if there are others."""
        centred = updates - updates.mean(0)
        halves, reward, trained = state.halves.clone(), state.reward.clone(), state.trained.clone()
        parted = state.parted.clone()
        unit = F.normalize(centred, dim=1)
        halves[clients, k] += self.half_reward * half_labels(
            unit, halves[clients, k], bool(parted[k]), self.confidence, seed
        )
        parted[k] = True
        if len(state.models) == 1:
            reward[clients, k] = self.base_reward
        else:
            known = trained[clients, k] & (reward[clients, k] > 1)
            gained = rewards(centred, known, self.base_reward)
            reward[clients, k] += gained
            halves[clients, k] *= (gained >= 0).float()[:, None]
        trained[clients, k] = True
        return replace(state, halves=halves, reward=reward, trained=trained, parted=parted)

    def maybe_split(self, state: AuxoState, t: int, fed: Federation) -> AuxoState:
        """Split the first cohort whose halves are both known well enough; at given rounds the largest."""
        K = len(state.models)
        if self.max_clusters <= K or t >= self.until:
            return state
        sizes = half_sizes(state)
        forced = int(torch.bincount(state.labels, minlength=K).argmax()) if t in (self.split_rounds or []) else -1
        enough = self.known_share * len(fed.data.stays) * 0.9 ** (K - 1)
        for k, (first, second) in enumerate(sizes.tolist()):
            low, high = self.balance
            balanced = state.splits == 0 or low < first / max(second, 1) < high
            if (k == forced and min(first, second) > 0) or (min(first, second) > enough and balanced):
                return split(state, k, rng(fed.seed, "split", t))
        return state

    def gauges(self, state: AuxoState) -> dict[str, float]:
        """Show the number of splits."""
        return {"splits": float(state.splits)}


def half_labels(unit: Tensor, scores: Tensor, parted: bool, confidence: float, seed: int) -> Tensor:
    """Return ±1 for the half a participant falls into and the other, ``[n, 2]``; zeros where nothing is learnt.

    The first time the participants are parted by 2-means; later those without a label take that of the nearest
    labelled one if it is clearly nearer than any of the other half.
    """
    if not parted:
        with threadpool_limits(1):  # the same on every rank
            half = torch.from_numpy(KMeans(2, n_init=10, random_state=seed).fit(unit.numpy()).labels_).long()
        return F.one_hot(half, 2).float() * 2 - 1
    out, labelled = torch.zeros(len(unit), 2), scores.any(1)
    half = scores.argmax(1)
    apart = torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist")
    groups = [labelled & (half == side) for side in (0, 1)]
    if not all(bool(group.any()) for group in groups):
        return out
    near = torch.stack([apart[:, group].min(1).values for group in groups], 1)
    for side in (0, 1):
        clear = ~labelled & (near[:, 1 - side] > confidence * near[:, side])
        out[clear, side], out[clear, 1 - side] = 1.0, -1.0
    return out


def rewards(centred: Tensor, known: Tensor, base: float) -> Tensor:
    """Return (R0 − R0 · d / (mean d + sd d)) × share known, d being the distance to the known members' centroid."""
    if not bool(known.any()):
        return torch.zeros(len(centred))
    apart = (centred - centred[known].mean(0)).norm(dim=1)
    scale = (apart.mean() + apart.std(correction=0)).clamp_min(1e-12)
    return (base - base * apart / scale) * known.float().mean()


def chosen(state: AuxoState) -> Tensor:
    """Return the cohort of each client: the one with the largest reward; who never trained stays."""
    return torch.where(state.trained.any(1), state.reward.argmax(1), state.labels)


def half_sizes(state: AuxoState) -> Tensor:
    """Count each cohort's members with a label for either half, ``[K, 2]``."""
    member = F.one_hot(state.labels, len(state.models)).bool()
    labelled = state.halves.any(2) & member
    half = state.halves.argmax(2)
    return torch.stack([(labelled & (half == side)).sum(0) for side in (0, 1)], 1)


def split(state: AuxoState, k: int, draw: np.random.Generator) -> AuxoState:
    """Split cohort ``k``: the second half becomes a new one, with a copy of the model. Unknown clients choose anew."""

    def with_child(values: Tensor, first: Tensor, second: Tensor) -> Tensor:
        out = torch.cat([values, second[:, None]], 1)
        out[:, k] = first
        return out

    half, labelled = state.halves[:, k].argmax(1), state.halves[:, k].any(1)
    reward = with_child(state.reward, *(state.reward[:, k] + state.halves[:, k, side] for side in (0, 1)))
    trained = with_child(state.trained, *(state.trained[:, k] & labelled & (half == side) for side in (0, 1)))
    nothing = torch.zeros(len(half), 2)
    K = len(state.models) + 1
    labels = torch.where(trained.any(1), reward.argmax(1), torch.from_numpy(draw.integers(K, size=len(half))))
    return replace(
        state,
        models=torch.cat([state.models, state.models[k : k + 1]]),
        labels=labels,
        server={name: torch.cat([part, part[k : k + 1]]) for name, part in state.server.items()},
        reward=reward,
        halves=with_child(state.halves, nothing, nothing),
        trained=trained,
        parted=torch.cat([state.parted, torch.zeros(1, dtype=torch.bool)]).index_fill(0, torch.tensor([k]), False),
        splits=state.splits + 1,
    )
