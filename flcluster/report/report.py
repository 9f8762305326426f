"""Lay runs beside the papers: in the terminal and as a report."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from flcluster.errors import UserError
from flcluster.files import replacing, slug
from flcluster.records.columns import COLUMNS, LAST, Column, column
from flcluster.records.reader import Key, Run, final_column, number
from flcluster.report.figures.accuracy import accuracy_figure
from flcluster.report.figures.costs import kl_figure, overheads_figure
from flcluster.report.figures.mixtures import mixtures_figure
from flcluster.report.latex import write_latex
from flcluster.report.printed import beside, cell, notes, paper_rows, units
from flcluster.report.significance import significance_grid
from flcluster.report.style import PRINTED, inks, save
from flcluster.report.summaries import (
    OURS,
    Groups,
    Row,
    cautions,
    mean_std,
    our_rows,
    ratios,
    repeats,
    said_of_scores,
    score_of,
)
from flcluster.report.tables import Cells, Grid, markdown, terminal, wide_console, write_csv
from flcluster.score import Score


def columns_of(rows: Iterable[Row], score: Score | None = None) -> list[Column]:
    """Return the columns of a report's table that some rows are about; a method's own follow those that are known."""
    known = [*COLUMNS]
    names = [name for name in dict.fromkeys(row.metric for row in rows) if column(name).shown]
    return [column(name, score) for name in sorted(names, key=lambda name: _place(known, name.removesuffix(LAST)))]


def _place(known: Sequence[str], name: str) -> int:
    return known.index(name) if name in known else len(known)


def _all_rows(groups: Groups) -> list[Row]:
    """Return our numbers, then the papers'."""
    rows = our_rows(groups)
    for key in groups:
        download = mean_std(ratios(groups, key, "download_bytes", units("download_bytes")))
        rows += [Row(*key, "download_ratio", *download, OURS)] if download[0] == download[0] else []
    return rows + [row for key, group in groups.items() for row in paper_rows(*key, group[0].summary)]


def _said(rows: Sequence[Row]) -> str:
    """Say how numbers came about that the table cannot explain."""
    bases = units("download_bytes")
    others = f" (to {' or '.join(bases[1:])} where {bases[0]} was not run)" if bases[1:] else ""
    ratio = f" Download: per update, relative to {bases[0]}{others}."
    return (ratio if any(row.metric == "download_ratio" for row in rows) else "") + notes(rows)


