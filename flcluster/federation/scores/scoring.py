"""How good a module of the user's own is: by what its ``validation_step`` logs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flcluster.data import View
from flcluster.errors import UserError
from flcluster.score import Mode, Score

BATCH = 128

LoggedBy = Callable[[str, Any], Any]
"""Has a Trainer go through a loader in a stage (val or test) and returns what was logged, one dict a loader."""


class UnscoredError(UserError):
    """A module that tells nothing of how good it is: it can be trained, and has no score."""


@dataclass(frozen=True)
class Scoring:
    """Which of the logged metrics is the score, and which is the loss."""

    metric: str | None = None
    """The score's name; by default the one that is called accuracy, else the loss, else the only one there is."""
    mode: Mode = "auto"
    """Whether less of it is better, or more."""
    loss: str | None = None
    """The loss' name, once it is known what is logged."""
    known: bool = False
    """Whether it is known what is logged."""

    @property
    def score(self) -> Score:
        """What the score is called and which way it is better."""
        return Score.named(self.metric or "accuracy", self.mode)

    def settled(self, module: Any, view: View, logged_by: LoggedBy) -> "Scoring":
        """Find out what a module logs; one without a step that logs is scored by accuracy."""
        logged = self._logged(module, view, logged_by)
        if logged is None:
            if self.metric is not None and "acc" not in self.metric.lower():
                name = type(module).__name__
                raise UserError(f"engine.metric is {self.metric}, but {name} has no validation_step that could log it")
            return replace(self, loss="cross-entropy", known=True)
        return replace(self, metric=self._score_among(logged, module), loss=_loss_among(logged), known=True)

    def measured(self, module: Any, view: View, logged_by: LoggedBy, device: torch.device) -> tuple[float, float]:
        """Return the mean loss and the score of the loaded module on a view; NaN for a loss that is not logged."""
        logged = self._logged(module, view, logged_by)
        if logged is None:
            return by_forward(module, view.loader(BATCH), device)
        loss = _loss_among(logged)
        return math.nan if loss is None else logged[loss], logged[self._score_among(logged, module)]

    def _logged(self, module: Any, view: View, logged_by: LoggedBy) -> dict[str, float] | None:
        """Return what a module logs of a view; None if it has no step to do so."""
        stages = {"validation_step": "val", "test_step": "test"}
        stage = next((stages[step] for step in stages if overrides(module, step)), None)
        if stage is None:
            return None
        (logged,) = logged_by(stage, view.loader(BATCH))
        if not logged:
            raise UnscoredError(f"{type(module).__name__}.validation_step logs nothing: log a loss or a score there")
        return {name: float(value) for name, value in logged.items()}

    def _score_among(self, logged: Mapping[str, float], module: Any) -> str:
        """Return the name of the score among what was logged."""
        name = type(module).__name__
        if self.metric is not None:
            if self.metric not in logged:
                raise UserError(f"engine.metric is {self.metric}, but {name} logs {', '.join(sorted(logged))}")
            return self.metric
        losses = _of_validation([key for key in logged if "loss" in key.lower()])
        likely = _of_validation([key for key in logged if "acc" in key.lower()]) or losses or list(logged)
        if len(likely) > 1:
            raise UserError(f"{name} logs {', '.join(sorted(logged))}: say which is the score, engine.metric=NAME")
        return likely[0]


def _loss_among(logged: Mapping[str, float]) -> str | None:
    """Return the first name that is a loss'."""
    return next(iter(_of_validation([key for key in logged if "loss" in key.lower()])), None)


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
