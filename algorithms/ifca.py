"""An Efficient Framework for Clustered Federated Learning (IFCA; Ghosh et al., 2020)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from flcluster.algorithm import at_least
from flcluster.averaging import weighted_sums
from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation import Federation
from flcluster.rounds import Load, Round, RoundAlgorithm, Served


@dataclass(frozen=True, eq=False)
class ModelsState:
    """The server's models ``[K, P]``."""

    models: Tensor


@dataclass(frozen=True, kw_only=True)
class IFCA(RoundAlgorithm[ModelsState]):
    """Each participant picks the model with the smallest training loss and trains it; the server averages by choice."""

    num_clusters: int | None = None
    """k: number of models; the data's number of clusters if not given."""

    state_type: ClassVar[type] = ModelsState
    named_clusters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_clusters is not None:
            at_least("num_clusters", self.num_clusters, 1)

    def init(self, fed: Federation) -> ModelsState:
        """k independent random models."""
        if self.num_clusters is None and fed.data.num_clusters == 1:
            raise UserError(f"{fed.data.name} has no clusters to count: give algorithm.num_clusters")
        return ModelsState(fed.init_rows(self.num_clusters or fed.data.num_clusters))

    def clusters(self, state: ModelsState) -> Tensor | None:
        """The k models, where all clients are not measured anyway."""
        return state.models if self.measure == "participants" else None

    def choice(self, state: ModelsState, view: View, fed: Federation) -> int:
        """Return the model with the smallest loss on a client's full training data."""
        return int(fed.per_sample(state.models, view)[:, 0].cpu().double().mean(1).argmin())

    def step(self, state: ModelsState, t: int, fed: Federation) -> tuple[ModelsState, Round]:
        """Select, assign by loss, train, average per cluster (plain mean)."""
        k = float(len(state.models))
        cohort = self.select(t, fed, Load(downloads=k, forwards=k))
        views = [fed.data.shard(m, t).train for m in cohort.clients]
        labels = [self.choice(state, view, fed) for view in views]
        jobs = [self.job(m, state.models[label], t, fed) for m, label in zip(cohort.clients, labels, strict=True)]
        models, trained = weighted_sums(fed.train(jobs, self.before(fed, t)), labels, state.models, lambda result: 1.0)
        return replace(state, models=models), Round(
            trained,
            row_of=lambda i: models[labels[i]],
            download_models=len(models),
            forwards_of=lambda i: len(models) * len(views[i]),
            seconds=cohort.seconds,
            lost=cohort.lost,
        )

    def served(self, state: ModelsState, t: int, fed: Federation) -> Served:
        """Let every client that holds training data choose."""
        labels = np.full(fed.data.num_clients, -1, dtype=np.int64)
        for client in np.flatnonzero(fed.data.sizes(t)).tolist():
            labels[client] = self.choice(state, fed.data.shard(client, t).train, fed)
        return Served(state.models, labels)
