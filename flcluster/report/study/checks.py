"""What is refused in a study file although each of its keys is right: names, files and columns that do not fit."""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from flcluster.engine.messages.parser import plainer
from flcluster.errors import UserError
from flcluster.files import refuse_alike
from flcluster.report.paper_tables import list_tables
from flcluster.report.study.matrix import chosen
from flcluster.report.study.series import grouped, series

if TYPE_CHECKING:
    from flcluster.report.study.file import Picture, Study, Target

RELATIVE = ("tta", "speedup", "gain", "target")
"""Columns that compare a variant with its target."""


@contextmanager
def named(where: str) -> Iterator[None]:
    """Say where a mistake is."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except argparse.ArgumentError as error:
        raise UserError(f"{where}: {plainer(str(error))}") from None


def check(study: "Study") -> None:
    """Refuse a study whose parts do not fit together."""
    if not study.variants:
        raise UserError("variants or matrix must name settings, e.g. variants: {Global: {algorithm: FedAvg}}")
    refuse_alike(list(study.variants), "variants")
    bases = [*study.base, *(path for layers in study.layers.values() for each in layers for path in each.base)]
    if absent := [str(path) for path in dict.fromkeys(bases) if not path.is_file()]:
        raise UserError(f"base: there is no file {', '.join(absent)}")
    if bare := [name for name, layers in study.layers.items() if not (study.base or any(each.base for each in layers))]:
        raise UserError(f"base: variant {bare[0]} is laid over no config; add base: FILE")
    if study.target is not None:
        _check_target(study.target, study)
    tabled = [picture for picture in study.figures if picture.kind in ("bars", "against")]
    asked = [*study.table, *(y for picture in tabled for y in picture.columns)]
    if study.target is None and (relative := [name for name in asked if name in RELATIVE]):
        raise UserError(f"table: {', '.join(relative)} need a target; add target: VARIANT")
    if study.target is None and any(picture.target for picture in study.figures):
        raise UserError("figures: target: true needs a target; add target: VARIANT")
    if unknown := [name for name in study.paper if name not in list_tables()]:
        raise UserError(f"paper: there is no table {', '.join(unknown)}; choose of {', '.join(list_tables())}")
    for at, picture in enumerate(study.figures):
        if picture.file and not re.fullmatch(r"[\w ()+,=-][\w ().+,=-]{0,150}", picture.file):
            raise UserError(f"figures[{at}].file must be a plain file name without its ending, got {picture.file!r}")
    names = [picture.name for picture in study.figures]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"figures: {', '.join(twice)} would be written twice; give each figure a file: NAME of its own")


def _check_target(target: "Target", study: "Study") -> None:
    if target.variant is None and not target.baselines:
        raise UserError("target needs variant: NAME, or baselines: {NAME: NAME}")
    if target.last < 1:
        raise UserError(f"target.last must be a number of rows, at least 1, got {target.last}")
    told = {"target.variant": [target.variant or ()], "target.baselines": chain(*target.baselines.items())}
    for key, names in told.items():
        if unknown := [str(name) for name in names if name and name not in study.variants]:
            raise UserError(f"{key}: there is no variant {', '.join(unknown)}; there are {', '.join(study.variants)}")


def checked(study: "Study", at: int) -> "Picture":
    """Return a figure of a study with the names of its variants, once what it asks for can be drawn."""
    picture, where = study.figures[at], f"figures[{at}]"
    if picture.of:
        with named(f"{where}.of"):
            picture = replace(picture, of=chosen(picture.of, study.variants))
    with named(where):
        _check_kind(picture)
    names = picture.of or tuple(study.variants)
    if picture.groups:
        with named(f"{where}.groups"):
            grouped(names, picture.groups)
    if picture.kind == "against":
        with named(f"{where}.x"):
            series(study.common, {name: study.variants[name] for name in names}, picture.x)
    return picture


def _check_kind(picture: "Picture") -> None:
    if picture.kind == "difference" and len(picture.of) != 2:
        raise UserError("a difference needs of: [A, B], the two variants (A minus B)")
    if picture.kind in ("difference", "bars") and len(picture.columns) != 1:
        raise UserError(f"kind {picture.kind} takes one y, got {', '.join(picture.columns)}")
    if picture.groups and picture.kind != "bars":
        raise UserError(f"groups are for kind bars, not {picture.kind}")
