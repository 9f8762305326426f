"""How a server turns trained models into new ones, cluster by cluster: a replaceable part of round methods."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from torch import Tensor

from flcluster.federation.jobs import Trained

Memory = dict[str, Tensor]


class Aggregator(ABC):
    """One step of the server for K models at once. What it remembers between rounds is a dict of ``[K, P]`` tensors."""

    needs_start_loss: ClassVar[bool] = False
    """Whether clients must report the loss of the model they received (``Trained.start_loss``)."""

    def start(self, models: Tensor) -> Memory:
        """Return the memory of models that have not been stepped yet."""
        return {}

    @abstractmethod
    def combine(
        self, trained: Iterable[Trained[Any]], labels: list[int], old: Tensor, memory: Memory, numbers: int, lr: float
    ) -> tuple[Tensor, Memory]:
        """Step every model with what its clients trained.

        Args:
            trained: Results as they come in; those that are not usable are left out.
            labels: Which model each result belongs to.
            old: The models that were sent out, ``[K, P]``; one that nobody trained stays.
            memory: What the last step left.
            numbers: How many of a row's numbers are parameters; the rest (BatchNorm statistics) is averaged.
            lr: Learning rate of the local training.
        """
