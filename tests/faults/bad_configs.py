"""Bad configurations, made from the signatures of the classes themselves, so that a new class is covered unasked."""

import dataclasses
import inspect
import typing
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import NoneType

import good_configs as good
import numpy as np
import yaml

WRONG: dict[object, list[str]] = {
    int: ["-1", "-1000000000", "soon", "null", "1.5", ".nan", ".inf", "[]", "{}", "1e308", "0", "[1, [2]]",
          "1000000000000", "99999999999999999999", "true"],
    float: [".nan", ".inf", "-.inf", "nan", "inf", "-inf", "-1", "1e308", "-1e308", "soon", "null", "[]", "{}",
            "1e-320", "1000000000000", "2020-01-01"],
    bool: ["perhaps", "null", "7", "[]", "1.5"],
    str: ["null", "[]", "{a: 1}", "''", "../../..", '"\\e[31mred|<script>\\n"', "x" * 5000],
    object: ["NoSuchClass", "null", "7", "[]", "{class_path: NoSuchClass}", "soon", "{class_path: 7}",
             "flcluster.errors", "{class_path: [a, b]}", "{init_args: {a: 1}}", "{a: {b: [1, {c: null}]}}", "[[[]]]"],
    "series": ["soon", "7", "{}", "[soon]", "[null]", "[[[]]]", "[-1]", "[.nan]", "[1e308]", "[1000000000]",
               "[]", "[0, 0]",
               "{a: 1}", "[9, 1]"],
    "mapping": ["soon", "7", "[]", "[soon]", "{a: .nan}", "{7: {a: []}}", "{a: {b: [1, {c: null}]}}"],
    typing.Literal: ["nosuch", "null", "7", "[]", "{}"],
}  # fmt: skip
"""Values that no setting of a type should take, or that most should not; as a command line or a file would say them."""


@dataclass(frozen=True)
class Bad:
    """A configuration with one bad setting."""

    key: str
    """As a message must name it."""
    value: str
    base: tuple[str, ...]
    """Flags of the good configuration."""
    origin: tuple[str, str]
    """The class that declares the setting, and the setting."""
    kind: str
    """The class that has it here."""
    command: str = "fit"
    wrap: tuple[str, ...] = field(default=("{}",))
    """How the value stands on the command line, or in a study file."""
    usual: tuple[str, ...] | None = None
    """Flags of the same class with good settings; the base if not given."""

    def flags(self) -> list[str]:
        """Return the whole command line."""
        return [*self.base, *(part.replace("{}", self.value, 1) for part in self.wrap)]


def kinds(hint: typing.Any) -> set[object]:
    """Return what an annotation allows: keys of WRONG, and NoneType."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, typing.TypeVar):
        return kinds(hint.__bound__)
    if origin is typing.Literal:
        return {typing.Literal}
    if origin is not None and (not inspect.isclass(origin) or origin.__name__ in ("UnionType", "Union")):
        return {leaf for part in parts for leaf in kinds(part)}
    kind = origin or hint
    if inspect.isclass(kind) and kind is not str and issubclass(kind, typing.Mapping):
        return {"mapping"}
    if inspect.isclass(kind) and kind is not str and issubclass(kind, typing.Iterable) and kind in (list, tuple, set):
        return {"series"}
    if getattr(kind, "__name__", "") == "Sequence":
        return {"series"}
    return {kind if kind in (int, float, bool, str, NoneType) else object}


def wrong_values(hint: typing.Any) -> list[str]:
    """Values to try for an annotation; null only where it is not allowed."""
    allowed = kinds(hint)
    values = [value for kind in WRONG if kind in allowed for value in WRONG[kind]]
    values += [value for value in ("soon", "[-1]", "{a: {b: []}}") if value not in values]
    return list(dict.fromkeys(value for value in values if not (value == "null" and NoneType in allowed)))


def declarer(kind: type, name: str) -> str:
    """Return the class among a class's bases that declares a setting."""
    found = kind.__name__
    for base in kind.__mro__:
        own = vars(base).get("__annotations__", {}) if dataclasses.is_dataclass(base) else {}
        init = vars(base).get("__init__")
        if name in own or (not dataclasses.is_dataclass(base) and init and name in inspect.signature(init).parameters):
            found = base.__name__
    return found


LINKED = {"data.seed", "model.num_classes", "model.input_shape"}
"""Settings that follow from others."""


def settings(key: str, kind: type, base: list[str], way: typing.Callable[[str], tuple[str, ...]]) -> Iterator[Bad]:
    """Yield the settings of a class made bad, and those of its parts below it."""
    from flcluster.engine.messages.classes import bases, known, parameters

    for name, hint in parameters(kind).items():
        if f"{key}.{name}" in LINKED:
            continue
        for value in wrong_values(hint):
            yield Bad(f"{key}.{name}", value, tuple(base), (declarer(kind, name), name), kind.__name__, wrap=way(name))
        ours = [each for each in bases(hint) if each.__module__.startswith("flcluster.")] if hint else []
        for part, own in (
            known(ours).items() if ours and key.partition(".")[0] in good.PLACES and key.count(".") < 2 else []
        ):
            at = f"{key}.{name}"
            if key == "data" and name == "datamodule":
                continue
            needs = [f"--{at}.{k}={v}" for k, v in good.PARTS.get(part, {}).items()]
            yield from settings(at, own, [*base, f"--{at}", part, *needs], lambda n, at=at: (f"--{at}.{n}={{}}",))


