"""FedDrift: Federated Learning under Distributed Concept Drift (Jothimurugesan et al., 2023)."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from flcluster.data import View
from flcluster.federation.averaging import average_by_label
from flcluster.federation.federation import Federation
from flcluster.protocol.base import at_least
from flcluster.protocol.outcome import Round, Served
from flcluster.protocol.rounds import RoundAlgorithm
from flcluster.seeds import rng

Accuracies = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DriftState:
    """Models, and which of them each client's data of each step belong to."""

    models: Tensor
    """``[K, P]``"""
    assigned: Tensor
    """The model that each client's data of each step belong to, int64 ``[S, N]``; −1: it held none."""
    labels: Tensor
    """The model each client uses, int64 ``[N]``; −1: none yet."""
    best: Tensor
    """The accuracy of each client's best model at the last step (less is better: negative), ``[N]``; NaN before."""
    alone: Tensor
    """The step up to which each model is isolated, int64 ``[K]``."""
    counts: dict[str, float] = field(default_factory=dict)
    """Totals that the metrics show."""


@dataclass(frozen=True, kw_only=True)
class FedDrift(RoundAlgorithm[DriftState]):
    """A client whose accuracy falls gets a new model; models that do equally well on each other's data are merged.

    Time goes in steps, each of which begins when data of anyone change. A client's data of a step are all that it holds
    then: they belong to one model, which it trains until the next step and is served. At a step everyone evaluates
    every model, and in every round everyone trains: meant for tens of clients.
    """

    paper: ClassVar[str] = "Jothimurugesan et al., 2023"

    delta: float = 0.1
    """δ: a fall in accuracy (or a change for the worse in what models are scored by) that counts as drift."""
    merge: float | None = None
    """δ′: models whose accuracies on each other's data fall by at most this are merged; δ if not given."""
    isolation: int = 1
    """W: steps for which a new model belongs to its first client alone."""
    max_models: int = 10
    """Most models at a time. At that number models that no data belong to any more give way, and if there is none a
    drifted client stays with its best model."""
    merge_batches: int = 20
    """Most batches of a cluster's data that merging looks at."""

    extra_names: ClassVar[tuple[str, ...]] = ("drifts", "merges", "report_bytes", "report_compute")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("isolation", "max_models", "merge_batches"):
            at_least(name, getattr(self, name), 1)

    def init(self, fed: Federation) -> DriftState:
        """One model for everyone who holds data."""
        sizes, N = torch.from_numpy(fed.data.sizes(0)), fed.data.num_clients
        labels = torch.where(sizes > 0, 0, -1)
        return DriftState(
            models=fed.init_rows(1),
            assigned=labels[None],
            labels=labels,
            best=torch.full((N,), torch.nan),
            alone=torch.zeros(1, dtype=torch.int64),
            counts=dict.fromkeys(self.extra_names, 0.0),
        )

    def step(self, state: DriftState, t: int, fed: Federation) -> tuple[DriftState, Round]:
        """Look for drift if data changed; then train every model on all data that belong to it."""
        tried = 0
        if len(fed.data.drifted(t)):
            state = self.next_step(state, t, fed)
            tried = len(state.models)
        cohort = self.select(t, fed, downloads=max(1, tried), forwards=tried)  # at a step everyone tries all models
        cohort = cohort.assigned(state.labels[cohort.clients].tolist())
        training = fed.train(self.job(m, state.models[k], t, fed) for m, k in cohort)
        models = average_by_label(training, cohort.places, state.models, weight=lambda result: float(result.size))
        counts = self.reported(state.counts, np.setdiff1d(fed.data.holding(t), cohort.clients), tried, t, fed)
        return replace(state, models=models, counts=counts), Round(cohort, training.results, models)

    def reported(
        self, counts: dict[str, float], others: NDArray[np.int64], tried: int, t: int, fed: Federation
    ) -> dict[str, float]:
        """Add up what trying all models costs those who do not take part in the round; its cohort has its own costs."""
        sent, passes = len(others) * tried * fed.layout.row_bytes, tried * int(fed.data.sizes_of(others, t).sum())
        return {
            **counts,
            "report_bytes": counts["report_bytes"] + float(sent),
            "report_compute": counts["report_compute"] + float(passes),
        }

    def served(self, state: DriftState, t: int, fed: Federation) -> Served:
        """The model that a client's data belong to."""
        return Served(state.models, state.labels.numpy())

    def server_models(self, state: DriftState) -> Tensor:
        """All models."""
        return state.models

    def cluster_of(self, state: DriftState, client: int) -> int:
        """The client's cluster; the first one before it has any."""
        return max(int(state.labels[client]), 0)

    # a step: data changed ---------------------------------------------------------------------------------------

    def next_step(self, state: DriftState, t: int, fed: Federation) -> DriftState:
        """Assign what clients hold; start new models for those that drifted; merge models that do alike."""
        step = len(state.assigned)
        held = {m: fed.shard(m, t).train for m in fed.data.holding(t).tolist()}
        free = [k for k in range(len(state.models)) if int(state.alone[k]) < step]
        models, alone = [*state.models], state.alone.tolist()
        assigned, labels, best = torch.full_like(state.labels, -1), state.labels.clone(), state.best.clone()
        counts = dict(state.counts)
        for m, view in held.items():
            own = int(labels[m])
            if own >= 0 and own not in free:
                assigned[m] = own  # its own new model is still isolated
                continue
            scores = [fed.goodness(state.models[k], view) for k in free]
            top, k = max(scores), free[scores.index(max(scores))]
            if float(best[m]) - top > self.delta and len(models) < self.max_models:
                models.append(state.models[k].clone())  # begins as the client's best model
                alone.append(step + self.isolation - 1)
                k = len(models) - 1
                counts["drifts"] += 1
            assigned[m], labels[m], best[m] = k, k, top
        state = replace(
            state,
            models=torch.stack(models),
            assigned=torch.cat([state.assigned, assigned[None]]),
            labels=labels,
            best=best,
            alone=torch.tensor(alone),
            counts=counts,
        )
        return self.merged(state, t, fed)

    def merged(self, state: DriftState, t: int, fed: Federation) -> DriftState:
        """Merge models by complete linkage of how much worse they do on each other's data."""
        step, every = len(state.assigned) - 1, range(len(state.models))
        data = self.cluster_data(state, t, fed)
        free = [k for k in data if int(state.alone[k]) < step]
        kept = {*data, *state.labels[state.labels >= 0].tolist()} if len(every) >= self.max_models else every
        groups = [[k] for k in every if k in kept and k not in free]
        if len(free) > 1:
            scores = np.array([[fed.goodness(state.models[i], data[j]) for j in free] for i in free])
            cut = self.delta if self.merge is None else self.merge
            found = clusters_of(scores, cut)
            groups += [[free[i] for i in np.flatnonzero(found == g)] for g in np.unique(found)]
        else:
            groups += [[k] for k in free]
        return merge_groups(state, sorted(groups))

    def cluster_data(self, state: DriftState, t: int, fed: Federation) -> dict[int, View]:
        """Return some of the training samples that belong to each model, at most ``merge_batches`` batches."""
        parts: dict[int, list[View]] = {}
        for client in fed.data.holding(t).tolist():
            parts.setdefault(int(state.labels[client]), []).append(fed.shard(client, t).train)
        most = self.merge_batches * self.batch_size
        return {
            k: sampled([p for v in parts[k] for p in v.parts], most, rng(fed.seed, "merge", t, k))
            for k in sorted(parts)
        }

    def gauges(self, state: DriftState) -> dict[str, float]:
        """Show the totals."""
        return state.counts


