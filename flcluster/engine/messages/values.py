"""Settings that no run can have, whatever they are of: null where a value is needed, NaN, infinity, absurd sizes."""

import dataclasses
import inspect
import math
from collections.abc import Mapping
from types import NoneType
from typing import Any, get_type_hints

from lightning import Trainer

from flcluster.engine.messages.classes import accepts, imported, leaves, parameters
from flcluster.engine.messages.words import in_words
from flcluster.errors import UserError, at_least
from flcluster.federation.extras import ARGUMENTS

LINKED = ("model.num_classes", "model.input_shape", "data.seed")
"""What comes from elsewhere once the objects are built."""

LARGEST = 3.4e38
"""The largest number that a model's weights can hold."""

MOST = 999_999_999
"""The largest whole number that anything is counted by: what is larger takes all memory, or all time."""


def refuse_unfit(key: str, part: Any) -> None:
    """Refuse settings of a class and of its parts that no run can have, by their keys.

    Args:
        key: What the part is called, e.g. ``algorithm``.
        part: ``{"class_path": …, "init_args": {…}}``; anything else has no settings to look at.
    """
    for at, each in enumerate(part) if isinstance(part, list) else ():
        refuse_unfit(f"{key}[{at}]", each)
    if not (isinstance(part, Mapping) and isinstance(part.get("class_path"), str)):
        return
    try:
        kind = imported(part["class_path"])
    except (ImportError, AttributeError) as error:
        raise UserError(f"{key}: {part['class_path']} cannot be imported ({error})") from error
    hints, infinite = parameters(kind), getattr(kind, "may_be_infinite", ())
    for name, value in (part.get("init_args") or {}).items():
        where = f"{key}.{name}"
        if value is None and where not in LINKED and not _may_be_null(kind, name, hints.get(name)):
            raise UserError(f"{where} is null, and {kind.__name__} needs a value there: leave it out for the default")
        if where not in LINKED:
            refuse_number(where, value, name in infinite)
        refuse_unfit(where, list(value) if isinstance(value, tuple) else value)


def refuse_number(key: str, value: Any, infinite: bool = False) -> None:
    """Refuse numbers that are none, or that a model's weights cannot hold; in lists and mappings too.

    >>> refuse_number("algorithm.rho", [0.1, math.nan])
    Traceback (most recent call last):
    flcluster.errors.UserError: algorithm.rho is nan: give a number
    """
    if isinstance(value, Mapping) and "class_path" not in value:
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            refuse_number(key, each, infinite)
    if type(value) is int and abs(value) > MOST and not infinite:
        raise UserError(f"{key} is {value}, which is more than any run can have ({MOST})")
    if not isinstance(value, float) or (math.isinf(value) and infinite):
        return
    if not math.isfinite(value):
        raise UserError(f"{key} is {value}: give {'a finite ' if math.isinf(value) else 'a '}number")
    if abs(value) > LARGEST:
        raise UserError(f"{key} is {value:g}, which is more than a model's numbers can hold ({LARGEST:g})")


def refuse_fields(key: str, made: Any) -> None:
    """Refuse the same numbers in an object that a script has made: in its fields, and in those of its parts."""
    if not dataclasses.is_dataclass(made) or isinstance(made, type):
        return
    infinite = getattr(made, "may_be_infinite", ())
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        refuse_number(f"{key}.{field.name}", value, field.name in infinite)
        refuse_fields(f"{key}.{field.name}", value)


def refuse_trainer(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of the Trainer of local trainings that are of another type than it takes, by their keys."""
    hints = get_type_hints(Trainer.__init__) if arguments else {}
    for name, value in arguments.items():
        refuse_number(f"trainer.{name}", value)
        hint = hints.get(name) if name in ARGUMENTS else None
        if not accepts(hint, value, as_text=False) or (value is None and not _takes_none(hint)):
            raise UserError(f"trainer.{name} must be {in_words(hint)}, got {value!r}")
        if name == "accumulate_grad_batches":  # which Lightning divides by
            at_least(name, value, 1, prefix="trainer.")


def _takes_none(hint: Any) -> bool:
    leaf_types = {leaf for leaf in leaves(hint) if getattr(leaf, "__hash__", None)} if hint is not None else set()
    return hint is None or bool({Any, NoneType, object} & leaf_types)


def _may_be_null(kind: type, name: str, hint: Any) -> bool:
    """Say whether a setting may be null: its type says so, or its default is, or nobody knows."""
    if _takes_none(hint):
        return True
    default = inspect.signature(kind).parameters.get(name)
    return default is not None and default.default is None
