"""What every worker does with a trained row where it lies, before it is sent on."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from flcluster.data import View
from flcluster.federation.jobs import Job, Observe, Seen, Trained
from flcluster.federation.layout import all_finite
from flcluster.federation.scores.scoring import UnscoredError

if TYPE_CHECKING:
    from flcluster.federation.worker import Worker


class Looking(ABC):
    """Measures what was asked for of a trained row."""

    tell: Callable[[str], None] = staticmethod(lambda text: None)
    """Says once what a user should know of the scores."""

    def measure(self, row: Tensor, view: View) -> float:
        """Return a model's score on a view for the record; NaN, and a word once, where the module tells none."""
        try:
            return self.evaluate(row, view)[1]
        except UnscoredError as error:
            self.tell(f"scores are nan: {error}")
            self.tell = lambda text: None
            return math.nan

    @abstractmethod
    def evaluate(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return a model's mean loss and its score on a view."""

    def loss_on(self, row: Tensor, view: View) -> float:
        """Return a model's mean loss on a view, to compare it with others."""
        self.needs_losses()
        return self.evaluate(row, view)[0]

    def mean_losses(self, row: Tensor, views: Sequence[View]) -> Tensor:
        """Return a model's mean loss on each of some views, float64 ``[views]``."""
        return torch.tensor([self.loss_on(row, view) for view in views], dtype=torch.float64)

    def needs_losses(self) -> None:  # noqa: B027
        """Refuse where no losses are known that models could be compared by; most know them."""

    @abstractmethod
    def start_losses(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return the mean of a model's losses on training samples, and the mean of their squares."""

    def _look(self, job: Job, result: Trained[Seen], observe: Observe[Seen] | None) -> None:
        """Say whether a result is finite and how good it is; score where it began; let the method see it."""
        result.finite = all_finite(result.row)
        if result.finite and job.test is not None:
            result.accuracy = self.measure(result.row, job.test)
        if job.scores_start:
            result.start_loss, result.start_square = self.start_losses(job.start, job.view)
        if result.finite and observe is not None:
            seen = observe(cast("Worker", self), job, result)
            result.seen = cast(Seen, seen.cpu()) if isinstance(seen, Tensor) else seen
