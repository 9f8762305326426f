"""What a command line or a script gives, file by file and flag by flag."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flcluster.engine.layers import layers


@dataclass(frozen=True)
class Given:
    """A setting as it was given."""

    key: str
    value: Any
    where: str = ""
    """The file that gives it."""
    flag: bool = False
    """Whether it is text from a command line."""


def given_by(argv: Sequence[str] | Mapping[str, Any]) -> Iterator[Given]:
    """Yield the settings of a command line, or of a tree, in the order in which they are laid over each other.

    >>> [(each.key, each.value) for each in given_by(["--algorithm", "CDFL", "--algorithm.rho=1"])]
    [('algorithm', 'CDFL'), ('algorithm.rho', '1')]
    """
    if isinstance(argv, Mapping):
        yield from (Given(str(key), value) for key, value in argv.items())
        return
    waiting = list(argv)
    while waiting:
        flag = re.fullmatch(r"--([\w.]+)\+?(?:=(.*))?", waiting.pop(0), re.DOTALL)
        if flag is None:
            continue
        key, value = flag.groups()
        if value is None:
            value = waiting.pop(0) if waiting and not waiting[0].startswith("--") else ""
        if key == "config":
            yield from _of_config(value)
        elif key not in ("print_config", "help"):
            yield Given(key, value, flag=True)


def _of_config(config: str) -> Iterator[Given]:
    """Yield what a config gives, and before that what its bases do; it may be text, which has no name."""
    files = [] if "\n" in config else [(str(path), path.read_text(encoding="utf-8")) for path in layers(Path(config))]
    for where, text in files or [("", config)]:
        tree = yaml.safe_load(text)
        for key, value in tree.items() if isinstance(tree, dict) else ():
            if key != "base":
                yield Given(str(key), value, where)
