"""The variants of a study: spelled out, or as the product of a matrix's axes.

A matrix maps axes to their entries. An axis with a mapping has labels and the settings of each; an axis with a list has
the values of one setting, whose dotted path it is called by, after a name for the labels if it is to have another::

    matrix:
      method:
        AP-FL: {algorithm: APFL}
        FedAvg: {base: ../fedavg.yaml, algorithm: FedAvg}
      α = data.partition.alpha: [0.01, 0.1]

makes "AP-FL, α = 0.01", "AP-FL, α = 0.1", "FedAvg, α = 0.01" and "FedAvg, α = 0.1": the last axis runs fastest, and an
empty label adds nothing to a name. The settings of one axis are laid over those before it as config files are; files
that an entry names under ``base`` come after the study's own, below all settings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

from flcluster.errors import UserError
from flcluster.files import slug
from flcluster.report.study.series import merged

Matrix = dict[str, dict[str, dict[str, Any] | None] | list[Any]]
"""Axis -> label -> settings, or the values of one setting."""


@dataclass(frozen=True)
class Layer:
    """What one label stands for."""

    label: str
    settings: dict[str, Any] = field(default_factory=dict)
    """As a config file would say them."""
    base: tuple[Path, ...] = ()
    """Config files below all settings."""


def layer(label: str, settings: Mapping[str, Any] | None, folder: Path) -> Layer:
    """Take the bases, which are named relative to a folder, out of settings."""
    own = dict(settings or {})
    return Layer(label, own, tuple(folder / name for name in as_list(own.pop("base", []))))


def expand(matrix: Matrix, folder: Path) -> dict[str, tuple[Layer, ...]]:
    """Return the variants of a matrix: name -> an entry of each axis."""
    found: dict[str, tuple[Layer, ...]] = {}
    for layers in product(*(_entries(axis, entries, folder) for axis, entries in matrix.items())):
        name = ", ".join(each.label for each in layers if each.label)
        if name in found:
            raise UserError(f"matrix: two variants are called {name!r}; give the entries of an axis other labels")
        found[name] = layers
    return found


def _entries(axis: str, entries: dict[str, dict[str, Any] | None] | list[Any], folder: Path) -> list[Layer]:
    if not entries:
        raise UserError(f"matrix: axis {axis} has no entries")
    if isinstance(entries, dict):
        return [layer(str(label), settings, folder) for label, settings in entries.items()]
    name, _, path = axis.rpartition(" = ")
    if "." not in path and any(isinstance(value, dict | str) for value in entries):
        raise UserError(f"matrix: axis {axis} has a list: call it by the setting's path, e.g. α = data.partition.alpha")
    return [Layer(f"{name or path.rpartition('.')[2]} = {value}", nested(path, value)) for value in entries]


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the settings that a dotted path stands for; below data, model and algorithm ``init_args`` may be left out.

    >>> nested("data.partition.alpha", 0.1)
    {'data': {'init_args': {'partition': {'init_args': {'alpha': 0.1}}}}}
    >>> nested("engine.session", 5)
    {'engine': {'session': 5}}
    """
    parts = path.split(".")
    if parts[0] in ("data", "model", "algorithm") and "init_args" not in parts:
        parts = ".init_args.".join(parts).split(".")
    return reduce(lambda tree, part: {part: tree}, reversed(parts), value)


def settings_of(layers: Iterable[Layer]) -> dict[str, Any]:
    """Return what the layers of a variant say together."""
    return reduce(merged, (each.settings for each in layers), {})


def chosen(asked: Iterable[str], variants: Iterable[str]) -> tuple[str, ...]:
    """Return the variants that are asked for: by name, by that of their directory, or by labels that several have.

    >>> chosen(["q = 2", "A, p = 1"], ["A, p = 1", "A, p = 2", "B, p = 1, q = 2"])
    ('B, p = 1, q = 2', 'A, p = 1')
    """
    known = list(variants)
    found: dict[str, None] = {}
    for name in asked:
        exact = [variant for variant in known if name in (variant, slug(variant))]
        if not (matches := exact or [variant for variant in known if f", {name}, " in f", {variant}, "]):
            raise UserError(f"there is no variant {name}; there are {', '.join(known)}")
        found.update(dict.fromkeys(matches))
    return tuple(found)


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, anything else as the one item of a list."""
    return value if isinstance(value, list) else [value]
