"""An Efficient Framework for Clustered Federated Learning (IFCA; Ghosh et al., 2020)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from flcluster.federation.averaging import average_by_label
from flcluster.federation.federation import Federation
from flcluster.protocol.outcome import Round, Served
from flcluster.protocol.rounds import RoundAlgorithm

from .choice import best_of, check_choice, first_models, ifca_style_accuracy, number_of_models


@dataclass(frozen=True, eq=False)
class ModelsState:
    """The server's models ``[K, P]`` and what clients chose last."""

    models: Tensor
    labels: Tensor
    """The model each client trained last, ``[N]``; −1: never."""


@dataclass(frozen=True, kw_only=True)
class IFCA(RoundAlgorithm[ModelsState]):
    """Each participant picks the model with the smallest training loss and trains it; the server averages by choice."""

    paper: ClassVar[str] = "Ghosh et al., 2020"

    num_clusters: int | None = None
    """k: number of models; the data's number of clusters if not given."""
    min_share: float = 0.0
    """Draw the first k models again until each attracts this share of the first participants (IFCA's code: 0.35 for
    k = 2, 0.1 for k = 4); 0 takes the first draw."""
    ifca_style: bool = False
    """Also measure how good clients are that choose their model by their test loss, as IFCA's code does."""

    named_clusters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_clusters, self.min_share)

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """Add the accuracy of a choice by test loss, if that is asked for."""
        return (*super().extra_metrics, *(("ifca_style_acc",) if self.ifca_style else ()))

    def init(self, fed: Federation) -> ModelsState:
        """k independent random models."""
        k = number_of_models(self.num_clusters, fed)
        models = first_models(fed, k, self.min_share, lambda: self.select(0, fed).clients)
        return ModelsState(models, torch.full((fed.data.num_clients,), -1))

    def clusters(self, state: ModelsState) -> Tensor | None:
        """The k models, where all clients are not measured anyway."""
        return state.models if self.measure == "participants" else None

    def step(self, state: ModelsState, t: int, fed: Federation) -> tuple[ModelsState, Round]:
        """Select, assign by loss, train, average per cluster (plain mean)."""
        k = len(state.models)
        cohort = self.select(t, fed, downloads=k, forwards=k)  # each receives all models and tries them
        cohort = cohort.assigned(best_of(fed, lambda m: state.models, cohort.clients, t))
        training = fed.train(self.job(m, state.models[j], t, fed) for m, j in cohort)
        models = average_by_label(training, cohort.places, state.models, weight=lambda result: 1.0)
        labels = state.labels.clone()
        labels[cohort.clients] = torch.tensor(cohort.places, dtype=labels.dtype)
        return ModelsState(models, labels), Round(cohort, training.results, models)

    def served(self, state: ModelsState, t: int, fed: Federation) -> Served:
        """Let every client that holds training data choose."""
        labels = np.full(fed.data.num_clients, -1, dtype=np.int64)
        clients = fed.data.with_samples(t)
        labels[clients] = best_of(fed, lambda m: state.models, clients.tolist(), t)
        return Served(state.models, labels)

    def server_models(self, state: ModelsState) -> Tensor:
        """All models."""
        return state.models

    def cluster_of(self, state: ModelsState, client: int) -> int:
        """The client's cluster; the first one before it has any."""
        return max(int(state.labels[client]), 0)

    def measures(self, state: ModelsState, t: int, fed: Federation) -> dict[str, float]:
        """Measure a choice by test loss, if that is asked for."""
        return {"ifca_style_acc": ifca_style_accuracy(fed, lambda m: state.models, t)} if self.ifca_style else {}
