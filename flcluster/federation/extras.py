"""What a user gives to the Trainer of every local training: arguments of Lightning's, and callbacks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from inspect import signature
from traceback import walk_tb
from typing import Any

from flcluster.errors import UserError
from flcluster.federation.paths import lightning_of
from flcluster.given import named

ARGUMENTS = (
    *("gradient_clip_val", "gradient_clip_algorithm", "accumulate_grad_batches"),
    *("limit_train_batches", "detect_anomaly", "inference_mode"),
)
"""Arguments of a Trainer that may be given."""

ELSEWHERE = {
    "logger": "the run's own is logger",
    "callbacks": "they are trainer_callbacks",
    **dict.fromkeys(("accelerator", "devices", "num_nodes", "strategy", "precision"), "it is one of fabric.…"),
    **dict.fromkeys(("max_epochs", "min_epochs"), "the method says how long clients train: algorithm.local_epochs"),
    **dict.fromkeys(("max_steps", "min_steps", "max_time"), "the method says how long clients train"),
    **dict.fromkeys(("enable_checkpointing", "default_root_dir"), "the run writes its own checkpoints"),
    **dict.fromkeys(("benchmark", "deterministic"), "it is global in the process: set it in torch"),
}
"""Why others may not, or where they belong."""


@dataclass(frozen=True, eq=False)
class Extras:
    """What every local training's Trainer has besides what the engine gives it."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the Trainer, by name."""
    callbacks: Sequence[Any] = ()
    """Lightning's, as they are given: never used themselves, each training has copies of its own."""

    def __post_init__(self) -> None:
        for name in self.arguments:
            if name not in ARGUMENTS:
                why = ELSEWHERE.get(name, "it has no place in a local training")
                raise UserError(f"trainer.{name} cannot be given: {why}; there are {', '.join(ARGUMENTS)}")

    def why(self, module: Any) -> str | None:
        """Say which of them takes a Trainer; None if nothing is given."""
        if not self.arguments and not self.callbacks:
            return None
        names = [*(f"trainer.{name}" for name in self.arguments), *(["trainer_callbacks"] if self.callbacks else [])]
        package = lightning_of(module)
        if type(module).training_step is package.LightningModule.training_step:
            raise UserError(f"{names[0]} takes a Trainer, and {type(module).__name__} has no training_step")
        for callback in self.callbacks:
            if not isinstance(callback, package.Callback):
                kind, base = type(callback).__name__, f"{package.__name__}.Callback"
                raise UserError(f"trainer_callbacks: {kind} is no {base}, as {type(module).__name__}'s must be")
        return f"{' and '.join(names)} {'is' if len(names) == 1 and self.arguments else 'are'} given"

    @property
    def clips(self) -> bool:
        """Whether gradients are bent, so that steps are not those of the bare optimiser."""
        return bool(self.arguments.get("gradient_clip_val")) or bool(self.callbacks)

    def fresh(self) -> list[Any]:
        """Return copies of the callbacks for one training: nothing of one client's reaches another's."""
        return [deepcopy(callback) for callback in self.callbacks]

    @contextmanager
    def blamed(self, module: Any) -> Iterator[None]:
        """Tell what Lightning refuses of them, or of the module, in one line."""
        wrong: tuple[type[Exception], ...] = (lightning_of(module).utilities.exceptions.MisconfigurationException,)
        kinds = {type(each) for each in self.callbacks}
        try:
            yield
        except Exception as error:
            frames = (frame for frame, _ in walk_tb(error.__traceback__))
            theirs = [each for each in frames if type(each.f_locals.get("self")) in kinds]
            if isinstance(error, UserError) or not (isinstance(error, wrong) or theirs):
                raise
            if theirs:
                failed = theirs[-1].f_locals["self"]
                told = " ".join(str(error).split())
                raise UserError(f"trainer_callbacks: {named(failed)}{_given_to(failed)}: {told}") from error
            given = [
                *(f"trainer.{name}" for name in self.arguments),
                *(f"trainer_callbacks {type(each).__name__}" for each in self.callbacks),
            ]
            where = ", ".join(given) or f"Lightning cannot train {named(module)}"
            raise UserError(f"{where}: {' '.join(str(error).split())}") from error


def _given_to(callback: Any) -> str:
    """Say what a callback was made with, where it keeps that and it is not the default."""
    found = []
    for name, parameter in signature(type(callback)).parameters.items():
        value = getattr(callback, name, getattr(callback, f"_{name}", None))
        if isinstance(value, str | int | float | list | tuple) and value != parameter.default:
            found.append(f"{name} {str(value)[:100]}")
    return f" ({', '.join(found)})" if found else ""
