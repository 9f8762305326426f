"""Methods by the names that tables print: ``AP-FL`` is the class APFL, ``DFCA-LI`` is DFCA with a setting."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flcluster.engine.messages.classes import known


def method_named(name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the class that a printed name means, and the settings that go with it; any other name as it is.

    >>> import flcluster.algorithms
    >>> method_named("AP-FL"), method_named("q-FedAvg"), method_named("mine.Method")
    (('APFL', {}), ('QFedAvg', {}), ('mine.Method', {}))
    """
    from flcluster.protocol.base import Algorithm  # with PyTorch, which --help does without

    methods = known([Algorithm])
    if name in methods or not re.fullmatch(r"[\w-]+", name):
        return name, {}
    for own, kind in methods.items():
        for printed, settings in vars(kind).get("printed", {}).items():
            if _bare(printed) == _bare(name):
                return own, settings
    alike = [own for own in methods if _bare(own) == _bare(name)]
    return (alike[0] if len(alike) == 1 else name), {}


def _bare(name: str) -> str:
    return name.replace("-", "").lower()


def in_own_names(argv: Sequence[str]) -> list[str]:
    """Return a command line with classes in place of printed names."""
    args, out = list(argv), list[str]()
    while args:
        arg = args.pop(0)
        flag, equals, value = arg.partition("=")
        if flag not in ("--algorithm", "--algorithm.help") or not (equals or args):
            out.append(arg)
            continue
        own, settings = method_named(value if equals else args.pop(0))
        out += [flag, own]
        if flag == "--algorithm":
            out += [part for key, each in settings.items() for part in (f"--algorithm.{key}", str(each))]
    return out


def tree_in_own_names(tree: Any) -> Any:
    """Return a tree of settings with a class in place of a printed name; the same tree if there is none."""
    part = tree.get("algorithm") if isinstance(tree, Mapping) else None
    name = part.get("class_path") if isinstance(part, Mapping) else part
    if not isinstance(name, str):
        return tree
    own, settings = method_named(name)
    if own == name:
        return tree
    given = dict(part) if isinstance(part, Mapping) else {}
    init_args = {**settings, **(given.get("init_args") or {})}
    return {**tree, "algorithm": {**given, "class_path": own, **({"init_args": init_args} if init_args else {})}}
