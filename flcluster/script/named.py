"""What is compared, by name."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flcluster.engine.resume import named_after
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.protocol.budget import LENGTHS
from flcluster.script.fitting import Named

Method = Algorithm[Any] | Named | Path
"""A method, or a config."""


def arguments_of(
    methods: Mapping[str, Method] | Iterable[Method | Mapping[str, Method]],
    common: Mapping[str, Any],
    lengths: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, Any]]:
    """Return the arguments of ``fit`` for each method by its name; lengths of its own are instead of the common one."""
    pairs = _pairs(methods)
    if not pairs:
        raise UserError('methods are to be named: {"gentle": CDFL(beta0=0.1), "local": "Local"}')
    names = [name for name, _ in pairs]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise UserError(f'two methods are called {twice[0]}: name them, {{"one": …, "other": …}}')
    if unknown := [name for name in lengths if name not in names]:
        raise UserError(f"lengths: there is no method {unknown[0]}; there are {', '.join(names)}")
    if wrong := [name for name, own in lengths.items() if not (isinstance(own, Mapping) and {*own} <= {*LENGTHS})]:
        raise UserError(
            f'lengths of {wrong[0]} must be like {{"rounds": 5}} or {{"cycles": 5}}, got {lengths[wrong[0]]}'
        )
    each = {}
    for name, method in pairs:
        given = {key: value for key, value in common.items() if not (key in LENGTHS and lengths.get(name))}
        each[name] = {**given, "config" if _is_config(method) else "algorithm": method, **lengths.get(name, {})}
    return each


def _pairs(methods: Mapping[str, Method] | Iterable[Method | Mapping[str, Method]]) -> list[tuple[str, Method]]:
    """Return methods with their names."""
    if isinstance(methods, str | Path | Algorithm) or (isinstance(methods, Mapping) and "class_path" in methods):
        methods = [methods]
    pairs: list[tuple[str, Method]] = []
    for each in [methods] if isinstance(methods, Mapping) else methods:
        if isinstance(each, Mapping) and "class_path" not in each:
            pairs += each.items()
        else:
            pairs.append((_name(each), each))
    return pairs


def _is_config(method: Any) -> bool:
    return isinstance(method, Path) or (isinstance(method, str) and method.endswith((".yaml", ".yml")))


def _name(method: Any) -> str:
    if _is_config(method):
        return named_after(Path(method))
    told = method["class_path"] if isinstance(method, Mapping) else method
    kind = told if isinstance(told, str) else (told if isinstance(told, type) else type(told)).__name__
    return kind.rpartition(".")[2]
