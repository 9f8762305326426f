"""A study as its file tells it: variants of one configuration, and what to draw and tabulate from their runs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from flcluster.errors import UserError
from flcluster.files import slug
from flcluster.records.reader import Run
from flcluster.report.paper_tables import list_tables
from flcluster.report.study.keys import check_keys, list_at, made, names_in
from flcluster.report.study.series import grouped, series

KINDS = ("lines", "difference", "sizes", "bars", "against")


RELATIVE = ("tta", "speedup", "gain", "target")
"""Columns that compare a variant with its target."""


Runs = Mapping[str, Mapping[int, Run]]
"""The runs of a study that are there: variant -> seed -> run."""


@dataclass(frozen=True)
class Target:
    """What variants are measured against: the final accuracy of one of them."""

    variant: str | None = None
    """The variant whose final accuracy is the others' target."""
    baselines: dict[str, str] = field(default_factory=dict)
    """Variants that have another target than that: variant -> its target."""
    last: int = 5
    """Rows of metrics whose mean is the final accuracy."""
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

    kind: str
    """lines, difference (of two variants), sizes (of clusters, stacked), bars (of one column of the table) or against
    (columns of the table against a setting: variants alike but for the number at the end of their names are one line,
    those without the setting a level)."""
    x: str = "epoch"
    """Column of metrics; for ``against`` a setting of the variants, e.g. algorithm.topology.p."""
    y: str | tuple[str, ...] = "client_acc"
    """Columns of metrics, or of the table for bars and against; several y get a panel each."""
    of: tuple[str, ...] = ()
    """The variants drawn; all if not given."""
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
    """A study file, checked."""

    path: Path
    title: str
    base: tuple[Path, ...]
    common: dict[str, Any]
    """Settings of all variants that differ from the base, as a config file would say them."""
    variants: dict[str, dict[str, Any]]
    """Name -> the settings of this variant alone."""
    target: Target | None
    figures: tuple[Picture, ...]
    table: tuple[str, ...]
    paper: tuple[str, ...]
    """Names of the papers' tables shown below ours; what they print for a run's setting also stands beside it."""


