"""What constructors refuse, by the key of their part; and memory that a run would need, but that is not there."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

from flcluster.engine.messages.classes import imported, parameters
from flcluster.errors import UserError
from flcluster.given import blamed
from flcluster.records.configuration import flat

NOT_BUILT = "cannot build what the configuration names"
NO_MEMORY = r"allocate memory|out of memory|Unable to allocate|array is too big|Storage size|exceeds the maximum"
"""What PyTorch, NumPy and the operating system say."""


def refused_by(error: BaseException, settings: Mapping[str, Any]) -> UserError:
    """Return what a constructor said, as the mistake of the user that it is, with the key of its part."""
    root = _root(error)
    told = " ".join(str(root).split()) or type(root).__name__
    if not isinstance(root, UserError | ValueError):  # those are meant for who configures
        told = blamed(root) or told
    if isinstance(root, UserError) and re.match(rf"({'|'.join(settings)})\b", told):
        return root
    key, kind = _part_of(root, settings)
    name = re.match(r"(\w+)(:| is | must )", told)
    if kind is not None and name and name[1] in parameters(kind):
        return UserError(f"{key}.{told}")
    return UserError(f"{key or NOT_BUILT}: {told}")


def _root(error: BaseException) -> BaseException:
    """Return what was said first, and wrapped by the parser; a user's mistake is told as it is."""
    while not isinstance(error, UserError) and (error.__cause__ or error.__context__):
        error = error.__cause__ or error.__context__ or error
    return error


def _part_of(error: BaseException, settings: Mapping[str, Any]) -> tuple[str, type | None]:
    """Return the key and the class of the innermost configured object in whose code an error arose."""
    parts = {kind: key for name, value in settings.items() for key, kind in _classes(name, value)}
    for frame in reversed([frame for frame, _ in walk_tb(error.__traceback__)]):
        kind = type(frame.f_locals.get("self"))
        if kind in parts:
            return parts[kind], kind
    return "", None


def _classes(key: str, value: Any) -> Iterator[tuple[str, type]]:
    """Yield the keys and classes of a part and of what is below it."""
    if isinstance(value, list):
        for each in value:
            yield from _classes(key, each)
    if isinstance(value, Mapping) and isinstance(value.get("class_path"), str):
        yield key, imported(value["class_path"])
        for name, own in (value.get("init_args") or {}).items():
            yield from _classes(f"{key}.{name}", own)


@contextmanager
def memory_told(config: Mapping[str, Any]) -> Iterator[None]:
    """Tell in one line that there is not enough memory, and which settings ask for most."""
    try:
        yield
    except (MemoryError, RuntimeError, ValueError, OverflowError) as error:
        root = _root(error)
        if not (isinstance(root, MemoryError | OverflowError) or re.search(NO_MEMORY, str(root))):
            raise
        most = ", ".join(f"{key}={value}" for key, value in _largest(config)[:4])
        what = " ".join(str(root).split())[:200] or type(root).__name__
        raise UserError(f"not enough memory for this run ({what}); its largest settings are {most}") from error


def _largest(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the settings that count something, the largest first."""

    def size(value: Any) -> float:
        counts = [
            each for each in (value if isinstance(value, list | tuple) else [value]) if type(each) in (int, float)
        ]
        return max(counts, default=0)

    parts = {key: value for key, value in config.items() if key in ("data", "model", "algorithm")}
    found = [(key.replace(".init_args", ""), value) for key, value in flat(parts).items() if size(value) > 1]
    return sorted((each for each in found if not each[0].endswith(".seed")), key=lambda each: -size(each[1]))
