"""Several variants of one configuration, a run each, then a paper's figures and table from all of them."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from flcluster.cli.arguments import loading
from flcluster.cli.processes import Process, refuse_places, run_all, with_seed
from flcluster.engine.arguments import with_dashes
from flcluster.engine.resume import named_after, new_directory
from flcluster.errors import UserError
from flcluster.files import replacing, slug
from flcluster.report.study.checks import named
from flcluster.report.study.file import Study, read_study
from flcluster.report.study.matrix import chosen


def study(argv: list[str]) -> int:
    """Run every variant once per seed, going on where it stopped; then draw and tabulate all that is there."""
    given, rest = _parser().parse_known_args(argv)

    from flcluster.report.study.show import show

    plan = read_study(given.study)
    plan = replace(plan, base=tuple(given.base)) if given.base else plan
    rest = with_dashes(rest)
    if given.draw_only == "true":
        _refuse_beside_drawing(given, rest)
        show(plan, given.output)
        return 0
    refuse_places("study", rest)
    names = _chosen(plan, given.only)
    check(plan, names, rest)
    output = given.output or new_directory(Path("runs") / named_after(plan.path))
    if code := run_all(output, jobs(plan, names, rest, output, given.seeds or [None])):
        return code
    show(plan, output)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flcluster study",
        description="Run the variants that a study file names, then draw its figures and print its table. "
        "Everything else is handed to flcluster fit.",
        allow_abbrev=False,
    )
    parser.add_argument("study", type=Path, help="Study file, e.g. configs/dfca/studies/table1.yaml; comes first.")
    parser.add_argument("--seeds", nargs="+", type=int, default=None, help="Seeds to repeat with.")
    parser.add_argument("--only", nargs="+", default=None, help="Variants, or labels that several have; default all.")
    parser.add_argument(
        "--base", nargs="+", type=Path, default=None, help="Configs instead of those of the study file."
    )
    parser.add_argument("--output", type=Path, default=None, help="Folder of the runs; default runs/<study>/<time>.")
    parser.add_argument(
        "--draw_only", choices=("true", "false"), default="false", help="Run nothing; draw what is in --output."
    )
    return parser


def _refuse_beside_drawing(given: argparse.Namespace, rest: Sequence[str]) -> None:
    if given.output is None:
        raise UserError("--draw_only true needs --output DIR, the folder of a study's runs")
    if unused := [*rest, *(["--seeds"] if given.seeds else []), *(["--only"] if given.only else [])]:
        raise UserError(f"--draw_only true runs nothing and draws all that is there: leave out {' '.join(unused)}")


def _chosen(plan: Study, only: Iterable[str] | None) -> list[str]:
    """Return the variants to run, in the file's order."""
    with named("--only"):
        wanted = chosen(plan.variants if only is None else only, plan.variants)
    return [name for name in plan.variants if name in wanted]


def check(plan: Study, names: Sequence[str], rest: Sequence[str]) -> None:
    """Parse and build every variant before the first one runs, so that no mistake waits behind hours of training."""
    loading("study", rest)
    from flcluster.engine.config import Plan, fit_parser
    from flcluster.engine.fit import instantiated

    parser = fit_parser()
    for name in names:
        settings = [_text(changes) for _, changes in _changes(plan, name)]
        with named(f"study {plan.path}: variant {name}"):
            given = parser.parse_args([*_merged(*_bases(plan, name), *settings), *rest])
            given.logger = None  # parsed, but none begins to write yet
            instantiated(Plan(parser, given, Path("."), None))


def _bases(plan: Study, name: str) -> list[Path]:
    return [*plan.base, *(path for layer in plan.layers[name] for path in layer.base)]


def _changes(plan: Study, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return what is laid over the bases of a variant: name of a file -> settings."""
    several, layers = len(plan.layers[name]) > 1, enumerate(plan.layers[name], start=1)
    own = [(f"variants/{slug(name)}{f'.{i}' * several}.yaml", layer.settings) for i, layer in layers]
    return [(file, settings) for file, settings in [("common.yaml", plan.common), *own] if settings]


def jobs(
    plan: Study, names: Sequence[str], rest: Sequence[str], output: Path, seeds: Sequence[int | None]
) -> list[Process]:
    """Write what each variant changes as a config file; return the runs: all variants with one seed, then the next."""
    arguments = {}
    for name in names:
        files = [_written(output / file, settings) for file, settings in _changes(plan, name)]
        arguments[name] = [*_merged(*_bases(plan, name), *files), *rest]
    return [with_seed(slug(name), arguments[name], seed) for seed in seeds for name in names]


def _written(path: Path, settings: dict[str, Any]) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(_text(settings), encoding="utf-8")
    return path


def _text(settings: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    return text


def _merged(*configs: str | Path) -> list[str]:
    """Return the arguments that merge configs, later ones over earlier ones."""
    return [part for config in configs for part in ("--config", str(config))]
