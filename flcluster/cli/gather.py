"""Finished runs as rows of one small CSV file that outlives their directories."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flcluster.cli.arguments import parser_of
from flcluster.errors import UserError
from flcluster.records.configuration import configuration_key
from flcluster.records.reader import Run, key_of, load_runs, number, results
from flcluster.report.tables import write_csv

FIRST = ("run", "method", "dataset", "K", "clients", "seed", "commit", "config", "seconds")


Row = Mapping[str, str]


def gather(argv: list[str]) -> int:
    """Write a row for every finished run into a CSV file; rows of other runs that it has already stay."""
    parser = parser_of("gather")
    parser.add_argument("runs", nargs="+", type=str, help="Run directories, or folders of them.")
    parser.add_argument("--output", type=str, required=True, help="CSV file, e.g. results/NAME.csv.")
    given = parser.parse_args(argv)
    runs = load_runs(given.runs)
    finished = [run for run in runs if run.summary.get("status") == "finished"]
    path = Path(given.output)
    rows = merged(read_rows(path) if path.exists() else [], map(row_of, finished))
    write_rows(rows, path)
    left = f"; left out {len(runs) - len(finished)} that have not finished" if len(finished) < len(runs) else ""
    print(f"wrote {path}: {len(rows)} rows, {len(finished)} of them from these runs{left}")
    return 0


def row_of(run: Run) -> Row:
    """Return what a row says of a run: which it is, what made it, its final metrics and the best of its scores."""
    summary, (dataset, K, method) = run.summary, key_of(run.summary)
    if run.settings is None:
        raise UserError(f"{run.path / 'config.yaml'} cannot be read: restore it, or repeat that run")
    row: dict[str, Any] = {
        "run": run.path.resolve().name,
        "method": method,
        "dataset": dataset,
        "K": K,
        "clients": summary.get("num_clients", ""),
        "seed": summary.get("seed", ""),
        "commit": summary.get("commit", "unknown"),
        "config": configuration_key(run),
        "seconds": round(number(summary, "wall_seconds"), 1),
    }
    final = {name: value for name, value in results(summary).items() if name != "wall_seconds"}
    row |= {name: shortened(value) for name, value in final.items()}
    curves = {name: values for name, values in run.metrics.items() if name in final and "acc" in name}
    best = np.nanmax if run.score.higher else np.nanmin
    row |= {f"best_{name}": shortened(best(v)) for name, v in curves.items() if np.isfinite(v).any()}
    row |= {} if run.score.plain else run.score.entries
    return {name: str(value) for name, value in row.items()}


def shortened(value: float) -> str:
    """Return a number with six digits, a whole one with all.

    >>> shortened(0.8512250001), shortened(18781890.0)
    ('0.851225', '18781890')
    """
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Return all rows in order of their runs; a new row takes the place of an old one of the same run and code."""

    def key(row: Row) -> tuple[str, str]:
        return row.get("run", ""), row.get("commit", "")

    return [row for _, row in sorted({key(row): row for row in [*old, *new]}.items())]


def read_rows(path: Path) -> list[Row]:
    """Read a file that this command wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ())[: len(FIRST)] != FIRST:
            raise UserError(f"{path} does not begin with the columns {', '.join(FIRST)}: give another --output")
        return [{name: cell for name, cell in row.items() if cell} for row in reader]


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write rows, with every column that one of them has."""
    rows = list(rows)
    columns = [*FIRST, *sorted({name for row in rows for name in row} - set(FIRST))]
    write_csv(path, columns, ([row.get(name, "") for name in columns] for row in rows))
