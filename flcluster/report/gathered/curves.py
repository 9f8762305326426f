"""Finished runs' metrics over time, thinned, beside their final numbers: what pictures are drawn from."""

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from flcluster.records.reader import Run
from flcluster.report.gathered.rows import Row, shortened
from flcluster.report.tables import write_csv

PLACES = ("update", "epoch", "time")
MEASURED = ("kl", "heterogeneity", "purity", "disagreement", "clusters", "reclusterings")
"""What curves are kept of, besides scores."""
MOST = 60
"""Rows of a run that are kept, evenly over its length."""


def path_beside(rows: Path) -> Path:
    """Return where the curves of a file of rows are: in a folder beside it, under the same name."""
    return rows.parent / "curves" / rows.name


def curves_of(run: Run) -> list[Row]:
    """Return a run's metrics as rows, each with the run and its commit; the first and the last are among them."""
    kept = [*PLACES, *(name for name in run.metrics if _is_kept(name))]
    count = len(run.metrics["update"])
    which = np.unique(np.linspace(0, count - 1, min(count, MOST)).round().astype(int)).tolist()
    known = {"run": run.path.resolve().name, "commit": str(run.summary.get("commit", "unknown"))}
    columns = {name: run.metrics[name] for name in kept if name in run.metrics}
    return [
        known | {name: shortened(values[at]) for name, values in columns.items() if np.isfinite(values[at])}
        for at in which
    ]


def _is_kept(name: str) -> bool:
    return name in MEASURED or ("acc" in name and not name.endswith("_std"))


def write_curves(runs: Iterable[Run], path: Path) -> None:
    """Write the runs' curves beside those of other runs that the file has already."""
    old = read_curves(path) if path.exists() else []
    new = [row for run in runs for row in curves_of(run)]
    replaced = {(row["run"], row["commit"]) for row in new}
    rows = [row for row in old if (row["run"], row["commit"]) not in replaced] + new
    rows.sort(key=lambda row: (row["run"], row["commit"], float(row["update"])))
    columns = ["run", "commit", *PLACES]
    columns += sorted({name for row in rows for name in row} - set(columns))
    write_csv(path, columns, ([row.get(name, "") for name in columns] for row in rows))


def read_curves(path: Path) -> list[Row]:
    """Read a file of curves."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(file)]
