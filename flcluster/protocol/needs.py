"""What methods and their parts must be told by data and model, checked before anything is trained."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from flcluster.errors import UserError
from flcluster.federation.federation import Federation

CLASSES = "the class of each sample"
LOSSES = "the losses of single samples"
LOGITS = "the model's logits of samples"
FEATURES = "what the model's head reads"
GRADIENT = "the gradient of the loss"
OWN_LOSS = "to train on a loss of its own"
"""All but the classes are told by models that flcluster's own loop trains, and by no others."""


def check_needs(algorithm: Any, fed: Federation) -> None:
    """Refuse a method, or a part of one, that needs more than these data and this model tell."""
    for who, what in needed(algorithm):
        require(fed, who, what)
    if fed.layout.has_batch_norm and algorithm.batch_size == 1:
        kind = type(fed.worker.module).__name__
        raise UserError(f"algorithm.batch_size is 1, but {kind} has BatchNorm: give at least 2")


def require(fed: Federation, who: str, *needs: str) -> None:
    """Refuse, in one line that names who asks and what is missing."""
    for what in needs:
        if what == CLASSES and not fed.data.knows_classes:
            raise UserError(
                f"{who} needs {what}, which {fed.data.name} does not tell: use another method, or say where they are "
                "(data of your own: labels, num_classes)"
            )
        if what != CLASSES and fed.by_trainer is not None:
            raise UserError(
                f"{who} needs {what}, which {type(fed.worker.module).__name__} does not tell ({fed.by_trainer}): use "
                "a model of flcluster.modules, or another method"
            )


def needed(algorithm: Any) -> Iterator[tuple[str, str]]:
    """Go through what a method and its parts need, with the name of who does."""
    name = type(algorithm).__name__
    yield from ((name, what) for what in needs_of(algorithm))
    for key in fields(algorithm) if is_dataclass(algorithm) else ():
        part = getattr(algorithm, key.name)
        yield from ((f"{name} with {key.name}={type(part).__name__}", what) for what in needs_of(part))


def needs_of(part: Any) -> tuple[str, ...]:
    """Return what something says it needs (``needs``, and ``needs_start_loss`` of selections and aggregators)."""
    found: tuple[str, ...] = tuple(getattr(part, "needs", ()))
    return (*found, LOSSES) if getattr(part, "needs_start_loss", False) else found
