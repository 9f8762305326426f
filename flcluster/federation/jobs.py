"""One piece of local training, and what comes back from it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from flcluster.data import View

if TYPE_CHECKING:
    from flcluster.federation.worker import Worker


@dataclass(frozen=True)
class Recipe:
    """How a server trains a model: Adam with settings of its own, instead of the model's optimiser."""

    lr: float = 1e-3
    """Learning rate."""
    cosine: bool = False
    """Let the learning rate fall to 0 over the job's steps, along half a cosine."""
    clip: float | None = None
    """Largest norm of a gradient; longer ones are shortened to it."""


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


@dataclass(eq=False)
class Trained:
    """What comes back from a job."""

    client: int
    row: Tensor
    size: int
    steps: int
    loss: float
    """Mean training loss (without the proximal term) over all steps."""
    seconds: float
    seen: dict[str, Any] = field(default_factory=dict)
    """What was observed of the trained row alone, where it was trained."""

    def light(self) -> "Trained":
        """Return this without its row."""
        return replace(self, row=None)  # type: ignore[arg-type]


Observe = Callable[["Worker", Job, Trained], dict[str, Any]]


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
