"""FIELDING: Clustered Federated Learning with Data Drift (Li et al., 2026).

Numbers of algorithms in comments are the paper's.
"""

import time
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.clustering import Clusterer, KMeansBySilhouette
from flcluster.diameter import pair_sample
from flcluster.distances import L1, Distance
from flcluster.drift import DeltaRule, PairDistance, PrintedRule, Trigger
from flcluster.errors import UserError
from flcluster.federation import Federation
from flcluster.represent import LabelHistogram, Representation
from flcluster.rounds import Round, profile_of

from .aggregation import Average, Server
from .clustered import ClusteredRounds, ClusteredState
from .reassign import Ids, compact, move, warm_start

PAIRS = 20_000
"""Same-cluster pairs that the logged largest distance and 95th percentile are taken from."""


@dataclass(frozen=True, eq=False)
class FieldingState(ClusteredState):
    """Adds what the coordinator knows of the clients."""

    reports: Tensor
    """Each client's last report, ``[N, D]``; NaN before the first."""
    centres: Tensor
    """Mean report of each cluster, ``[K, D]``."""
    shared: Tensor | None
    """The model that clients describe their data with, if the representation has one."""
    delta: float
    """Δ: pairs further apart than this call for re-clustering."""
    fired: bool
    """Whether the last drift event led to re-clustering."""
    counts: dict[str, float]
    """Totals and last values that the metrics show."""


