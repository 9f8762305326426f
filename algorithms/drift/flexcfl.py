"""FlexCFL: Flexible Clustered Federated Learning for Client-Level Data Distribution Shift (Duan et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from flcluster.algorithms.rounds.fedavg import ClusteredState, FedAvg
from flcluster.clustering.diameter import TOLERANCE
from flcluster.clustering.points import shares
from flcluster.errors import UserError
from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, samples_processed
from flcluster.protocol.base import at_least
from flcluster.protocol.needs import CLASSES
from flcluster.protocol.outcome import Round
from flcluster.protocol.participation import profile_of
from flcluster.seeds import rng

from .reassign import Ids

BLOCK = 16
"""Updates multiplied at once with as many others."""


@dataclass(frozen=True, eq=False)
class FlexState(ClusteredState):
    """Adds what groups are told apart by."""

    initial: Tensor
    """The weights that every pre-training starts from, ``[P]``."""
    directions: Tensor
    """Mean update of each group's founders, ``[K, P]``; fixed."""
    known: Tensor
    """Label shares with which each client last joined, ``[N, C]``; NaN before."""
    pending: Tensor
    """Clients whose data changed since their labels were last compared, bool ``[N]``."""
    counts: dict[str, float]
    """Totals that the metrics show."""


@dataclass(frozen=True, kw_only=True)
class FlexCFL(FedAvg[FlexState]):
    """Groups by the direction of a short pre-training; a client whose labels shift pre-trains and joins again."""

    needs: ClassVar[tuple[str, ...]] = (CLASSES,)
    paper: ClassVar[str] = "Duan et al., 2021"

    num_clusters: int = 4
    """m: number of groups; fixed."""
    pretrain_steps: int = 50
    """Batches of the pre-training that tells where a client belongs."""
    founders: int = 20
    """Clients per group whose updates make the groups."""
    shift: float = 0.2
    """A client joins again if the L1 distance of its label shares to those it joined with exceeds this."""
    group_lr: float = 0.0
    """η_g: weight with which groups are drawn towards each other's models after a round."""

    extra_names: ClassVar[tuple[str, ...]] = ("moved", "report_bytes", "report_compute")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_clusters", "pretrain_steps", "founders"):
            at_least(name, getattr(self, name), 1)

    def init(self, fed: Federation) -> FlexState:
        """Found the groups with some clients, then let the others join."""
        N, initial = fed.data.num_clients, fed.init_rows(1)[0]
        here = fed.data.holding(0)
        count = min(self.founders * self.num_clusters, len(here))
        founders = np.sort(rng(fed.seed, "founders").choice(here, count, replace=False))
        if not count:
            raise UserError("no client holds training data at round 0: change data.arrivals or data.window")
        fed.note(f"pre-training {len(here)} clients to found {self.num_clusters} groups")
        with fed.bank.scratch(count) as updates:
            for i, update in enumerate(self.updates(initial, founders, 0, fed)):
                updates[i] = update
            products = gram(updates, fed.layout.num_parameters)
            group = grouped(products, min(self.num_clusters, count), fed.seed)
            directions = group_means(updates, group).to(initial)
        models = initial + directions
        labels = torch.full((N,), -1, dtype=torch.int64)
        labels[founders] = torch.from_numpy(group)
        known = torch.full((N, fed.data.num_classes), torch.nan)
        known[founders] = torch.from_numpy(shares(fed.data.label_counts(founders, 0)))
        state = FlexState(
            models=models,
            labels=labels,
            server=self.server.start(models),
            memory=self.selection.start(N),
            initial=initial,
            directions=directions,
            known=known,
            pending=torch.zeros(N, dtype=torch.bool),
            counts=dict.fromkeys(self.extra_names, 0.0),
        )
        return self.join(self.counted(state, founders, 0, fed), np.setdiff1d(here, founders), 0, fed)

    def follow(self, state: FlexState, t: int, fed: Federation) -> tuple[FlexState, float]:
        """Let clients whose labels shifted far enough join again, and new ones for the first time."""
        pending = state.pending.clone()
        pending[fed.data.drifted(t)] = True
        holding = fed.data.holding(t)
        drifted = self.online(holding[pending[holding].numpy()], fed)
        pending[drifted] = False
        now = shares(fed.data.label_counts(drifted, t))
        apart = np.abs(now - state.known[drifted].numpy()).sum(1)
        movers = drifted[~(apart <= self.shift + TOLERANCE)]  # NaN: not known yet
        return self.join(replace(state, pending=pending), movers, t, fed), self.joining_seconds(movers, t, fed)

    def opening_seconds(self, state: FlexState, fed: Federation) -> float:
        """Return how long the first pre-training of everyone takes."""
        return self.joining_seconds(fed.data.holding(0), 0, fed)

    def join(self, state: FlexState, clients: Ids, t: int, fed: Federation) -> FlexState:
        """Pre-train clients from the initial weights; each joins the group whose direction is most like its own."""
        if not len(clients):
            return state
        width = fed.layout.num_parameters
        directions = F.normalize(state.directions[:, :width], dim=1)
        labels, known = state.labels.clone(), state.known.clone()
        for client, update in zip(clients.tolist(), self.updates(state.initial, clients, t, fed), strict=True):
            labels[client] = int((directions @ update[:width]).argmax())  # the smallest (1 − cos) / 2
        known[clients] = torch.from_numpy(shares(fed.data.label_counts(clients, t)))
        moved = float(((labels != state.labels) & (state.labels >= 0)).sum())
        counts = {**state.counts, "moved": state.counts["moved"] + moved}
        return self.counted(replace(state, labels=labels, known=known, counts=counts), clients, t, fed)

    def updates(self, initial: Tensor, clients: Ids, t: int, fed: Federation) -> Iterator[Tensor]:
        """Pre-train clients from the initial weights; yield what that changed (nothing, if it diverged)."""
        jobs = [
            Job(m, initial, fed.shard(m, t).train, 1, self.batch_size, "join", t, steps=self.pretrain_steps)
            for m in clients.tolist()
        ]
        for trained in fed.train(jobs):
            yield trained.row - initial if trained.finite else torch.zeros_like(initial)

    def learn(self, state: FlexState, t: int, done: Round, fed: Federation) -> tuple[FlexState, Round]:
        """Draw groups towards each other, if asked to."""
        return (replace(state, models=drawn_together(state.models, self.group_lr)) if self.group_lr else state), done

    # what it costs ----------------------------------------------------------------------------------------------

    def joining_samples(self, clients: Ids, t: int, fed: Federation) -> NDArray[np.int64]:
        """Return how many samples each client's pre-training goes through."""
        sizes, norm = fed.data.sizes_of(clients, t).tolist(), fed.layout.has_batch_norm
        processed = [samples_processed(n, 1, self.batch_size, self.pretrain_steps, norm) for n in sizes]
        return np.array(processed, dtype=np.int64)

    def joining_seconds(self, clients: Ids, t: int, fed: Federation) -> float:
        """Return how long the slowest client takes to download, pre-train and upload."""
        if self.devices is None:
            return 0.0
        profile, wire = profile_of(self.devices, fed.data.num_clients, fed.seed), fed.layout.row_bytes
        return float(profile.seconds(clients, self.joining_samples(clients, t, fed), wire, wire).max(initial=0.0))

    def counted(self, state: FlexState, clients: Ids, t: int, fed: Federation) -> FlexState:
        """Add up what joining costs: a model each way and the pre-training."""
        old, samples = state.counts, float(self.joining_samples(clients, t, fed).sum())
        sent = 2.0 * fed.layout.row_bytes * len(clients)
        counts = {"report_bytes": old["report_bytes"] + sent, "report_compute": old["report_compute"] + 3 * samples}
        return replace(state, counts={**old, **counts})

    def gauges(self, state: FlexState) -> dict[str, float]:
        """Show the totals."""
        return state.counts


