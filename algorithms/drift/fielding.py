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

from flcluster.algorithms.rounds.aggregation import Aggregator
from flcluster.algorithms.rounds.fedavg import Average, ClusteredState, FedAvg
from flcluster.clustering.diameter import max_pair_distance, pair_sample
from flcluster.clustering.distances import Distance
from flcluster.clustering.kmeans import Clusterer, KMeansBySilhouette
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.protocol.outcome import Round
from flcluster.protocol.participation import profile_of

from .reassign import Ids, compact, move, warm_start
from .representations import LabelHistogram, Representation
from .triggers import DeltaRule, PairDistance, PrintedRule, Trigger

PAIRS = 20_000
"""Same-cluster pairs that the logged 95th percentile is taken from."""


@dataclass(frozen=True, eq=False)
class FieldingState(ClusteredState):
    """Adds what the coordinator knows of the clients."""

    reports: Tensor
    """Each client's last report, ``[N, D]``; NaN before the first."""
    centres: Tensor
    """Mean report of each cluster, ``[K, D]``."""
    shared: Tensor | None
    """The model that clients describe their data with, if the representation has one."""
    pending: Tensor
    """Clients whose data changed since they last reported, bool ``[N]``."""
    delta: float
    """Δ: pairs further apart than this call for re-clustering."""
    fired: bool
    """Whether the last drift event led to re-clustering."""
    counts: dict[str, float]
    """Totals and last values that the metrics show."""


