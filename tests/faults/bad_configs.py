"""Bad configurations, made from the signatures of the classes themselves, so that a new class is covered unasked."""

import dataclasses
import inspect
import typing
from types import NoneType, UnionType

import numpy as np

import flcluster.algorithms
import flcluster.datamodules
import flcluster.modules
from flcluster.engine.arguments import EngineConfig, FabricConfig
from flcluster.protocol import RoundAlgorithm, UploadAlgorithm

WRONG = {
    int: ["-1", "-1000000000", "soon", "null", "1.5", "nan", "inf", "[]", "{}", "1e308"],
    float: [".nan", ".inf", "-.inf", "nan", "inf", "-inf", "-1", "1e308", "-1e308", "soon", "null", "[]", "{}"],
    bool: ["perhaps", "null", "7", "[]"],
    str: ["null", "[]", "{a: 1}"],
    object: ["NoSuchClass", "null", "7", "[]", "{class_path: NoSuchClass}", "soon"],
}
"""Values that no setting of a type should take, or that most should not."""


def leaves(kind):
    """The plain types that an annotation allows."""
    if typing.get_origin(kind) in (typing.Union, UnionType):
        return {leaf for part in typing.get_args(kind) for leaf in leaves(part)}
    return {kind if kind in (int, float, bool, str, NoneType) else object}


def wrong_values(kind):
    """Values to try for an annotation; null only where it is not allowed."""
    kinds = leaves(kind)
    values = [value for leaf in WRONG if leaf in kinds for value in WRONG[leaf]]
    return list(dict.fromkeys(value for value in values if not (value == "null" and NoneType in kinds)))


def settings_of(kind):
    """Name and annotation of what a class is configured with."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return [(field.name, hints.get(field.name, object)) for field in dataclasses.fields(kind) if field.init]
    found, taken = [], set()
    for base in kind.__mro__:
        if "__init__" not in vars(base) or base is object:
            continue
        try:
            hints = typing.get_type_hints(base.__init__)
        except (NameError, TypeError):
            hints = {}
        for name, parameter in list(inspect.signature(base.__init__).parameters.items())[1:]:
            plain = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if plain and name not in taken:
                taken.add(name)
                found.append((name, hints.get(name, object)))
    return found


def classes(module, base):
    """The classes that a library offers below a base, by name."""
    offered = {name: getattr(module, name) for name in module.__all__}
    return {
        n: c for n, c in offered.items() if inspect.isclass(c) and issubclass(c, base) and not inspect.isabstract(c)
    }


def bad_configs():
    """Yield ``(key, flags)``: one setting of one class made bad, over the tests' smallest configuration."""
    for base in (UploadAlgorithm, RoundAlgorithm):
        for name, kind in classes(flcluster.algorithms, base).items():
            for key, hint in settings_of(kind):
                for value in wrong_values(hint):
                    yield f"algorithm.{key}", ["--algorithm", name, f"--algorithm.{key}={value}"]
    for key, hint in settings_of(flcluster.modules.MLP):
        if key not in ("num_classes", "input_shape"):
            for value in wrong_values(hint):
                yield f"model.{key}", [f"--model.{key}={value}"]
    for key, hint in settings_of(flcluster.datamodules.RotatedDigits):
        if key != "seed":
            for value in wrong_values(hint):
                yield f"data.{key}", [f"--data.{key}={value}"]
    for name, kind in (("engine", EngineConfig), ("fabric", FabricConfig)):
        for key, hint in settings_of(kind):
            for value in wrong_values(hint):
                yield f"{name}.{key}", [f"--{name}.{key}={value}"]
    for part in ("data", "model", "algorithm", "seed_everything", "engine", "fabric", "logger", "callbacks"):
        for value in ("null", "7", "[]", "{}", "NoSuchClass", "nan"):
            yield part, [f"--{part}={value}"]


def drawn(count, seed):
    """Some of them, the same ones for a seed."""
    every = list(bad_configs())
    return [every[i] for i in sorted(np.random.default_rng(seed).permutation(len(every))[:count].tolist())]
