"""Finished runs as rows of one small CSV file a study."""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.records.columns import LAST
from flcluster.records.configuration import configuration_key
from flcluster.records.reader import Run, Summary, key_of, number, results
from flcluster.report.curves import final_value
from flcluster.report.tables import write_csv

FIRST = ("run", "method", "dataset", "K", "clients", "seed", "commit", "config", "seconds")


Row = Mapping[str, str]


def row_of(run: Run) -> Row:
    """Return a run's row: which it is, what made it, its final metrics; of its scores the best, first and last."""
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
    curves = {name: values for name, values in curves.items() if np.isfinite(values).any()}
    best = np.nanmax if run.score.higher else np.nanmin
    row |= {f"best_{name}": shortened(best(values)) for name, values in curves.items()}
    row |= {f"first_{name}": shortened(first_value(values)) for name, values in curves.items()}
    row |= {f"{name}{LAST}": shortened(final_value(v)) for name, v in curves.items() if f"{name}{LAST}" not in final}
    row |= {} if run.score.plain else run.score.entries
    return {name: str(value) for name, value in row.items()}


def summary_of(row: Row) -> Summary:
    """Return what a row tells of its run's summary: what ``key_of`` has put together, taken apart.

    >>> row = {"dataset": "CIFAR10, Dirichlet(0.1), 5 clients", "K": "1", "clients": "5", "method": "Local"}
    >>> summary_of(row)["dataset"], summary_of(row)["partition"]
    ('CIFAR10', 'Dirichlet(0.1)')
    """
    parts = re.fullmatch(r"([^,]+), (.+), \d+ clients", row["dataset"])
    dataset, partition = parts.groups() if parts else (row["dataset"], "")
    told = {"dataset": dataset, "partition": partition, "num_clients": row.get("clients", "")}
    return told | {"num_clusters": int(row["K"]), "algorithm": row["method"]}


def first_value(values: NDArray[np.float64]) -> float:
    """Return the first session's value: row 0 is what was measured before anything was trained.

    >>> first_value(np.array([0.1, np.nan, 0.3, 0.4]))
    0.3
    """
    later = values[1:] if len(values) > 1 else values
    return float(later[np.isfinite(later)][0]) if np.isfinite(later).any() else float("nan")


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
    """Read a file of such rows."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ())[: len(FIRST)] != FIRST:
            raise UserError(
                f"{path} does not begin with the columns {', '.join(FIRST)}: it is no file of gathered runs"
            )
        return [{name: cell for name, cell in row.items() if cell} for row in reader]


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write rows, with every column that one of them has."""
    rows = list(rows)
    columns = [*FIRST, *sorted({name for row in rows for name in row} - set(FIRST))]
    write_csv(path, columns, ([row.get(name, "") for name in columns] for row in rows))