@dataclass(frozen=True, kw_only=True)
class Fielding(ClusteredRounds[FieldingState]):
    """Clusters that follow drifting clients: each moves on its own; all are re-clustered when clusters fall apart."""

    representation: Representation = field(default_factory=LabelHistogram)
    """What a client reports: LabelHistogram, InputEmbedding, Gradient, or a class of yours."""
    distance: Distance = field(default_factory=L1)
    """How reports are compared: L1, JensenShannon, L2."""
    clusterer: Clusterer = field(default_factory=KMeansBySilhouette)
    """How all clients are clustered."""
    trigger: Trigger = field(default_factory=PairDistance)
    """When all clients are re-clustered, given Δ: PairDistance, CentreShift."""
    delta_rule: DeltaRule = field(default_factory=PrintedRule)
    """How Δ adapts: PrintedRule, HoldOnSingle, FixedDelta."""
    recluster: Literal["selective", "always", "never"] = "selective"
    """At a drift event: re-cluster everyone when the trigger fires, always, or never."""
    moves: bool = True
    """Whether a client that reports a change moves to the nearest cluster."""
    reporters: Literal["drifted", "participants"] = "drifted"
    """Who reports: every client whose data changed, or only those that train, after they have trained."""
    server: Server = field(default_factory=lambda: Average("uniform"))
    """How trained models become the new one: Average, Yogi, QFair."""
    measure: Literal["participants", "all"] = "all"
    """Whose accuracy is measured: a round's participants (before and after), or at each session all clients."""

    state_type: ClassVar[type] = FieldingState
    extra_names: ClassVar[tuple[str, ...]] = (
        *("delta", "reclusterings", "moved", "max_distance", "p95_distance"),
        *("coordinator_seconds", "report_bytes", "report_compute"),
    )

    def init(self, fed: Federation) -> FieldingState:
        """Let everyone who holds data register, and cluster them; all models begin as one (Algorithm 1)."""
        N, shared = fed.data.num_clients, self.representation.shared_model(fed)
        known = np.flatnonzero(fed.data.sizes(0))
        if not len(known):
            raise UserError("no client holds training data at round 0: change data.arrivals or data.window")
        points = self.representation.of(known, 0, shared, fed)
        began = time.perf_counter()
        found = self.clusterer.cluster(points, self.distance, fed.seed, 0)
        seconds = time.perf_counter() - began
        reports = torch.full((N, points.shape[1]), torch.nan)
        reports[known] = torch.from_numpy(points)
        labels = torch.full((N,), -1, dtype=torch.int64)
        labels[known] = torch.from_numpy(found.labels)
        models = fed.init_rows(1).expand(len(found.centres), -1).clone()
        state = FieldingState(
            models=models,
            labels=labels,
            server=self.server.start(models),
            memory=self.selection.start(N),
            reports=reports,
            centres=torch.from_numpy(found.centres),
            shared=shared,
            delta=self.delta_rule.initial,
            fired=False,
            counts=dict.fromkeys(self.extra_names, 0.0),
        )
        return self.counted(state, known, 0, fed, seconds=seconds)

    def follow(self, state: FieldingState, t: int, fed: Federation) -> tuple[FieldingState, float]:
        """Let the clients whose data changed report before the round."""
        if self.reporters == "participants":
            return state, 0.0
        return self.take_in(state, fed.data.drifted(t), t, fed)

    def after(self, state: FieldingState, t: int, done: Round, fed: Federation) -> tuple[FieldingState, Round]:
        """Let the clients that trained report, where only those do."""
        if self.reporters == "participants":
            asked = np.array([result.client for result in done.trained], dtype=np.int64)
            state, seconds = self.take_in(state, asked, t, fed)
            done.seconds += seconds
        return state, done

    # drift: Algorithm 2 -----------------------------------------------------------------------------------------

    def take_in(self, state: FieldingState, asked: Ids, t: int, fed: Federation) -> tuple[FieldingState, float]:
        """Take in reports; those that differ from the client's last one make a drift event."""
        asked = asked[fed.data.sizes(t)[asked] > 0]  # an empty window: the last report stands
        if not len(asked):
            return state, 0.0
        points = torch.from_numpy(self.representation.of(asked, t, state.shared, fed))
        changed = (points != state.reports[asked]).any(1)  # a first report changes too: NaN differs from everything
        began = time.perf_counter()
        if changed.any():
            reports = state.reports.clone()
            reports[asked[changed.numpy()]] = points[changed]
            state = self.event(replace(state, reports=reports), asked[changed.numpy()], t, fed)
        seconds = time.perf_counter() - began
        waited = self.reporting_seconds(asked, 4 * points.shape[1], t, fed)
        return self.counted(state, asked, t, fed, seconds), waited

    def event(self, state: FieldingState, drifted: Ids, t: int, fed: Federation) -> FieldingState:
        """Move the drifted clients; re-cluster everyone if clusters have fallen apart; adapt Δ."""
        movers = drifted if self.moves else drifted[state.labels[drifted].numpy() < 0]
        labels, centres = move(state.labels, state.centres, state.reports, movers, self.distance)
        counts = {**state.counts, "moved": state.counts["moved"] + float((labels != state.labels).sum())}
        fired = self.recluster == "always"
        if self.recluster == "selective":
            known = labels >= 0
            points, owners = state.reports[known].numpy(), labels[known].numpy()
            before, now = state.centres.numpy(), centres.numpy()
            fired = self.trigger.fires(points, owners, before, now, state.delta, self.distance, fed.seed, t)
        state = replace(state, labels=labels, centres=centres, counts=counts)
        state = self.reclustered(state, t, fed) if fired else self.without_empty(state)
        return replace(state, delta=self.delta_rule.update(state.delta, fired, state.fired), fired=fired)

    def reclustered(self, state: FieldingState, t: int, fed: Federation) -> FieldingState:
        """Cluster all clients anew; each new model is the mean of what its clients used (Algorithm 3, and 2's end)."""
        known = state.labels >= 0
        found = self.clusterer.cluster(state.reports[known].numpy(), self.distance, fed.seed, t)
        new = torch.from_numpy(found.labels)
        models = warm_start(state.models, state.labels[known], new, len(found.centres))
        labels = state.labels.clone()
        labels[known] = new
        return replace(
            state,
            models=models,
            labels=labels,
            centres=torch.from_numpy(found.centres),
            server=self.server.start(models),
            counts={**state.counts, "reclusterings": state.counts["reclusterings"] + 1},
        )

    def without_empty(self, state: FieldingState) -> FieldingState:
        """Drop clusters that lost all their clients."""
        labels, kept = compact(state.labels, len(state.models))
        if len(kept) == len(state.models):
            return state
        server = {name: part[kept] for name, part in state.server.items()}
        return replace(state, models=state.models[kept], labels=labels, centres=state.centres[kept], server=server)

    # what it costs and shows ------------------------------------------------------------------------------------

    def reporting_seconds(self, clients: Ids, wire: int, t: int, fed: Federation) -> float:
        """Return how long the slowest client that is online takes to compute and send its report."""
        if self.devices is None:
            return 0.0
        profile = profile_of(self.devices, fed.data.num_clients, fed.seed)
        there = clients[profile.online(clients, fed.now)]
        seconds = profile.seconds(there, fed.data.sizes(t)[there], 0, wire, self.representation.passes)
        return float(seconds.max(initial=0.0))

    def counted(self, state: FieldingState, asked: Ids, t: int, fed: Federation, seconds: float) -> FieldingState:
        """Add up what reports and the coordinator cost, and look at how far apart clusters are."""
        known, old = state.labels >= 0, state.counts
        apart = pair_sample(state.reports[known].numpy(), state.labels[known].numpy(), self.distance, PAIRS, fed.seed)
        counts = {
            **old,
            "max_distance": float(apart.max(initial=0.0)),
            "p95_distance": float(np.quantile(apart, 0.95)) if len(apart) else 0.0,
            "coordinator_seconds": old["coordinator_seconds"] + seconds,
            "report_bytes": old["report_bytes"] + 4.0 * state.reports.shape[1] * len(asked),
            "report_compute": old["report_compute"]
            + self.representation.passes * float(fed.data.sizes(t)[asked].sum()),
        }
        return replace(state, counts=counts)

    def gauges(self, state: FieldingState) -> dict[str, float]:
        """Show the coordinator's numbers."""
        return {**state.counts, "delta": state.delta}

    def distances(self, state: FieldingState, clients: Ids, t: int, fed: Federation) -> NDArray[np.float64]:
        """Return how far clients' reports lie from the centre of their cluster."""
        between = self.distance.between(state.reports[clients].numpy(), state.centres.numpy())
        return between[np.arange(len(clients)), state.labels[clients].numpy()].astype(np.float64)