def of_run() -> Iterator[Bad]:
    """Yield bad settings of what a run is made of."""
    from flcluster.engine.config import fit_parser
    from flcluster.engine.messages.classes import actions, bases, known

    found = actions(fit_parser())
    goods = {"data": good.data, "model": good.model, "algorithm": good.method}
    for key, hint in found.items():
        if key in ("config", "run_dir", "ckpt_path"):
            continue
        parts = known(bases(hint)) if hint else {}
        for name, kind in parts.items():
            if key in goods:
                if kind.__module__.startswith("flcluster."):
                    yield from settings(key, kind, goods[key](name), lambda n, key=key: (f"--{key}.{n}={{}}",))
            elif kind.__module__.startswith(("flcluster.", "lightning.")) and name not in good.NOT_OURS:
                yield from of_list(key, kind)
        values = WRONG[object] if parts else wrong_values(hint)
        for value in values:
            if not (value == "null" and key in ("logger", "callbacks", "trainer_callbacks")):
                yield Bad(key, value, tuple(good.TINY), ("run", key), "run", wrap=(f"--{key}={{}}",))


def of_list(key: str, kind: type) -> Iterator[Bad]:
    """Yield bad settings of a logger or a callback, which stand in a list."""
    needs = good.PARTS.get(kind.__name__, {})

    def flag(arguments: dict[str, object]) -> tuple[str, ...]:
        inner = ", ".join(f"{name}: {value}" for name, value in arguments.items())
        return (f"--{key}=[{{class_path: {kind.__module__}.{kind.__qualname__}, init_args: {{{inner}}}}}]",)

    for bad in settings(key, kind, good.TINY, lambda name: flag({**needs, name: "{}"})):
        yield dataclasses.replace(bad, usual=(*good.TINY, *flag(needs)))


def of_trainer() -> Iterator[Bad]:
    """Yield bad arguments of the Trainer of local trainings."""
    from lightning import Trainer

    hints = typing.get_type_hints(Trainer.__init__)
    for name, hint in hints.items():
        for value in wrong_values(hint):
            wrap = (f"--trainer={{{name}: {{}}}}",)
            yield Bad(f"trainer.{name}", value, tuple(good.TINY), ("Trainer", name), "Trainer", wrap=wrap)


def of_studies() -> Iterator[Bad]:
    """Yield bad study files: a key of the file, of its target, of a figure."""
    from flcluster.report.study.file import Picture, Study, Target

    for kind, where in ((Study, ""), (Target, "target."), (Picture, "figures.")):
        hints = typing.get_type_hints(kind)
        for each in dataclasses.fields(kind):
            if each.name in ("path", "layers"):
                continue
            for value in [*wrong_values(hints[each.name]), *WRONG["mapping"]]:
                key = f"{where}{each.name}"
                yield Bad(key, value, (), (kind.__name__, each.name), kind.__name__, "study", (key, "{}"))


def of_commands() -> Iterator[Bad]:
    """Yield bad flags of compare and study."""
    from flcluster.cli import compare, study

    bases = {"compare": ("--methods", "CDFL", "Local", *good.TINY), "study": ("study.yaml",)}
    for name, module in (("compare", compare), ("study", study)):
        for action in module._parser()._actions:
            for flag in action.option_strings[-1:]:
                if flag not in ("--help", "--list"):
                    for value in [*WRONG[int], *WRONG[str], "own own", "NoSuch", "a=b=c", "=", "CDFL=CDFL"]:
                        yield Bad(flag, value, bases[name], (name, flag), name, name, (flag, "{}"))


def every() -> list[Bad]:
    """Return all of them, each once."""
    found = [*of_run(), *of_trainer(), *of_studies(), *of_commands()]
    return list({(bad.command, *bad.flags()): bad for bad in found}.values())


def drawn(count: int, seed: int) -> list[Bad]:
    """Return some of them, the same for a seed: a value for every setting in turn, in any of the classes with it."""
    groups: dict[tuple[str, str], dict[str, list[Bad]]] = defaultdict(lambda: defaultdict(list))
    for bad in every():
        groups[bad.origin][bad.value].append(bad)
    draw, waiting = np.random.default_rng(seed), []
    for group in groups.values():
        for turn, value in enumerate(draw.permutation(list(group)).tolist()):
            ones = group[value]
            waiting.append((turn, draw.random(), ones[int(draw.integers(len(ones)))]))
    return [bad for _, _, bad in sorted(waiting, key=lambda each: each[:2])][:count]


def study_text(bad: Bad) -> str:
    """Return a study file with a bad setting."""
    tree = good.study()
    *above, name = bad.wrap[0].split(".")
    place = tree if not above else tree[above[0]]
    place = place[0] if isinstance(place, list) else place
    place[name] = yaml.safe_load(bad.value)
    if name in ("variants", "matrix"):
        tree.pop("target")
    return yaml.safe_dump(tree)
