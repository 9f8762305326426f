"""The variants of a study as command lines: what each is laid over, checked and written before the first one runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from flcluster.cli.arguments import loading
from flcluster.cli.jobs.processes import Process, with_seed
from flcluster.engine.resume import came_to_its_end, is_whole
from flcluster.errors import UserError
from flcluster.files import replacing, slug
from flcluster.report.study.checks import named
from flcluster.report.study.file import Study

if TYPE_CHECKING:
    from flcluster.comparison.budget import Built


@dataclass(frozen=True)
class Variants:
    """What is to be run of a study: some of its variants, with what the command line adds."""

    plan: Study
    names: Sequence[str]
    before: Sequence[str] = ()
    """Arguments of all that the variants' settings are laid over."""
    after: Sequence[str] = ()
    """Arguments of all that are laid over the variants' settings."""
    own: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Arguments of one variant alone, which come last."""

    def arguments(self, name: str, settings: Sequence[str]) -> list[str]:
        """Return a variant's arguments, given its settings as files or as texts."""
        given = [*configs(bases(self.plan, name)), *self.before, *configs(settings), *self.after]
        return [*given, *self.own.get(name, ())]

    def jobs(self, output: Path, seeds: Sequence[int | None]) -> list[Process]:
        """Write what each variant changes as a config file; return the runs: all variants of a seed, then the next."""
        arguments = {}
        for name in self.names:
            files = [str(written(output / file, settings)) for file, settings in changes(self.plan, name)]
            arguments[name] = self.arguments(name, files)
        return [with_seed(slug(name), arguments[name], seed) for seed in seeds for name in self.names]


def check(variants: Variants) -> "dict[str, Built]":
    """Parse and build every variant before the first one runs, so that no mistake waits behind hours of training."""
    loading("study" if variants.plan.path.suffix else "compare", [*variants.before, *variants.after])
    from flcluster.comparison.budget import Built
    from flcluster.engine.config import Plan, fit_parser
    from flcluster.engine.fit import instantiated

    parser = fit_parser()
    built = {}
    for name in variants.names:
        settings = [text(own) for _, own in changes(variants.plan, name)]
        with named(f"{variants.plan.called}: variant {name}"):
            given = parser.parse_args(variants.arguments(name, settings))
            given.logger = None  # parsed, but none begins to write yet
            source = text(given.data.as_dict())
            made = instantiated(Plan(parser, given, Path("."), None))
            built[name] = Built(made.algorithm, made.data, made.seed_everything, source)
    return built


def is_finished(run_dir: Path, arguments: Sequence[str]) -> bool:
    """Say whether a run with these arguments is finished: there is no need to begin a process that says so."""
    if not came_to_its_end(run_dir):
        return False
    from flcluster.engine.config import Plan, fit_parser

    parser = fit_parser()
    try:
        return is_whole(run_dir, Plan(parser, parser.parse_args(list(arguments)), run_dir, None).config)
    except UserError:
        return False


def bases(plan: Study, name: str) -> list[str]:
    """Return the config files below a variant's settings."""
    return [str(path) for path in (*plan.base, *(path for layer in plan.layers[name] for path in layer.base))]


def changes(plan: Study, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return what is laid over the bases of a variant: name of a file -> settings."""
    several, layers = len(plan.layers[name]) > 1, enumerate(plan.layers[name], start=1)
    own = [(f"variants/{slug(name)}{f'.{i}' * several}.yaml", layer.settings) for i, layer in layers]
    return [(file, settings) for file, settings in [("common.yaml", plan.common), *own] if settings]


def written(path: Path, settings: dict[str, Any]) -> Path:
    """Write settings as a config file."""
    with replacing(path) as temporary:
        temporary.write_text(text(settings), encoding="utf-8")
    return path


def text(settings: dict[str, Any]) -> str:
    """Return settings as a config file says them."""
    told: str = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    return told


def configs(files: Sequence[str]) -> list[str]:
    """Return the arguments that merge configs, later ones over earlier ones."""
    return [part for file in files for part in ("--config", file)]
