"""Classes as a configuration sees them: by what names they are known, what settings they take, of what type."""

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from jsonargparse import ArgumentError, ArgumentParser

PLAIN = (int, float, str, bool, bytes, complex, dict, list, tuple, set, NoneType)
SERIES = (list, tuple, set)


def leaves(hint: Any) -> Iterator[Any]:
    """Yield what a type is made of: the members of unions, and of lists of them."""
    origin = get_origin(hint)
    if origin in (Union, UnionType) or (inspect.isclass(origin) and issubclass(origin, SERIES)):
        for part in get_args(hint):
            yield from leaves(part)
    elif isinstance(hint, TypeVar):
        yield from leaves(hint.__bound__)
    elif isinstance(hint, tuple):  # as a parser holds several bases
        for part in hint:
            yield from leaves(part)
    else:
        yield origin if inspect.isclass(origin) and origin not in PLAIN else hint


def bases(hint: Any) -> list[type]:
    """Return the classes of which a setting takes an object."""
    found = [leaf for leaf in leaves(hint) if inspect.isclass(leaf) and leaf not in PLAIN]
    return [leaf for leaf in found if not leaf.__module__.startswith(("builtins", "typing", "collections", "pathlib"))]


def known(kinds: list[type]) -> dict[str, type]:
    """Return the classes that may be named where one of these kinds is asked for, by their bare names."""
    found: dict[str, type] = {}
    for kind in kinds:
        for each in (kind, *kind.__subclasses__()):
            own = {} if each is kind else known([each])
            hidden = each.__name__.startswith("_") or "<locals>" in each.__qualname__
            if not inspect.isabstract(each) and not hidden:
                own[each.__name__] = each
            found |= {name: sub for name, sub in own.items() if name not in found}
    return found


def imported(path: str) -> Any:
    """Return what a dotted path names; raises ImportError or AttributeError."""
    module, _, name = path.rpartition(".")
    if not all(part.isidentifier() for part in path.split(".")) or not module:
        raise ImportError(f"{path!r} is no dotted path of a class")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as gone:
        if "." not in module:
            raise
        try:
            holder = imported(module)  # a class within a class
        except AttributeError:
            raise gone from None
        return getattr(holder, name)


def classes_in(module: str) -> list[str]:
    """Return the classes that a module has."""
    return [name for name, kind in vars(import_module(module)).items() if inspect.isclass(kind)]


def actions(parser: ArgumentParser) -> dict[str, Any]:
    """Return a parser's keys with their types; a key without one has None."""
    return {
        each.dest: getattr(each, "_typehint", None) or each.type
        for each in parser._actions
        if each.dest not in ("help", "print_config") and not each.dest.endswith(".help")
    }


@cache
def parameters(kind: type) -> Mapping[str, Any]:
    """Return the settings that a class takes, with their types, as a configuration names them."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, fail_untyped=False, sub_configs=False)
    return actions(parser)


def accepts(hint: Any, value: Any, as_text: bool) -> bool:
    """Say whether a setting of some type takes a value, which a command line gives as text."""
    if hint is None or hint is Any:
        return True
    parser = ArgumentParser(exit_on_error=False)
    try:
        parser.add_argument("--it", type=hint)
    except (TypeError, ValueError):
        return True
    try:
        if as_text:
            parser.parse_args([f"--it={value}"])
            value = from_yaml(value)
            if not isinstance(value, list | dict):
                return True
        parser.parse_object({"it": value})
    except (ArgumentError, TypeError, ValueError):
        return False
    return True


def from_yaml(text: Any) -> Any:
    """Return what text of a command line says as YAML; the text itself if it is none."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, AttributeError, ValueError):
        return text


def settings_of(value: Any) -> tuple[str | None, Mapping[str, Any]] | None:
    """Return the class and the settings that a value of a configuration names; None if it is neither."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping):
        path = value.get("class_path")
        settings = value.get("init_args") or {}
        others = {key: each for key, each in value.items() if key not in ("class_path", "init_args", "dict_kwargs")}
        if isinstance(settings, Mapping) and (path is None or isinstance(path, str)):
            return path, {**settings, **others}
    return None
