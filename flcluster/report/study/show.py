"""What a study shows of its runs: a table, the paper's below it, figures."""

import re
import warnings
from pathlib import Path
from typing import Any

from flcluster.errors import UserError
from flcluster.files import replacing, slug
from flcluster.records.columns import column
from flcluster.records.configuration import configuration_key, differences
from flcluster.records.reader import Run
from flcluster.report.latex import write_latex
from flcluster.report.paper_tables import paper_grid, paper_table
from flcluster.report.significance import significance_grid
from flcluster.report.study.figures import draw
from flcluster.report.study.file import Runs, Study
from flcluster.report.study.values import columns_of, grid, value, write_values
from flcluster.report.style import PRINTED, save
from flcluster.report.tables import Grid, markdown, terminal, wide_console


def found_runs(plan: Study, output: Path) -> Runs:
    """Load the runs in a folder that belong to a study's variants: finished or stopped, whatever their seeds."""
    if not output.is_dir():
        raise UserError(f"{output} is not a directory: give the --output of a study that has run")
    folders = sorted(path.parent for path in output.glob("*/summary.json"))
    runs: dict[str, dict[int, Run]] = {}
    for name in plan.variants:
        mine = [path for path in folders if re.fullmatch(rf"{re.escape(slug(name))}(-seed\d+)?", path.name)]
        for run in map(Run.load, mine):
            runs.setdefault(name, {})[int(run.summary.get("seed", 0))] = run
        runs |= {name: _repeats(name, runs[name])} if name in runs else {}
        if not mine:
            warnings.warn(f"{output} has no run of variant {name}: it is left out", stacklevel=2)
    if not runs:
        raise UserError(f"{output} holds no run of the study {plan.path}")
    return runs


def _repeats(name: str, seeds: dict[int, Run]) -> dict[int, Run]:
    """Leave out runs of a variant that are no repeats of that with its first seed: their settings are others."""
    first = seeds[min(seeds)]
    alike = {seed: run for seed, run in seeds.items() if configuration_key(run) == configuration_key(first)}
    for seed in sorted(set(seeds) - set(alike)):
        unlike = " but ".join(differences([first, seeds[seed]]))
        warnings.warn(f"{name}: seed {seed} has other settings ({unlike}) and is left out", stacklevel=3)
    return alike


def show(plan: Study, output: Path) -> None:
    """Print the table, the paper's below it, and write study.md, study.csv, study.tex and the figures."""
    runs = found_runs(plan, output)
    console = wide_console()
    if missing := [name for name in plan.table if name not in columns_of(plan, runs)]:
        warnings.warn(f"no run has a value for {', '.join(missing)}: left out of the table", stacklevel=2)
    console.print(terminal(grid(plan, runs)))
    for tests in tests_of(plan, runs):
        console.print(terminal(tests))
    for name in plan.paper:
        console.print(paper_table(name))
    for path in write(plan, runs, output):
        console.print(f"wrote {path}", highlight=False)


def write(plan: Study, runs: Runs, output: Path) -> list[Path]:
    """Write study.md, study.csv, study.tex and the figures; return what was written."""
    figures = [save(draw(plan, picture, runs), output / f"{picture.name}.png", PRINTED) for picture in plan.figures]
    for picture, path in zip(plan.figures, figures, strict=True):
        if path is None:
            warnings.warn(f"no run has anything to draw for {picture.name}: left out", stacklevel=2)
    pictures = [path for path in figures if path is not None]
    write_values(plan, runs, output / "study.csv")
    table, tests = grid(plan, runs), tests_of(plan, runs)
    lines = [f"# {plan.title}", "", markdown(table), ""]
    lines += [line for test in tests for line in (f"## {test.title}", "", markdown(test), "")]
    write_latex([table, *tests], output / "study.tex")
    lines += [f"![{path.stem}]({path.name})\n" for path in pictures]
    for name in plan.paper:
        lines += [f"## {name}, as printed in the paper", "", markdown(paper_grid(name)), ""]
    lines += ["## Runs", "", *_run_lines(runs, output), ""]
    with replacing(output / "study.md") as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")
    return [output / "study.md", output / "study.csv", output / "study.tex", *pictures]


def tests_of(plan: Study, runs: Runs) -> list[Grid]:
    """Return the paired tests of the table's first accuracy, over the seeds that variants share."""
    known = [name for name in columns_of(plan, runs) if "acc" in name]
    if not known or len(runs) < 2:
        return []
    values = {name: {seed: value(plan, runs, name, seed, known[0]) for seed in seeds} for name, seeds in runs.items()}
    first = plan.target.variant if plan.target is not None else None
    ordered = {name: values[name] for name in [*([first] if first in values else []), *values]}
    found = significance_grid(ordered, column(known[0]).label)
    return [] if found is None else [found]


def _run_lines(runs: Runs, output: Path) -> list[str]:
    def line(name: str, seed: int, summary: dict[str, Any]) -> str:
        state = summary.get("status", "finished")
        return f"- {name}, seed {seed}: `{runs[name][seed].path.relative_to(output)}`" + (
            "" if state == "finished" else f" ({state})"
        )

    return [line(name, seed, run.summary) for name, seeds in runs.items() for seed, run in sorted(seeds.items())]
