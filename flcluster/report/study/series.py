"""Which variants of a study make up one line along a setting of theirs, or one bar in each of several groups."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from flcluster.errors import UserError

Settings = Mapping[str, Any]


Lines = dict[str, list[tuple[float, str]]]
"""Name of a line -> the variants on it and where they are, from left to right."""


NUMBER_AT_END = re.compile(r"(^|[\s,;:(]+)([^\s=,;:(]+\s*=\s*)?[-+]?\d*\.?\d+(e[-+]?\d+)?\)?$", re.IGNORECASE)


def line_name(variant: str) -> str:
    """Return a variant's name without the number at its end: the name of the line that it is a point of.

    >>> [line_name(name) for name in ("DFCA-GI, p = 0.02", "DFCA-GI (0.5)", "p=1e-3", "CA2FL")]
    ['DFCA-GI', 'DFCA-GI', '', 'CA2FL']
    """
    return NUMBER_AT_END.sub("", variant)


def merged(below: Any, above: Any) -> Any:
    """Lay settings over others, as two config files would be: what both name comes from above."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: merged(below.get(key), value) for key, value in above.items()}


def setting(settings: Settings, path: str) -> Any:
    """Return the value under a dotted path, None if there is none; ``init_args`` may be left out on the way.

    >>> setting({"algorithm": {"class_path": "DFCA", "init_args": {"min_share": 0.1}}}, "algorithm.min_share")
    0.1
    """
    tree: Any = settings
    for part in (part for part in path.split(".") if part != "init_args"):
        places = [tree.get("init_args"), tree] if isinstance(tree, dict) else []
        tree = next((place[part] for place in places if isinstance(place, dict) and part in place), None)
    return tree


def series(common: Settings, variants: Mapping[str, Settings], path: str) -> tuple[Lines, Sequence[str]]:
    """Sort variants into lines by their names, each at its number of a setting; also return those without it."""
    values = {name: setting(merged(common, own), path) for name, own in variants.items()}
    lines: Lines = {}
    for name, value in values.items():
        if value is not None:
            lines.setdefault(line_name(name), []).append((_number(value, name, path), name))
    if not lines:
        raise UserError(f"no variant sets {path}; name a setting of theirs, e.g. algorithm.topology.p")
    for line in lines.values():
        line.sort()
        if twice := [(a, b) for (x, a), (y, b) in pairwise(line) if x == y]:
            raise UserError(f"{twice[0][0]!r} and {twice[0][1]!r} would be one point of one line; name them apart")
    return lines, [name for name, value in values.items() if value is None]


def grouped(variants: Sequence[str], groups: Sequence[str]) -> dict[str, dict[str, str]]:
    """Sort variants into groups by the ends of their names: name of a bar -> group -> variant.

    >>> grouped(["FedAvg, 5 clients", "AP-FL, 5 clients"], ["5 clients"])
    {'FedAvg': {'5 clients': 'FedAvg, 5 clients'}, 'AP-FL': {'5 clients': 'AP-FL, 5 clients'}}
    """
    bars: dict[str, dict[str, str]] = {}
    for name in variants:
        ends = [group for group in groups if name.endswith(group)]
        if not ends:
            raise UserError(f"{name!r} ends with none of {', '.join(map(repr, groups))}; leave it out by of: [...]")
        group = max(ends, key=len)
        other = bars.setdefault(name.removesuffix(group).rstrip(" ,;:("), {}).setdefault(group, name)
        if other != name:
            raise UserError(f"{other!r} and {name!r} would be one bar of group {group!r}; name them apart")
    return bars


def _number(value: Any, variant: str, path: str) -> float:
    """Also numbers that YAML takes for text, such as 1e-3."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{path} is {value!r} in variant {variant!r}, not a number")
    return number
