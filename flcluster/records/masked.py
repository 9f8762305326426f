"""Secrets among settings: they are used, and no file of a run keeps them."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MASK = "***"
"""What stands in files instead of a secret."""

OF_LOGGERS = r"([\w-]*[_-])?(api[_-]?key|key|token|password|passwd|secret|credentials?|authorization)"
"""Names of secrets among the arguments of loggers."""

ANYWHERE = r"token|([\w-]*[_-])?(api[_-]?key|access[_-]?key|secret|password|passwd|(access|auth|hf)[_-]?token)"
"""Names of secrets elsewhere, where a key may also be that of a column."""

IN_ADDRESS = r"(?<=://)[^/\s@]+(?=@)"
"""Who signs in, and with what, within an address."""


def is_secret(path: tuple[str, ...]) -> bool:
    """Say by its place whether a setting is a secret.

    >>> is_secret(("logger", "init_args", "api_key")), is_secret(("data", "init_args", "label_key"))
    (True, False)
    """
    names = OF_LOGGERS if path[:1] == ("logger",) else ANYWHERE
    return any(re.fullmatch(names, part, re.IGNORECASE) for part in path)


def masked(tree: Any, path: tuple[str, ...] = ()) -> Any:
    """Return settings with ``***`` in the places of secrets.

    >>> masked({"logger": {"class_path": "CometLogger", "init_args": {"api_key": "abc", "name": "x"}}})
    {'logger': {'class_path': 'CometLogger', 'init_args': {'api_key': '***', 'name': 'x'}}}
    """
    if isinstance(tree, Mapping):
        return {key: masked(value, (*path, str(key))) for key, value in tree.items()}
    if isinstance(tree, list):
        return [masked(value, path) for value in tree]
    if tree is None or isinstance(tree, bool) or not is_secret(path):
        return re.sub(IN_ADDRESS, MASK, tree) if isinstance(tree, str) and path[:1] == ("logger",) else tree
    return MASK


def secrets_in(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the secrets among settings with their places."""
    if isinstance(tree, Mapping | list):
        pairs = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
        for key, value in pairs:
            yield from secrets_in(value, (*path, str(key)))
    elif isinstance(tree, str) and path[:1] == ("logger",) and not is_secret(path):
        yield from ((path, found) for found in re.findall(IN_ADDRESS, tree))
    elif tree is not None and not isinstance(tree, bool) and is_secret(path):
        yield path, str(tree)


def in_environment() -> list[str]:
    """Return the secrets that this process's environment names as such."""
    named = (value for name, value in os.environ.items() if re.fullmatch(OF_LOGGERS, name, re.IGNORECASE))
    return [value for value in named if len(value) >= 8 and "/" not in value]  # a path, say, of a file with a key


def hiding(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return what takes secrets out of a text."""
    known = sorted({secret for secret in secrets if len(secret) >= 4 and secret != MASK}, key=len, reverse=True)
    flags = rf"(--(?:logger\.(?:\w+\.)*{OF_LOGGERS}|[\w.]*\.(?:{ANYWHERE}))[= ])('[^']*'|\S+)"

    def hide(text: str) -> str:
        text = re.sub(flags, rf"\g<1>{MASK}", text, flags=re.IGNORECASE) if "--" in text else text
        for secret in known:
            text = text.replace(secret, MASK)
        return text

    return hide