@dataclass(frozen=True, kw_only=True)
class Fielding(FedAvg[FieldingState]):
    """Clusters that follow drifting clients: each moves on its own; all are re-clustered when clusters fall apart."""

    paper: ClassVar[str] = "Li et al., 2026"

    representation: Representation = field(default_factory=LabelHistogram)
    """What a client reports: LabelHistogram, InputEmbedding, Gradient, or a class of yours."""
    distance: Distance | None = None
    """How reports are compared: L1, JensenShannon, L2; default what the representation names (histograms L1, vectors of
    length 1 L2)."""
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
    """Who reports a change: every client as soon as it is online, or only those that train, after they have trained
    (everyone reports once to register)."""
    server: Aggregator = field(default_factory=lambda: Average("uniform"))
    """How trained models become the new one: Average, Yogi, QFair."""
    measure: Literal["participants", "all"] = "all"
    """Whose accuracy is measured: a round's participants (before and after), or at each session all clients."""

    extra_names: ClassVar[tuple[str, ...]] = (
        *("delta", "reclusterings", "moved", "max_distance", "p95_distance"),
        *("coordinator_seconds", "report_bytes", "report_compute"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = type(self.representation)
        if not isinstance(self.metric, kind.fits):
            names = ", ".join(each.__name__ for each in kind.fits)
            raise UserError(
                f"algorithm.distance {type(self.metric).__name__} does not fit {kind.__name__}: use {names}"
            )

    @property
    def metric(self) -> Distance:
        """How reports are compared."""
        return self.distance or self.representation.natural

    def init(self, fed: Federation) -> FieldingState:
        """Let everyone who holds data register, and cluster them; all models begin as one (Algorithm 1)."""
        N, shared = fed.data.num_clients, self.representation.shared_model(fed)
        known = fed.data.holding(0)
        if not len(known):
            raise UserError("no client holds training data at round 0: change data.arrivals or data.window")
        points = self.representation.of(known, 0, shared, fed)
        began = time.perf_counter()
        found = self.clusterer.cluster(points, self.metric, fed.seed, 0)
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
            pending=torch.zeros(N, dtype=torch.bool),
            delta=self.delta_rule.initial,
            fired=False,
            counts=dict.fromkeys(self.extra_names, 0.0),
        )
        return self.counted(state, known, len(known), 0, fed, seconds)

    def opening_seconds(self, state: FieldingState, fed: Federation) -> float:
        """Return how long registration takes: everyone receives the shared model, if there is one, and reports."""
        model = 0 if state.shared is None else fed.layout.row_bytes
        return self.reporting_seconds(fed.data.holding(0), state, 0, fed, model)

    def follow(self, state: FieldingState, t: int, fed: Federation) -> tuple[FieldingState, float]:
        """Let clients whose data changed report before the round, at least those that were not known yet."""
        drifted, pending = fed.data.drifted(t), state.pending
        if len(drifted):
            pending = pending.clone()
            pending[drifted] = True
            state = replace(state, pending=pending)
        return self.take_in(state, state.labels < 0 if self.reporters == "participants" else pending, t, fed)

    def learn(self, state: FieldingState, t: int, done: Round, fed: Federation) -> tuple[FieldingState, Round]:
        """Let the clients that trained report, where only those do."""
        if self.reporters == "participants":
            trained = torch.zeros_like(state.pending)
            trained[[result.client for result in done.results]] = True
            state, seconds = self.take_in(state, trained, t, fed)
            done = replace(done, cohort=done.cohort.delayed(seconds))
        return state, done

    # drift: Algorithm 2 -----------------------------------------------------------------------------------------

    def take_in(self, state: FieldingState, some: Tensor, t: int, fed: Federation) -> tuple[FieldingState, float]:
        """Let some of the clients whose data changed report; what differs from their last report is a drift event."""
        waiting = (some & state.pending).numpy()
        if not waiting.any():
            return state, 0.0
        holding = fed.data.holding(t)  # an empty window: the last report stands
        asked = self.online(holding[waiting[holding]], fed)
        if not len(asked):
            return state, 0.0
        pending = state.pending.clone()
        pending[asked] = False
        points = torch.from_numpy(self.representation.of(asked, t, state.shared, fed))
        changed = (points != state.reports[asked]).any(1)  # a first report changes too: NaN differs from everything
        waited = self.reporting_seconds(asked, state, t, fed)
        state, drifted = replace(state, pending=pending), asked[changed.numpy()]
        began = time.perf_counter()
        if len(drifted):
            reports = state.reports.clone()
            reports[drifted] = points[changed]
            state = self.event(replace(state, reports=reports), drifted, t, fed)
        seconds = time.perf_counter() - began
        return self.counted(state, asked, len(drifted), t, fed, seconds), waited

    def event(self, state: FieldingState, drifted: Ids, t: int, fed: Federation) -> FieldingState:
        """Move the drifted clients; re-cluster everyone if clusters have fallen apart; adapt Δ."""
        movers = self.movers(state, drifted)
        labels, centres = move(state.labels, state.centres, state.reports, movers, self.metric)
        moved = float(((labels != state.labels) & (state.labels >= 0)).sum())
        counts = {**state.counts, "moved": state.counts["moved"] + moved}
        fired = self.recluster == "always"
        if self.recluster == "selective":
            known = labels >= 0
            points, owners = state.reports[known].numpy(), labels[known].numpy()
            before, now = state.centres.numpy(), centres.numpy()
            fired = self.trigger.fires(points, owners, before, now, state.delta, self.metric, fed.seed, t)
        state = replace(state, labels=labels, centres=centres, counts=counts)
        state = self.reclustered(state, t, fed) if fired else self.without_empty(state)
        return replace(state, delta=self.delta_rule.update(state.delta, fired, state.fired), fired=fired)

    def movers(self, state: FieldingState, drifted: Ids) -> Ids:
        """Say who is sent to the nearest centre: those that drifted, or only those among them that are new."""
        return drifted if self.moves else drifted[state.labels[drifted].numpy() < 0]

    def reclustered(self, state: FieldingState, t: int, fed: Federation) -> FieldingState:
        """Cluster all clients anew; each new model is the mean of what its clients used (Algorithm 3, and 2's end)."""
        known = state.labels >= 0
        found = self.clusterer.cluster(state.reports[known].numpy(), self.metric, fed.seed, t)
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

    def reporting_seconds(
        self, clients: Ids, state: FieldingState, t: int, fed: Federation, download: int = 0
    ) -> float:
        """Return how long the slowest client takes to compute and send its report."""
        if self.devices is None:
            return 0.0
        profile, wire = profile_of(self.devices, fed.data.num_clients, fed.seed), 4 * state.reports.shape[1]
        seconds = profile.seconds(clients, fed.data.sizes_of(clients, t), download, wire, self.representation.passes)
        return float(seconds.max(initial=0.0))

    def counted(
        self, state: FieldingState, asked: Ids, sent: int, t: int, fed: Federation, seconds: float
    ) -> FieldingState:
        """Add up what reports (computed by those asked, sent where they differ) and the coordinator cost."""
        known, old = state.labels >= 0, state.counts
        points, labels = state.reports[known].numpy(), state.labels[known].numpy()
        apart = pair_sample(points, labels, self.metric, PAIRS, fed.seed, t)
        counts = {
            **old,
            "max_distance": max_pair_distance(points, labels, self.metric),
            "p95_distance": float(np.quantile(apart, 0.95)) if len(apart) else 0.0,
            "coordinator_seconds": old["coordinator_seconds"] + seconds,
            "report_bytes": old["report_bytes"] + 4.0 * state.reports.shape[1] * sent,
            "report_compute": old["report_compute"]
            + self.representation.passes * float(fed.data.sizes_of(asked, t).sum()),
        }
        return replace(state, counts=counts)

    def gauges(self, state: FieldingState) -> dict[str, float]:
        """Show the coordinator's numbers."""
        return {**state.counts, "delta": state.delta}

    def distances(self, state: FieldingState, clients: Ids, t: int, fed: Federation) -> NDArray[np.float64]:
        """Return how far clients' reports lie from the centre of their cluster."""
        between = self.metric.between(state.reports[clients].numpy(), state.centres.numpy())
        own = between[np.arange(len(clients)), state.labels[clients].numpy()]
        return np.asarray(own, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class StaticClustering(Fielding):
    """Cluster once, by the first reports; nobody moves afterwards (clients that register later join the nearest)."""

    moves: bool = False
    """Whether a client that reports a change moves to the nearest cluster."""
    recluster: Literal["selective", "always", "never"] = "never"
    """At a drift event: re-cluster everyone when the trigger fires, always, or never."""


@dataclass(frozen=True, kw_only=True)
class AlwaysRecluster(Fielding):
    """Re-cluster everyone at every drift event."""

    recluster: Literal["selective", "always", "never"] = "always"
    """At a drift event: re-cluster everyone when the trigger fires, always, or never."""


@dataclass(frozen=True, kw_only=True)
class MoveIndividuals(Fielding):
    """Only move drifted clients, one by one; the number of clusters never grows."""

    recluster: Literal["selective", "always", "never"] = "never"
    """At a drift event: re-cluster everyone when the trigger fires, always, or never."""


@dataclass(frozen=True, kw_only=True)
class SelectedOnly(Fielding):
    """Only clients that train report, after they have trained; of the others the coordinator knows old reports."""

    reporters: Literal["drifted", "participants"] = "participants"
    """Who reports: every client whose data changed, or only those that train, after they have trained."""
