"""The variant of FIELDING whose convergence the paper proves (Algorithm 4)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from flcluster.algorithms.rounds.selection import Selection, WithReplacement
from flcluster.clustering.kcentre import KCentre
from flcluster.clustering.kmeans import Clusterer
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job
from flcluster.protocol.participation import Cohort

from .fielding import Fielding, FieldingState
from .reassign import Ids
from .triggers import DeltaRule, FixedDelta


@dataclass(frozen=True, kw_only=True)
class FieldingAnalysis(Fielding):
    """FIELDING as it is analysed: k-centre with a known K, a fixed Δ, rounds of one step with averaged gradients.

    Every round each cluster draws M/K of its clients independently with replacement, each computes a stochastic
    gradient at the cluster's model, and the model takes a step along their mean: c ← c − η avg G(c). As one step of
    plain SGD by each client and the mean of the results is the same, that is how it is done. At a drift event all
    clients, not only those that drifted, are assigned to the nearest cluster.
    """

    local_steps: int | None = 1
    """L: batches of local training per round; 1, or it would be another algorithm."""
    clusterer: Clusterer = field(default_factory=KCentre)
    """How all clients are clustered: KCentre, with its number of clusters."""
    delta_rule: DeltaRule = field(default_factory=lambda: FixedDelta(0.1))
    """Δ, the same throughout: FixedDelta."""
    selection: Selection = field(default_factory=WithReplacement)
    """Which clients of a cluster train: WithReplacement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_steps != 1:
            raise UserError(f"algorithm.local_steps: Algorithm 4 takes one step a round, got {self.local_steps}")

    def init(self, fed: Federation) -> FieldingState:
        """Begin as FIELDING does, if a local step is a step along the gradient."""
        optimizer = fed.optimizer
        plain = isinstance(optimizer, torch.optim.SGD) and not any(g["nesterov"] for g in optimizer.param_groups)
        if not plain:
            raise UserError(
                f"Algorithm 4 steps along averaged gradients, but the model's optimiser is {type(optimizer).__name__}"
                " or has Nesterov momentum: use --model.optimizer sgd"
            )
        return super().init(fed)

    def movers(self, state: FieldingState, drifted: Ids) -> Ids:
        """Send everyone to the nearest centre."""
        return np.union1d(drifted, np.flatnonzero(state.labels.numpy() >= 0))

    def quotas(self, sizes: list[int], fed: Federation) -> list[int]:
        """M/K draws from each cluster that has clients, however few."""
        share = max(1, round(self.wanted(fed) / max(1, sum(size > 0 for size in sizes))))
        return [share if size else 0 for size in sizes]

    def jobs(self, state: FieldingState, cohort: Cohort, t: int, fed: Federation) -> Iterable[Job]:
        """Give a client that was drawn again other samples each time: draws are independent."""
        times: Counter[int] = Counter()
        for job in super().jobs(state, cohort, t, fed):
            drawn, times[job.client] = times[job.client], times[job.client] + 1
            yield replace(job, purpose=f"{job.purpose} again {drawn}") if drawn else job
