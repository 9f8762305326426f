"""What a client tells the coordinator of its data: a short vector, computed on the client."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.clustering.distances import L1, L2, Distance, JensenShannon
from flcluster.clustering.points import Points, shares, unit
from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job
from flcluster.federation.layout import Layout
from flcluster.federation.worker import Worker
from flcluster.protocol.needs import CLASSES, FEATURES, GRADIENT
from flcluster.seeds import rng


class Representation(ABC):
    """How a client is described. A new one is a class with ``of``; name it by its class_path."""

    passes: ClassVar[float] = 0.0
    """What it costs a client, in forward passes per sample (a backward pass counts two)."""
    natural: ClassVar[Distance] = L1()
    """How such vectors are compared unless told otherwise."""
    fits: ClassVar[tuple[type[Distance], ...]] = (L1, JensenShannon, L2)
    """Distances that make sense for such vectors."""

    def shared_model(self, fed: Federation) -> Tensor | None:
        """Return the model that all clients describe their data with, made once; None if there is none."""
        return None

    @abstractmethod
    def of(self, clients: NDArray[np.int64], t: int, shared: Tensor | None, fed: Federation) -> Points:
        """Describe what some clients (all of them hold data) hold in round ``t``, ``[n, D]`` float32."""


@dataclass(frozen=True)
class LabelHistogram(Representation):
    """The share of each label among a client's training samples. Costs nothing to compute."""

    needs: ClassVar[tuple[str, ...]] = (CLASSES,)

    def of(self, clients: NDArray[np.int64], t: int, shared: Tensor | None, fed: Federation) -> Points:
        """Normalise the counts."""
        return shares(fed.data.label_counts(clients, t))


@dataclass(frozen=True)
class SharedModel(Representation):
    """Base of representations by a small model that the server trains once on its proxy set and sends to everyone."""

    epochs: int = 50
    """Epochs of training of the shared model (the paper: 300 epochs on 200 images per class)."""
    batch_size: int = 20
    """Batch size of that training."""

    natural: ClassVar[Distance] = L2()
    fits: ClassVar[tuple[type[Distance], ...]] = (L2,)

    def __post_init__(self) -> None:
        if self.epochs < 0 or self.batch_size < 1:
            raise UserError(f"representation: epochs must be at least 0 and batch_size at least 1, got {self}")

    def shared_model(self, fed: Federation) -> Tensor:
        """Train the shared model on the proxy set; with 0 epochs it is a random one."""
        start = fed.init_rows(1)[0]
        if self.epochs == 0:
            return start
        fed.note(f"training the shared model of {type(self).__name__} for {self.epochs} epochs")
        views = [fed.data.proxy(k) for k in range(fed.data.num_clusters)]
        view = View(tuple(part for proxy in views for part in proxy.parts))
        if len(view) == 0:
            raise UserError(f"{type(self).__name__} trains a shared model: data.proxy_per_class must be at least 1")
        (trained,) = fed.train([Job(0, start, view, self.epochs, self.batch_size, purpose="shared model")])
        return trained.row

    def of(self, clients: NDArray[np.int64], t: int, shared: Tensor | None, fed: Federation) -> Points:
        """Describe each client by one vector of length 1."""
        views = [fed.shard(client, t).train for client in clients.tolist()]
        return unit(fed.represent(lambda worker, view: self.vector(worker, view, shared, fed.seed), views))

    @abstractmethod
    def vector(self, worker: Worker, view: View, shared: Tensor | None, seed: int) -> Tensor:
        """Describe one client's data."""


@dataclass(frozen=True)
class InputEmbedding(SharedModel):
    """The mean of what the shared model's head reads (penultimate features), at length 1."""

    needs: ClassVar[tuple[str, ...]] = (FEATURES,)
    passes: ClassVar[float] = 1.0

    def vector(self, worker: Worker, view: View, shared: Tensor | None, seed: int) -> Tensor:
        """Average the features."""
        assert shared is not None
        return worker.features(shared, view).mean(0)


@dataclass(frozen=True)
class Gradient(SharedModel):
    """The gradient of the mean loss at the shared model, at length 1: sees also what changes in P(y | x)."""

    layer: str | None = "head"
    """Name prefix of the parameters to look at; null for all of them."""
    dimensions: int | None = 256
    """Size after a random projection (each coordinate is added, with a random sign, to a random one of these);
    null for none."""

    needs: ClassVar[tuple[str, ...]] = (GRADIENT,)
    passes: ClassVar[float] = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimensions is not None and self.dimensions < 1:
            raise UserError(f"representation.dimensions must be at least 1, or null, got {self.dimensions}")

    def vector(self, worker: Worker, view: View, shared: Tensor | None, seed: int) -> Tensor:
        """Take the layer's part of the gradient and project it."""
        assert shared is not None
        where = places(worker.layout, self.layer)
        gradient = worker.gradient(shared, view)[where].cpu()
        if self.dimensions is None or len(gradient) <= self.dimensions:
            return gradient
        bucket, sign = projection(len(gradient), self.dimensions, seed)
        return torch.zeros(self.dimensions).index_add_(0, bucket, gradient * sign)


def places(layout: Layout, prefix: str | None) -> Tensor:
    """Return where the parameters whose names begin with ``prefix`` lie in a row."""
    found = [
        torch.arange(entry.start, entry.stop)
        for entry in layout.entries
        if entry.stop <= layout.num_parameters and entry.name.startswith(prefix or "")
    ]
    if not found:
        raise UserError(f"algorithm.representation.layer: the model has no parameter whose name begins with {prefix!r}")
    return torch.cat(found)


@lru_cache(maxsize=4)
def projection(width: int, dimensions: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw where each coordinate goes and with which sign (a sparse random projection: keeps distances on average)."""
    draw = rng(seed, "projection", width, dimensions)
    sign = draw.integers(2, size=width) * 2 - 1
    return torch.from_numpy(draw.integers(dimensions, size=width)), torch.from_numpy(sign).float()
