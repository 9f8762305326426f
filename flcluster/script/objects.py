"""Objects of a script told as a configuration tells them: class_path and init_args."""

import inspect
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from flcluster.given import Recorded


class UntoldError(Exception):
    """Why an object cannot be told."""


def told(value: Any) -> Any:
    """Return what a configuration would say for this value, or raise ``UntoldError``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path | Enum):
        return str(value) if isinstance(value, Path) else value.name
    if isinstance(value, list | tuple):
        return [told(part) for part in value]
    if isinstance(value, Mapping):
        return {told(key): told(part) for key, part in value.items()}
    if isinstance(value, type):
        return class_path(value)
    if type(value).__module__ in ("builtins", "numpy", "torch"):
        raise UntoldError(f"an argument is a {type(value).__name__}, which a file cannot hold")
    entry: dict[str, Any] = {"class_path": class_path(type(value))}
    found = {name: told(part) for name, part in arguments(value).items()}
    return entry | ({"init_args": found} if found else {})


def class_path(kind: type) -> str:
    """Return where another process can import a class from."""
    if kind.__module__ in ("__main__", "builtins") or "<locals>" in kind.__qualname__:
        raise UntoldError(f"{kind.__name__} stands in the script itself, where the command line cannot import it")
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:  # to import it may run a script
        raise UntoldError(f"{kind.__name__} is not what one gets by importing {kind.__module__}.{kind.__qualname__}")
    return f"{kind.__module__}.{kind.__qualname__}"


def arguments(value: Any) -> dict[str, Any]:
    """Return what an object's constructor was given: recorded, the fields of a dataclass, or saved hyper-parameters."""
    if isinstance(value, Recorded):
        return value.made_with
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    kept = dict(getattr(value, "hparams", None) or {})
    lacking = [name for name in parameters(type(value)) if name not in kept]
    if lacking:
        remedy = (
            "call self.save_hyperparameters() in its __init__" if hasattr(value, "hparams") else "make it a dataclass"
        )
        raise UntoldError(f"{type(value).__name__} does not keep its argument {lacking[0]} ({remedy})")
    return kept


def parameters(kind: type) -> list[str]:
    """Return the names of a constructor's parameters."""
    some = inspect.signature(kind).parameters.values()
    return [each.name for each in some if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def sketched(value: Any) -> dict[str, Any]:
    """Return as much of an object as can be told, for people to read."""
    entry: dict[str, Any] = {"class_path": f"{type(value).__module__}.{type(value).__qualname__}"}
    try:
        found = arguments(value)
    except UntoldError:
        return entry
    known = {}
    for name, part in found.items():
        try:
            known[name] = told(part)
        except UntoldError:
            known[name] = f"<{type(part).__name__}>"
    return entry | ({"init_args": known} if known else {})