def _empty(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return what counts as nothing: also shares of uploads that no run has, where all clients are measured."""
    return ("", "0.0") if all(run.summary.get("client_acc") is not None for run in runs) else ("",)


def summary_table(runs: Sequence[Run]) -> Table:
    """Return one row a run, and a dim row for each paper that prints the same dataset, K and method.

    Runs that differ in nothing but their seed share a row: their mean and standard deviation.
    """
    groups = repeats(runs)
    rows = _all_rows(groups)
    columns = [each for each in columns_of(rows, score_of(groups)) if not each.name.endswith(LAST)]
    seeds = any(len(group) > 1 for group in groups.values())
    lines: list[Cells] = []
    dim = []
    for key, group in groups.items():
        lines.append(_mean_cells(key, group, columns, rows) if seeds else _run_cells(key, group[0], columns, groups))
        printed = [row for row in rows if row[:3] == key and row.source != OURS]
        for paper in dict.fromkeys(row.source for row in printed):
            dim.append(len(lines))
            lead = {"Method": f" {paper}", "Dataset": key[0], "K": str(key[1])}
            lines.append({**lead, **{each.title: cell(each, paper, printed) for each in columns}})
    spread = "mean ± standard deviation over seeds" if seeds else "± across a run's clients"
    caption = f"Bright rows: OURS ({spread})." + (" Dim rows: printed in the PAPER." if dim else "")
    return terminal(Grid("Runs", lines, caption + _said(rows) + said_of_scores(groups), dim, _empty(runs)))


def _run_cells(key: Key, run: Run, columns: Iterable[Column], groups: Groups) -> Cells:
    (download,) = ratios(groups, key, "download_bytes", units("download_bytes"))
    told = {**run.summary, "download_ratio": download}
    cells = {"Method": key[2], "Dataset": key[0], "K": str(key[1])}
    for title, name in (("Clients", "num_clients"), ("Updates", "updates")):
        cells[title] = "" if told.get(name) is None else str(told[name])
    return cells | {
        each.title: each.text(number(told, each.name), number(told, f"{each.name}_std"), runs=1) for each in columns
    }


def _mean_cells(key: Key, group: Sequence[Run], columns: Iterable[Column], rows: Sequence[Row]) -> Cells:
    mine = {row.metric: row for row in rows if row[:3] == key and row.source == OURS}
    lead = {"Method": key[2], "Dataset": key[0], "K": str(key[1]), "Seeds": str(len(group))}
    return lead | {
        each.title: each.text(mine[each.name].mean, mine[each.name].std, runs=len(group)) if each.name in mine else ""
        for each in columns
    }


def significance(runs: Sequence[Run]) -> list[Grid]:
    """Return a table of paired tests of the final accuracy for each dataset and K where several methods ran."""
    groups = repeats(runs)
    grids = []
    for dataset, K in dict.fromkeys(key[:2] for key in groups):
        here = {key[2]: group for key, group in groups.items() if key[:2] == (dataset, K)}
        final = final_column(run.summary for group in here.values() for run in group)
        if final is None:
            continue
        values = {name: {int(run.summary["seed"]): number(run.summary, final) for run in g} for name, g in here.items()}
        grids.append(significance_grid(values, column(final).label, f"{dataset}, K = {K}"))
    return [grid for grid in grids if grid is not None]


def report_grid(groups: Groups, rows: Sequence[Row]) -> Grid:
    """Return one line a dataset, K and method: ours, averaged over repeats, and the papers' in columns beside."""
    columns = columns_of(rows, score_of(groups))
    ours = {key: _mean_cells(key, group, columns, rows) for key, group in groups.items()}
    printed = [[row for row in rows if row[:3] == key and row.source != OURS] for key in groups]
    lines = beside({each: [ours[key][each.title] for key in groups] for each in columns}, printed)
    leads = [
        {"Dataset": key[0], "K": str(key[1]), "Method": key[2], "Runs": str(len(group))}
        for key, group in groups.items()
    ]
    caption = "Columns that name no paper are measured here: mean ± standard deviation over runs."
    runs = [run for group in groups.values() for run in group]
    grid = [{**lead, **line} for lead, line in zip(leads, lines, strict=True)]
    caption += _said(rows) + said_of_scores(groups)
    return Grid("Runs beside the papers", grid, caption, empty=_empty(runs))


def beside_papers(runs: Sequence[Run]) -> Grid:
    """Return one line for runs that are repeats of each other, with what papers print for them."""
    groups = repeats(runs)
    return report_grid(groups, _all_rows(groups))


def print_tables(runs: Sequence[Run]) -> None:
    """Print the runs' table, and paired tests where several methods share some seeds."""
    console = wide_console()
    for table in (summary_table(runs), *map(terminal, significance(runs))):
        console.print(table)


def print_significance(runs: Sequence[Run]) -> None:
    """Print paired tests, or why there is none."""
    console, tests = wide_console(), significance(runs)
    for table in map(terminal, tests):
        console.print(table)
    if not tests:
        console.print("no tests: they are of methods on the same data that share several seeds")


def write_report(runs: Sequence[Run], out_dir: str | Path) -> list[Path]:
    """Write ``report.md``, ``report.csv``, ``report.tex`` and the pictures; return what was written."""
    if not runs:
        raise UserError("There is no run to report on: give at least one finished run's directory.")
    out = Path(out_dir)
    groups = repeats(runs)
    rows = _all_rows(groups)
    write_csv(out / "report.csv", Row._fields, [row for key in groups for row in rows if row[:3] == key])
    pictures = _pictures(groups, out)
    grid = report_grid(groups, rows)
    tests = significance(runs)
    lines = [f"# {grid.title}", "", markdown(grid), "", *(f"- {note}" for note in cautions(groups)), ""]
    lines += [line for test in tests for line in (f"## {test.title}", "", markdown(test), "")]
    lines += [f"![{picture.stem}]({picture.name})\n" for picture in pictures]
    lines += ["## Runs", "", *(f"- {run.label}: `{run.path}`" for run in runs), ""]
    with replacing(out / "report.md") as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")
    write_latex([grid, *tests], out / "report.tex")
    return [out / "report.md", out / "report.csv", out / "report.tex", *pictures]


def _pictures(groups: Groups, out: Path) -> list[Path]:
    colours = inks(key[2] for key in groups)
    drawn = {}
    for dataset, K in dict.fromkeys(key[:2] for key in groups):
        here = {key: group for key, group in groups.items() if key[:2] == (dataset, K)}
        drawn[f"accuracy_{slug(f'{dataset}_K{K}')}"] = accuracy_figure(here, colours)
    drawn |= {"kl": kl_figure(groups, colours), "overheads": overheads_figure(groups, colours)}
    for key, group in groups.items():
        drawn[f"mixtures_{slug(f'{key[0]}_K{key[1]}_{key[2]}')}"] = mixtures_figure(group[0])
    saved = [save(figure, out / f"{name}.png", PRINTED) for name, figure in drawn.items()]
    return [path for path in saved if path is not None]