def gram(updates: Table, width: int) -> NDArray[np.float64]:
    """Return the products of all pairs of updates over their first ``width`` numbers, a few rows at a time."""
    n = updates.count
    out = np.zeros((n, n))
    for a in range(0, n, BLOCK):
        left = torch.stack([updates[i][:width] for i in range(a, min(a + BLOCK, n))])
        for b in range(a, n, BLOCK):
            right = torch.stack([updates[i][:width] for i in range(b, min(b + BLOCK, n))])
            out[a : a + len(left), b : b + len(right)] = (left @ right.T).numpy()
            out[b : b + len(right), a : a + len(left)] = (right @ left.T).numpy()
    return out


def grouped(products: NDArray[np.float64], count: int, seed: int) -> NDArray[np.int64]:
    """Group updates by k-means on their cosines to the ``count`` leading singular directions of the update matrix.

    With D = U Σ Vᵀ the cosine of row i to direction j is U_ij Σ_j / ‖D_i‖, which the products D Dᵀ = U Σ² Uᵀ tell.
    """
    values, vectors = np.linalg.eigh(products)
    top = slice(-1, -count - 1, -1)
    length = np.sqrt(np.maximum(np.diag(products), 1e-30))
    cosines = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0)) / length[:, None]
    state = int(rng(seed, "groups").integers(2**31))
    with threadpool_limits(1):  # the same on every rank
        found = KMeans(count, n_init=10, max_iter=20, random_state=state).fit(cosines).labels_
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def group_means(updates: Table, group: NDArray[np.int64]) -> Tensor:
    """Return the mean update of each group, ``[K, P]``."""
    totals = torch.zeros(int(group.max()) + 1, updates.width)
    for i, g in enumerate(group.tolist()):
        totals[g] += updates[i]
    return totals / torch.from_numpy(np.bincount(group))[:, None]


def drawn_together(models: Tensor, eta: float) -> Tensor:
    """Return w_g ← (w_g + Σ_{j≠g} (η/‖w_j‖) w_j) / (1 + Σ_{j≠g} η/‖w_j‖)."""
    pull = eta / models.norm(dim=1).clamp_min(1e-12)
    weights = pull.expand(len(models), -1).clone().fill_diagonal_(1.0)
    drawn: Tensor = (weights / weights.sum(1, keepdim=True)) @ models
    return drawn
