"""A study as its file tells it: variants of one configuration, and what to draw and tabulate from their runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from jsonargparse import ArgumentParser

from flcluster.engine.messages.given import given_by
from flcluster.engine.messages.mistakes import Looking
from flcluster.errors import UserError
from flcluster.files import slug
from flcluster.records.reader import Run
from flcluster.report.study.checks import check, checked, named
from flcluster.report.study.matrix import Layer, Matrix, as_list, expand, layer, settings_of

Runs = Mapping[str, Mapping[int, Run]]
"""The runs of a study that are there: variant -> seed -> run."""


@dataclass(frozen=True)
class Target:
    """What variants are measured against: the accuracy at the end of one of them."""

    variant: str | None = None
    """The variant whose accuracy at its end is the others' target."""
    baselines: dict[str, str] = field(default_factory=dict)
    """Variants that have another target than that: variant -> its target."""
    last: int = 5
    """Rows of metrics whose mean is that accuracy."""
    x: str = "time"
    """Column of metrics that counts time."""
    y: str = "client_acc"
    """Column of metrics that counts as accuracy."""

    def of(self, variant: str) -> str | None:
        """Return the variant that sets a variant's target: itself, for one that sets others'."""
        if variant in self.baselines.values():
            return variant
        return self.baselines.get(variant, self.variant)


@dataclass(frozen=True)
class Picture:
    """One figure of a study."""

    kind: Literal["lines", "difference", "sizes", "bars", "against"]
    """lines, difference (of two variants), sizes (of clusters, stacked), bars (of one column of the table) or against
    (columns of the table against a setting: variants alike but for the number at the end of their names are one line,
    those without the setting a level)."""
    x: str = "epoch"
    """Column of metrics; for ``against`` a setting of the variants, e.g. algorithm.topology.p."""
    y: str | tuple[str, ...] = "client_acc"
    """Columns of metrics, or of the table for bars and against; several y get a panel each."""
    of: tuple[str, ...] = ()
    """The variants drawn, by names or by labels of the matrix; all if not given."""
    groups: tuple[str, ...] = ()
    """For bars: those of variants whose names end alike stand together, e.g. [alpha = 0.1, alpha = 0.5]; what is before
    that is the bar's name."""
    target: bool = False
    """Whether lines show the target, and when each variant reaches it."""
    title: str = ""
    file: str = ""
    """Name of the PNG without its ending."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns drawn upwards."""
        return (self.y,) if isinstance(self.y, str) else self.y

    @property
    def name(self) -> str:
        """The PNG's name without its ending."""
        if self.kind == "against" and not self.file:
            return slug(f"{'_'.join(self.columns)}_against_{self.x.rpartition('.')[2]}")
        over = f"_over_{self.x}" if self.kind in ("lines", "difference") else ""
        return self.file or slug(self.kind if self.kind == "sizes" else f"{self.kind}_{'_'.join(self.columns)}{over}")


@dataclass(frozen=True)
class Study:
    """A study file: its keys, and what becomes of them."""

    path: Path
    title: str = ""
    """What tables and figures are headed; default the file's name."""
    base: tuple[Path, ...] = ()
    """Config files that all variants are laid over, relative to this one."""
    common: dict[str, Any] = field(default_factory=dict)
    """Settings of all variants that differ from the base, as a config file would say them."""
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name -> the settings of this variant alone; as read, those of the matrix are among them, before these."""
    target: Target | None = None
    """What variants are measured against; in short, the variant's name."""
    figures: tuple[Picture, ...] = ()
    table: tuple[str, ...] = ()
    """Columns of the table."""
    paper: tuple[str, ...] = ()
    """Names of the papers' tables shown below ours; what they print for a run's setting also stands beside it."""
    matrix: tuple[Matrix, ...] = ()
    """One matrix of variants or a list of them: see ``flcluster.report.study.matrix``."""
    budget: Literal["same", "own"] = "same"
    """same: variants on the same data that train on unlike numbers of samples are refused; own: each as it is."""
    layers: dict[str, tuple[Layer, ...]] = field(default_factory=dict)
    """What variants are made of, by their names; no key of the file."""

    @property
    def called(self) -> str:
        """What messages call it."""
        return f"study {self.path}" if self.path.suffix else str(self.path)


def read_study(path: Path) -> Study:
    """Read a study file; whatever is wrong with it is one message that names the file and the key."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"study {path} cannot be read: {' '.join(str(error).split())}") from error
    with named(f"study {path}"):
        study = _with_variants(Study(path, **_parsed(tree)))
        check(study)
        return replace(study, figures=tuple(checked(study, at) for at in range(len(study.figures))))


def _parsed(tree: Any) -> dict[str, Any]:
    """Return the values of a file's keys; one name or matrix may stand for a list of one."""
    if not isinstance(tree, dict):
        raise UserError(f"the file must be a mapping with keys such as base and variants, got {tree!r}")
    parser = ArgumentParser(exit_on_error=False, allow_abbrev=False)
    parser.add_class_arguments(Study, skip={"path", "layers"})
    tree = {name: value for name, value in tree.items() if value is not None}
    lists: dict[str, Any] = {name: as_list(tree[name]) for name in ("base", "table", "paper", "matrix") if name in tree}
    if "target" in tree:
        lists["target"] = _target(tree["target"])
    if isinstance(tree.get("figures"), list):
        lists["figures"] = [_in_full(picture) for picture in tree["figures"]]
    if isinstance(tree.get("variants"), dict):
        lists["variants"] = {str(name): {} if own is None else own for name, own in tree["variants"].items()}
    tree |= lists
    if wrong := Looking(parser).first(given_by(tree)):
        raise UserError(wrong)
    found = parser.parse_object(tree)
    settings = {name: tree[name] for name in ("common", "variants", "matrix") if name in tree}
    for name in settings:
        found.pop(name)  # they are a config's: to be handed on as written, not made into objects
    return {**vars(parser.instantiate(found)), **settings}


def _target(given: Any) -> Any:
    """Return a target in full: in short it is a variant's name; names of variants may look like numbers."""
    if not isinstance(given, dict):
        return {"variant": given}
    target = _stated(given)
    if isinstance(pairs := target.get("baselines"), dict):
        target["baselines"] = {str(name): str(other) for name, other in pairs.items()}
    return target


def _stated(given: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in given.items() if value is not None}


def _in_full(picture: Any) -> Any:
    if not isinstance(picture, dict):
        raise UserError(f"figures: each must be a mapping with a kind, got {picture!r}")
    picture = _stated(picture)
    if "kind" not in picture:
        raise UserError(f"figures.kind is missing: of what kind is {picture}?")
    return {**picture, **{name: as_list(picture[name]) for name in ("of", "groups") if name in picture}}


def _with_variants(study: Study) -> Study:
    folder = study.path.parent
    spelled = {name: (layer(name, own, folder),) for name, own in study.variants.items()}
    layers = {name: each for matrix in study.matrix for name, each in expand(matrix, folder).items()} | spelled
    return replace(
        study,
        title=study.title or study.path.stem,
        base=tuple(folder / name for name in study.base),
        variants={name: settings_of(each) for name, each in layers.items()},
        layers=layers,
    )
