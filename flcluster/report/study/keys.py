"""What stands under a key of a study file, checked: a mistake is one message that names the key."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

from flcluster.errors import UserError

T = TypeVar("T")


def made(kind: type[T], tree: Any, where: str, needed: Sequence[str] = (), **convert: Any) -> T:
    """Make a dataclass of a mapping, some of whose values are converted first."""
    check_keys(tree, [f.name for f in fields(kind)], where, needed)  # type: ignore[arg-type]
    convert |= {"x": str, "y": lambda y: y if isinstance(y, str) else names_in(y, f"{where}.y")}
    return kind(**{name: convert.get(name, lambda value: value)(value) for name, value in tree.items()})


def check_keys(tree: Any, names: Sequence[str], where: str, needed: Sequence[str] = ()) -> None:
    """Refuse what is no mapping, has keys of other names, or lacks one."""
    if not isinstance(tree, dict):
        raise UserError(f"{where} must be a mapping with keys of {', '.join(names)}, got {tree!r}")
    if unknown := [str(name) for name in tree if name not in names]:
        raise UserError(f"{where} has an unknown key {', '.join(unknown)}; there are {', '.join(names)}")
    if absent := [name for name in needed if tree.get(name) is None]:
        raise UserError(f"{where} lacks {', '.join(absent)}")


def names_in(value: Any, where: str) -> tuple[str, ...]:
    """Return the names that are meant by one name or a list of them."""
    values = value if isinstance(value, list | tuple) else [value]
    if wrong := [item for item in values if isinstance(item, dict | list) or item is None]:
        raise UserError(f"{where} must be a name or a list of names, got {wrong[0]!r}")
    return tuple(str(item) for item in values)


def list_at(tree: dict[str, Any], name: str) -> list[Any]:
    """Return the list under a key, empty if there is none."""
    value = tree.get(name) or []
    if not isinstance(value, list):
        raise UserError(f"{name} must be a list, got {value!r}")
    return value
