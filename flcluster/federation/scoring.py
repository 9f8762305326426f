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


class UnscoredError(UserError):
    """A module that tells nothing of how good it is: it can be trained, and has no score."""


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
            raise UnscoredError(f"{type(module).__name__}.validation_step logs nothing: log a loss or a score there")
        return self.chosen({name: float(value) for name, value in logged.items()}, type(module).__name__)

    def chosen(self, logged: dict[str, float], name: str) -> tuple[float, float]:
        """Return the loss and the score among what was logged."""
        losses = _of_validation([key for key in logged if "loss" in key.lower()])
        loss = logged[losses[0]] if losses else float("nan")
        if self.metric is not None:
            if self.metric not in logged:
                raise UserError(f"engine.metric is {self.metric}, but {name} logs {', '.join(sorted(logged))}")
            return loss, logged[self.metric]
        likely = _of_validation([key for key in logged if "acc" in key.lower()]) or losses or list(logged)
        if len(likely) > 1:
            raise UserError(f"{name} logs {', '.join(sorted(logged))}: say which is the score, engine.metric=NAME")
        return loss, logged[likely[0]]


def overrides(module: Any, step: str) -> bool:
    """Say whether a module has a step of its own."""
    base = next(kind for kind in type(module).__mro__ if kind.__name__ == "LightningModule")
    return getattr(type(module), step) is not getattr(base, step)


def _of_validation(names: list[str]) -> list[str]:
    """Return those that are called so, if any are: a step that others call may log in their name too."""
    return [name for name in names if "val" in name.lower() or "test" in name.lower()] or names


@torch.no_grad()
def by_forward(module: Any, loader: Any, device: torch.device) -> tuple[float, float]:
    """Return cross-entropy and accuracy of a classifier that has no step to say how good it is."""
    modes, losses, right, seen = {part: part.training for part in module.modules()}, 0.0, 0, 0
    module.eval()
    for batch in loader:
        logits, y = _logits(module, batch, device)
        losses += float(F.cross_entropy(logits.float(), y, reduction="sum"))
        right, seen = right + int((logits.argmax(1) == y).sum()), seen + len(y)
    for part, mode in modes.items():
        part.training = mode
    return losses / seen, right / seen


def _logits(module: Any, batch: Any, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return logits and labels of a batch, if that is what it holds and what ``forward`` makes of it."""
    missing = f"{type(module).__name__} has no validation_step, and its forward gives no logits of labelled samples"
    advice = "write a validation_step that logs how good it is"
    pair = isinstance(batch, (tuple, list)) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch)
    try:
        logits = module(batch[0].to(device)) if pair else None
    except Exception as error:  # it may want anything else
        raise UnscoredError(f"{missing} ({type(error).__name__}): {advice}") from error
    if not isinstance(logits, Tensor) or logits.dim() != 2 or batch[1].is_floating_point() or batch[1].dim() != 1:
        raise UnscoredError(f"{missing}: {advice}")
    return logits, batch[1].to(device)
