"""Ways of seeing by name, as a configuration gives them: ``rot90``, ``swap0-1``, ``blur0.5+rot180``, a function."""

import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from flcluster import seeds
from flcluster.errors import UserError

from .looks import CORRUPTIONS, Look

Named = str | Callable[[Any], Any]
"""A way of seeing: a name, a function of a sample, or the dotted name of one."""

NAMES = (
    "none, rot<degrees>, " + ", ".join(f"{kind}<severity>" for kind in CORRUPTIONS) + ", swap<label>-<label>, "
    "permute<number>, several joined by +, or a function of a sample (package.function)"
)


def look_named(name: Named, num_classes: int) -> Look:
    """Return what a name means.

    >>> look_named("rot90", 10).angle, look_named("swap0-1", 3).labels, look_named("blur+rot180", 10).severity
    (90.0, tensor([1, 0, 2]), 0.6)
    """
    if not isinstance(name, str):
        return Look(sample=_called(name))
    look = Look()
    for part in name.split("+"):
        look = _added(look, part.strip(), num_classes)
    return look


def name_of(shift: Named) -> str:
    """Return how tables call a way of seeing."""
    return shift if isinstance(shift, str) else str(getattr(shift, "__name__", type(shift).__name__))


def _added(look: Look, name: str, num_classes: int) -> Look:
    if name == "none":
        return look
    if found := re.fullmatch(r"rot(-?\d+\.?\d*)", name):
        return replace(look, angle=look.angle + float(found[1]))
    if found := re.fullmatch(rf"({'|'.join(CORRUPTIONS)})(\d*\.?\d*)", name):
        severity = float(found[2] or 0.6)
        if not 0 < severity <= 1 or look.severity:
            raise UserError(f"data.shifts has {name!r}: one corruption, of a severity above 0 and up to 1")
        return replace(look, corruption=found[1], severity=severity)
    if found := re.fullmatch(r"swap(\d+)-(\d+)", name):
        return _relabelled(look, _swapped(int(found[1]), int(found[2]), num_classes))
    if found := re.fullmatch(r"permute(\d+)", name):
        drawn = seeds.rng(int(found[1]), "permuted labels").permutation(num_classes)
        return _relabelled(look, torch.from_numpy(drawn))
    if look.sample is not None or "." not in name:
        raise UserError(f"data.shifts has {name!r}: give {NAMES}")
    return replace(look, sample=_imported(name))


def _relabelled(look: Look, labels: torch.Tensor) -> Look:
    return replace(look, labels=labels if look.labels is None else labels[look.labels])


def _swapped(a: int, b: int, num_classes: int) -> torch.Tensor:
    if not (a != b and max(a, b) < num_classes):
        raise UserError(f"data.shifts has 'swap{a}-{b}': give two different labels below {num_classes}")
    labels = torch.arange(num_classes)
    labels[[a, b]] = labels[[b, a]]
    return labels


def _imported(path: str) -> Callable[[Any], Any]:
    module, _, name = path.rpartition(".")
    try:
        return _called(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"data.shifts has {path!r}, which cannot be imported ({error}): give {NAMES}") from error


def _called(found: Any) -> Callable[[Any], Any]:
    if not callable(found):
        raise UserError(f"data.shifts has {found!r}, which cannot be called: give {NAMES}")
    made: Callable[[Any], Any] = found() if isinstance(found, type) else found
    return made