def read_study(path: Path) -> Study:
    """Read a study file; whatever is wrong with it is one message that names the file and the key."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"study {path} cannot be read: {' '.join(str(error).split())}") from error
    try:
        return _study(path, tree)
    except UserError as error:
        raise UserError(f"study {path}: {error}") from None


def _study(path: Path, tree: Any) -> Study:
    keys = ("title", "base", "common", "variants", "target", "figures", "table", "paper")
    check_keys(tree, keys, "the file", ("base", "variants"))
    common = tree.get("common") or {}
    if not isinstance(common, dict):
        raise UserError(f"common must be settings like those of a config file, got {common!r}")
    variants = _variants(tree["variants"])
    target = _target(tree.get("target"), variants)
    study = Study(
        path,
        title=str(tree.get("title") or path.stem),
        base=tuple(path.parent / name for name in names_in(tree["base"], "base")),
        common=common,
        variants=variants,
        target=target,
        figures=tuple(_picture(spec, f"figures[{i}]", variants) for i, spec in enumerate(list_at(tree, "figures"))),
        table=names_in(tree.get("table") or (), "table"),
        paper=names_in(tree.get("paper") or (), "paper"),
    )
    _check(study)
    return study


def _check(study: Study) -> None:
    if absent := [str(name) for name in study.base if not name.is_file()]:
        raise UserError(f"base: there is no file {', '.join(absent)}")
    tabled = [picture for picture in study.figures if picture.kind in ("bars", "against")]
    asked = [*study.table, *(y for picture in tabled for y in picture.columns)]
    if study.target is None and (relative := [name for name in asked if name in RELATIVE]):
        raise UserError(f"table: {', '.join(relative)} need a target; add target: VARIANT")
    if study.target is None and any(picture.target for picture in study.figures):
        raise UserError("figures: target: true needs a target; add target: VARIANT")
    if unknown := [name for name in study.paper if name not in list_tables()]:
        raise UserError(f"paper: there is no table {', '.join(unknown)}; choose of {', '.join(list_tables())}")
    names = [picture.name for picture in study.figures]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"figures: {', '.join(twice)} would be written twice; give each figure a file: NAME of its own")
    for at, picture in enumerate(study.figures):
        if picture.kind == "against":
            _check_series(study, picture, f"figures[{at}].x")


def _check_series(study: Study, picture: Picture, where: str) -> None:
    try:
        series(study.common, {name: study.variants[name] for name in picture.of or study.variants}, picture.x)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _variants(tree: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(tree, dict) or not tree:
        raise UserError("variants must map names to settings, e.g. {Global: {algorithm: FedAvg}}")
    found = {str(name): settings or {} for name, settings in tree.items()}
    if wrong := [name for name, settings in found.items() if not isinstance(settings, dict)]:
        raise UserError(f"variants: {', '.join(wrong)} must be settings like those of a config file")
    if wrong := [name for name in found if not slug(name) or re.search(r"-seed\d+$", slug(name))]:
        raise UserError(f"variants: {wrong[0]!r} gives no directory name of its own; call it something else")
    folders = [slug(name).lower() for name in found]
    if alike := [name for name in found if folders.count(slug(name).lower()) > 1]:
        raise UserError(f"variants: {', '.join(alike)} would share one directory; tell them apart in letters or digits")
    return found


def _target(tree: Any, variants: Iterable[str]) -> Target | None:
    if tree is None:
        return None
    tree = tree if isinstance(tree, dict) else {"variant": tree}
    target = made(Target, tree, "target", baselines=_baselines, variant=str)
    if target.variant is None and not target.baselines:
        raise UserError("target needs variant: NAME, or baselines: {NAME: NAME}")
    if not isinstance(target.last, int) or target.last < 1:
        raise UserError(f"target.last must be a number of rows, at least 1, got {target.last!r}")
    named = [*([] if target.variant is None else [target.variant]), *target.baselines, *target.baselines.values()]
    _are_variants(named, variants, "target")
    return target


def _baselines(tree: Any) -> dict[str, str]:
    if not isinstance(tree, dict):
        raise UserError(f"target.baselines must map variants to theirs, e.g. {{FedYogi + X: FedYogi}}, got {tree!r}")
    return {str(variant): str(baseline) for variant, baseline in tree.items()}


def _picture(tree: Any, where: str, variants: Iterable[str]) -> Picture:
    names = {key: partial(names_in, where=f"{where}.{key}") for key in ("of", "groups")}
    picture = made(Picture, tree, where, ("kind",), **names)
    if picture.kind not in KINDS:
        raise UserError(f"{where}.kind must be one of {', '.join(KINDS)}, got {picture.kind!r}")
    _are_variants(picture.of, variants, f"{where}.of")
    if picture.kind == "difference" and len(picture.of) != 2:
        raise UserError(f"{where}: a difference needs of: [A, B], the two variants (A minus B)")
    if picture.kind in ("difference", "bars") and len(picture.columns) != 1:
        raise UserError(f"{where}: kind {picture.kind} takes one y, got {', '.join(picture.columns)}")
    if picture.groups:
        _check_groups(picture, where, variants)
    return picture


def _check_groups(picture: Picture, where: str, variants: Iterable[str]) -> None:
    if picture.kind != "bars":
        raise UserError(f"{where}: groups are for kind bars, not {picture.kind}")
    try:
        grouped(picture.of or list(variants), picture.groups)
    except UserError as error:
        raise UserError(f"{where}.groups: {error}") from None


def _are_variants(names: Iterable[str], variants: Iterable[str], where: str) -> None:
    if unknown := [name for name in names if name not in variants]:
        raise UserError(f"{where}: there is no variant {', '.join(unknown)}; there are {', '.join(variants)}")
