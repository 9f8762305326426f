"""A step that would leave numbers in a run's state that are not finite is found, so that it can be undone."""

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from flcluster.federation.layout import all_finite


def broken(before: Any, after: Any, gaps: Collection[str] = (), name: str = "state") -> str | None:
    """Name the first part of a state that was finite before a step and is not after it; None if all is well.

    Args:
        before: The state before the step.
        after: The state after it; parts that are the same objects are not looked at again.
        gaps: Names of parts in which NaN stands for what is not known (see ``unknown``).
        name: What the state is called.

    >>> import torch
    >>> broken({"a": torch.ones(2), "b": [1.0]}, {"a": torch.ones(2), "b": [math.nan]})
    'b[0]'
    """
    if after is before or name in gaps:
        return None
    if isinstance(after, Tensor | float):
        return None if _finite(after) or (before is not None and not _finite(before)) else name
    own, then = parts_of(after, name), dict(parts_of(before, name))
    return next((found for key, part in own if (found := broken(then.get(key), part, gaps, key))), None)


def unknown(state: Any, name: str = "state") -> set[str]:
    """Return the names of the parts of a run's first state that are not finite: there NaN says "not known yet".

    >>> import torch
    >>> sorted(unknown({"best": torch.full((2,), math.nan), "models": torch.ones(2), "memory": {"utility": math.nan}}))
    ['best', 'utility']
    """
    if isinstance(state, Tensor | float):
        return set() if _finite(state) else {name}
    return {found for key, part in parts_of(state, name) for found in unknown(part, key)}


def parts_of(value: Any, name: str) -> list[tuple[str, Any]]:
    """Return what a state consists of, by name; what is in a list is called as the list, with its place."""
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{name}[{at}]" if name != "state" else str(at), part) for at, part in enumerate(value)]
    return []


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or all_finite(value)
    return not isinstance(value, float) or math.isfinite(value)
