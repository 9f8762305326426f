"""One piece of local training, and what comes back from it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic

from torch import Tensor
from typing_extensions import TypeVar

from flcluster.data import View

if TYPE_CHECKING:
    from flcluster.federation.worker import Worker

Seen = TypeVar("Seen", default=None)
"""What a method sees of a trained row where it was trained; nothing by default."""


@dataclass(frozen=True)
class Recipe:
    """How a server trains a model: Adam with settings of its own, instead of the model's optimiser."""

    lr: float = 1e-3
    """Learning rate."""
    cosine: bool = False
    """Let the learning rate fall to 0 over the job's steps, along half a cosine."""
    clip: float | None = None
    """Largest norm of a gradient; longer ones are shortened to it."""

    def rates(self, steps: int) -> Iterator[float]:
        """Yield the learning rate of each of so many steps."""
        for done in range(steps):
            yield self.lr * ((1 + math.cos(math.pi * done / steps)) / 2 if self.cosine else 1.0)


@dataclass(frozen=True, eq=False)
class Job:
    """One piece of local training: where to start, on what, how long, pulled towards what."""

    client: int
    start: Tensor
    view: View
    epochs: int
    batch_size: int
    purpose: str = "train"
    cycle: int = 0
    prox: float = 0.0
    """Weight ρ of (ρ/2)·‖v − anchor‖² over the parameters, part of the objective (so that Adam preconditions it)."""
    anchor: Tensor | None = None
    """What the proximal term pulls towards; the start if not given."""
    lr_factor: float = 1.0
    steps: int | None = None
    """Batches to train on instead of whole epochs; the data are gone through again as often as that takes."""
    momentum: float | None = None
    """Heavy-ball momentum of SGD, instead of the model's own."""
    objective: "Objective | None" = None
    """The loss of a batch, instead of the model's own."""
    correction: Tensor | None = None
    """Added to the gradient of every step, over the parameters (control variates)."""
    recipe: Recipe | None = None
    """Training as a server does it, instead of the model's optimiser."""
    test: View | None = None
    """What the trained model's accuracy is measured on; it is not measured if not given."""
    scores_start: bool = False
    """Whether the losses of the received model on the training samples are reported."""


@dataclass(eq=False)
class Trained(Generic[Seen]):
    """What comes back from a job."""

    client: int
    row: Tensor
    size: int
    """Training samples."""
    steps: int
    loss: float
    """Mean training loss (without the proximal term) over all steps."""
    seconds: float = 0.0
    """How long it took, in real time."""
    finite: bool = True
    """Whether all numbers of the trained row are."""
    processed: int = 0
    """Samples that training went through, a sample counted each time it was used."""
    lr: float = math.nan
    """Learning rate of the training."""
    accuracy: float = math.nan
    """Of the trained model on the job's test set."""
    start_loss: float = math.nan
    """Mean loss of the received model on the training samples, if that was asked for."""
    start_square: float = math.nan
    """Mean square of those losses."""
    staleness: int = 1
    """Versions of the global model since the client received its own, where uploads come one by one."""
    accuracy_after: float | None = None
    """Accuracy of what the client received in exchange, where that had to be measured at once."""
    seen: Seen | None = None
    """What the method's ``observe`` found; None if the row is not finite."""

    @property
    def usable(self) -> bool:
        """Whether this is worth aggregating: it was trained at all (BatchNorm needs two samples), and is finite."""
        return self.steps > 0 and self.finite

    def light(self) -> "Trained[Seen]":
        """Return this without its row."""
        return replace(self, row=None)  # type: ignore[arg-type]


class Training(Generic[Seen]):
    """Jobs that are trained while one goes through their results, once, in the order of the jobs.

    A result has its row only while it is at hand, so that memory holds a few rows however many jobs there are.
    """

    def __init__(self, coming: "Iterator[Trained[Seen]]") -> None:
        self._coming, self._light, self._done = coming, list[Trained[Seen]](), False

    def __iter__(self) -> "Iterator[Trained[Seen]]":
        if self._light:
            raise RuntimeError("a training's results can be gone through once: their rows are not kept")
        for result in self._coming:
            self._light.append(result.light())
            yield result
        self._done = True

    @property
    def results(self) -> "list[Trained[Seen]]":
        """All results without their rows, once they have been gone through."""
        if not self._done:
            raise RuntimeError("not all clients have trained yet: go through the training first")
        return self._light


Observe = Callable[["Worker", Job, Trained[Seen]], Seen | None]
"""Looks at a trained row where it was trained, and asks nothing of the device that it would have to be waited for: what
it returns comes to the host with all else if it is a tensor, and is forgotten if the row turns out not to be finite."""


Objective = Callable[["Worker", Tensor, Tensor], Tensor]
"""Returns the loss of a batch; ``worker.module`` is the model and ``worker.loss`` its own loss of logits and labels."""


def samples_processed(
    size: int, epochs: int, batch_size: int, steps: int | None = None, batch_norm: bool = False
) -> int:
    """Return how many samples local training goes through, a sample counted each time it is used.

    With BatchNorm a trailing batch of one is left out, and a single sample cannot be trained on.

    Example:
        >>> samples_processed(50, epochs=2, batch_size=20, steps=None), samples_processed(50, 2, 20, steps=4)
        (100, 70)
    """
    if batch_norm and size % batch_size == 1:
        size -= 1
    if steps is None or size == 0:
        return size * epochs
    whole, rest = divmod(steps, -(-size // batch_size))
    return whole * size + rest * batch_size
