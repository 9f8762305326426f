"""An Efficient Framework for Clustered Federated Learning (IFCA; Ghosh et al., 2020)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from flcluster.algorithm import Round, RoundAlgorithm, weighted_sums
from flcluster.federation import Federation

from .fedavg import ModelsState


@dataclass(frozen=True, kw_only=True)
class IFCA(RoundAlgorithm[ModelsState]):
    """Each participant picks the model with the smallest training loss and trains it; the server averages by choice."""

    num_clusters: int | None = None
    """k: number of models; the data's number of clusters if not given."""

    state_type: ClassVar[type] = ModelsState
    named_clusters: ClassVar[bool] = False

    def init(self, fed: Federation) -> ModelsState:
        """k independent random models."""
        return ModelsState(fed.init_rows(self.num_clusters or fed.data.num_clusters))

    def clusters(self, state: ModelsState) -> Tensor:
        """The k models."""
        return state.models

    def step(self, state: ModelsState, t: int, fed: Federation) -> tuple[ModelsState, Round]:
        """Select, assign by loss on the full local training data, train, average per cluster (plain mean)."""
        clients = self.select(t, fed)
        views = [fed.data.shard(m, t).train for m in clients]
        labels = [int(fed.per_sample(state.models, view)[:, 0].cpu().double().mean(1).argmin()) for view in views]
        jobs = [self.job(m, state.models[label], t, fed) for m, label in zip(clients, labels, strict=True)]
        results = fed.train(jobs, self.before(fed, t))
        models, trained = weighted_sums(results, labels, [1.0] * len(jobs), state.models)
        return replace(state, models=models), Round(
            trained,
            row_of=lambda i: models[labels[i]],
            download_models=len(models),
            forwards_of=lambda i: len(models) * len(views[i]),
        )
