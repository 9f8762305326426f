"""How good a module of the user's own is: by what its ``validation_step`` logs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flcluster.data import View
from flcluster.errors import UserError

BATCH = 128


@dataclass(frozen=True)
class Scoring:
    """Which of the logged metrics is the score."""

    metric: str | None = None
    """Its name; by default the one that is called accuracy, else the loss, else the only one there is."""

    def measured(
        self, module: Any, view: View, logged_by: Callable[[str, Any], Any], device: torch.device
    ) -> tuple[float, float]:
        """Return the mean loss and the score of the loaded module on a view."""
        loader = view.loader(BATCH)
        if overrides(module, "validation_step"):
            (logged,) = logged_by("val", loader)
        elif overrides(module, "test_step"):
            (logged,) = logged_by("test", loader)
        else:
            return by_forward(module, loader, device)
        if not logged:
            raise UserError(f"{type(module).__name__}.validation_step logs nothing: log a loss or a score there")
        return self.chosen({name: float(value) for name, value in logged.items()}, type(module).__name__)

    def chosen(self, logged: dict[str, float], name: str) -> tuple[float, float]:
        """Return the loss and the score among what was logged."""
        losses = [key for key in logged if "loss" in key.lower()]
        loss = logged[losses[0]] if losses else float("nan")
        if self.metric is not None:
            if self.metric not in logged:
                raise UserError(f"engine.metric is {self.metric}, but {name} logs {', '.join(sorted(logged))}")
            return loss, logged[self.metric]
        likely = [key for key in logged if "acc" in key.lower()] or losses or list(logged)
        if len(likely) > 1:
            raise UserError(f"{name} logs {', '.join(sorted(logged))}: say which is the score, engine.metric=NAME")
        return loss, logged[likely[0]]


def overrides(module: Any, step: str) -> bool:
    """Say whether a module has a step of its own."""
    base = next(kind for kind in type(module).__mro__ if kind.__name__ == "LightningModule")
    return getattr(type(module), step) is not getattr(base, step)


@torch.no_grad()
def by_forward(module: Any, loader: Any, device: torch.device) -> tuple[float, float]:
    """Return cross-entropy and accuracy of a classifier that has no step to say how good it is."""
    training, losses, right, seen = module.training, 0.0, 0, 0
    module.eval()
    for batch in loader:
        pair = isinstance(batch, (tuple, list)) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch)
        logits = module(batch[0].to(device)) if pair else None
        if not isinstance(logits, Tensor) or logits.dim() != 2 or batch[1].is_floating_point() or batch[1].dim() != 1:
            raise UserError(
                f"{type(module).__name__} has no validation_step, and its forward gives no logits of labelled samples: "
                "write a validation_step that logs how good it is"
            )
        y = batch[1].to(device)
        losses += float(F.cross_entropy(logits.float(), y, reduction="sum"))
        right, seen = right + int((logits.argmax(1) == y).sum()), seen + len(y)
    module.train(training)
    return losses / seen, right / seen
