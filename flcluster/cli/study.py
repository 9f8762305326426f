"""Several variants of one configuration, a run each, then a paper's figures and table from all of them."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from flcluster.cli.jobs.processes import command_line, refuse_places, run_all, tell
from flcluster.cli.jobs.variants import Variants, check, is_finished
from flcluster.engine.arguments import with_dashes
from flcluster.engine.resume import named_after, new_directory
from flcluster.errors import UserError, at_least
from flcluster.report.study.checks import named
from flcluster.report.study.file import Study, read_study
from flcluster.report.study.matrix import chosen


def study(argv: list[str]) -> int:
    """Run every variant once per seed, going on where it stopped; then draw and tabulate all that is there."""
    given, rest = _parser().parse_known_args(argv)

    from flcluster.report.study.show import show

    if absent := [str(path) for path in given.base or () if not path.is_file()]:
        raise UserError(f"--base: there is no file {', '.join(absent)}")
    plan = read_study(given.study)
    plan = replace(plan, base=tuple(given.base)) if given.base else plan
    rest = with_dashes(rest)
    if given.draw_only == "true":
        refuse_unused(given, [*rest, *(["--only"] if given.only else [])])
        show(plan, given.output)
        return 0
    refuse_places("study", rest)
    variants = Variants(plan, _chosen(plan, given.only), after=rest)
    remedy = "algorithm.{unit}: {length} of variant {name}"
    if given.budget is None and plan.budget == "same":
        remedy += " (or budget: own in the file)"
    base = Path("runs") / named_after(plan.path)
    return carry_out(variants, given, base, remedy, lambda output: show(plan, output))


def carry_out(
    variants: Variants, given: argparse.Namespace, base: Path, remedy: str, shown: Callable[[Path], None]
) -> int:
    """Check all variants, run them or list their commands, show what came of them; return the exit code.

    Without ``--output`` they go into a new folder below ``base``, made once all is well.
    """
    at_least("--jobs", given.jobs, 1, prefix="")
    if twice := [seed for seed in given.seeds or () if given.seeds.count(seed) > 1]:
        raise UserError(f"--seeds has {twice[0]} twice: a seed is one run, name others")
    built = check(variants)
    from flcluster.comparison.budget import Words, budgets

    with named(variants.plan.called):
        lengths = budgets(built, given.budget or variants.plan.budget, Words(remedy))
    own = {name: [f"--algorithm.{unit}", f"{length:g}"] for name, (unit, length) in lengths.items()}
    variants = replace(variants, own={n: [*variants.own.get(n, ()), *own.get(n, ())] for n in variants.names})
    for name, flags in own.items():
        print(f"{name}: {' '.join(flags)}, for an equal budget", file=sys.stderr)
    output = given.output or new_directory(base)
    jobs = variants.jobs(output, given.seeds or [None])
    if given.list:
        print("\n".join(command_line(output / name, arguments) for name, arguments in jobs))
        return 0
    unfinished = run_all(output, jobs, given.jobs, is_finished)
    if any((output / name / "summary.json").exists() for name, _ in jobs):
        shown(output)
    return tell(unfinished, len(jobs))


def whole(text: str) -> int:
    """Read a whole number; what is none is told in short, however long it is."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text[:80]!r}") from None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what comparisons and studies have in common."""
    parser.add_argument("--seeds", nargs="+", type=whole, default=None, help="Seeds to repeat with.")
    parser.add_argument("--output", type=Path, default=None, help="Folder of the runs; default runs/<name>/<time>.")
    parser.add_argument("--jobs", type=whole, default=1, help="Runs at a time, in processes that share the cores.")
    parser.add_argument(
        "--budget",
        default=None,
        help="Samples of local training: equal (all have the first one's), a number for all, own (as configured); by "
        "default other budgets than the first one's are refused.",
    )
    parser.add_argument("--list", action="store_true", help="Run nothing; print one command a line, for a job array.")
    parser.add_argument(
        "--draw_only", choices=("true", "false"), default="false", help="Run nothing; draw what is in --output."
    )


def refuse_unused(given: argparse.Namespace, rest: Sequence[str]) -> None:
    """Refuse what has no meaning where only drawing is asked for."""
    if given.output is None:
        raise UserError("--draw_only true needs --output DIR, the folder of a study's runs")
    if unused := [*rest, *(["--seeds"] if given.seeds else []), *(["--list"] if given.list else [])]:
        raise UserError(f"--draw_only true runs nothing and draws all that is there: leave out {' '.join(unused)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flcluster study",
        description="Run the variants that a study file names, then draw its figures and print its table. "
        "Everything else is handed to flcluster fit.",
        allow_abbrev=False,
    )
    parser.add_argument("study", type=Path, help="Study file, e.g. configs/dfca/studies/table1.yaml; comes first.")
    parser.add_argument("--only", nargs="+", default=None, help="Variants, or labels that several have; default all.")
    parser.add_argument(
        "--base", nargs="+", type=Path, default=None, help="Configs instead of those of the study file."
    )
    add_options(parser)
    return parser


def _chosen(plan: Study, only: Iterable[str] | None) -> list[str]:
    """Return the variants to run, in the file's order."""
    with named("--only"):
        wanted = chosen(plan.variants if only is None else only, plan.variants)
    return [name for name in plan.variants if name in wanted]