def sampled(parts: "list[tuple[object, Tensor]]", most: int, draw: np.random.Generator) -> View:
    """Return at most ``most`` samples of some parts, each part in proportion."""
    total = sum(len(index) for _, index in parts)
    share = min(1.0, most / max(total, 1))
    picked = [
        (s, i[torch.from_numpy(np.sort(draw.permutation(len(i))[: max(1, round(share * len(i)))]))]) for s, i in parts
    ]
    return View(tuple(picked))  # type: ignore[arg-type]


def clusters_of(scores: Accuracies, cut: float) -> NDArray[np.int64]:
    """Cluster models by complete linkage; the distance is the larger of the two falls in accuracy, at least 0."""
    own = np.diag(scores)
    fall = np.maximum(np.maximum(own[:, None] - scores, (own[:, None] - scores).T), 0.0)
    np.fill_diagonal(fall, 0.0)
    found = fcluster(linkage(squareform(fall, checks=False), "complete"), cut, "distance")
    return np.asarray(found, dtype=np.int64)


def merge_groups(state: DriftState, groups: list[list[int]]) -> DriftState:
    """Average the models of each group by their (step, client) contributions; models in no group are dropped."""
    use = torch.bincount(state.assigned[state.assigned >= 0], minlength=len(state.models)).double()
    place = torch.full((len(state.models) + 1,), -1, dtype=torch.int64)
    rows, alone = [], []
    for new, group in enumerate(groups):
        weights = use[group] + (0.0 if len(group) > 1 else 1.0)  # a model alone stays, also without contributions
        rows.append((weights / weights.sum()).to(state.models) @ state.models[group])
        alone.append(int(state.alone[group].max()))
        place[group] = new
    merges = sum(len(group) - 1 for group in groups)
    counts = {**state.counts, "merges": state.counts["merges"] + merges}
    return replace(
        state,
        models=torch.stack(rows),
        assigned=place[state.assigned],
        labels=place[state.labels],
        alone=torch.tensor(alone),
        counts=counts,
    )
