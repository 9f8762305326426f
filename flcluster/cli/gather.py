"""Finished runs as rows of one small CSV file that outlives their directories."""

import csv
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jsonargparse import ArgumentParser

from flcluster.engine.resume import flat
from flcluster.errors import UserError
from flcluster.files import replacing
from flcluster.records.columns import METRICS
from flcluster.records.reader import Run, key_of, load_runs, number

FIRST = ("run", "method", "dataset", "K", "clients", "seed", "commit", "config", "seconds")


COUNTED = r"(data|model|algorithm)(\..*)?|fabric\.precision"


PLACES = r".*\.(root|download|cache)"
"""Settings that say where data lie, not what they are."""


FILES = r".*\.(manifest|path|file|folder)"
"""Settings that name a file, of which only the name counts."""


Row = Mapping[str, str]


def gather(argv: list[str]) -> int:
    """Write a row for every finished run into a CSV file; rows of other runs that it has already stay."""
    parser = ArgumentParser(prog="flcluster gather", description=gather.__doc__)
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
    """Return what a row says of a run: which it is, what made it, its final metrics and the best of its accuracies."""
    summary, (dataset, K, method) = run.summary, key_of(run.summary)
    row: dict[str, Any] = {
        "run": run.path.resolve().name,
        "method": method,
        "dataset": dataset,
        "K": K,
        "clients": summary.get("num_clients", ""),
        "seed": summary.get("seed", ""),
        "commit": summary.get("commit", "unknown"),
        "config": config_hash(run.path / "config.yaml"),
        "seconds": round(number(summary, "wall_seconds"), 1),
    }
    final = {name: number(summary, name) for name in dict.fromkeys(METRICS.values()) if name != "wall_seconds"}
    row |= {name: shortened(value) for name, value in final.items() if math.isfinite(value)}
    curves = {name: values for name, values in run.metrics.items() if name in final and "acc" in name}
    row |= {f"best_{name}": shortened(np.nanmax(v)) for name, v in curves.items() if np.isfinite(v).any()}
    return {name: str(value) for name, value in row.items()}


def shortened(value: float) -> str:
    """Return a number with six digits, a whole one with all.

    >>> shortened(0.8512250001), shortened(18781890.0)
    ('0.851225', '18781890')
    """
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def config_hash(path: Path) -> str:
    """Return a short hash of a run's data, model, method and precision as resolved, without seed and places.

    Runs with the same hash differ in their seed, or in nothing that may change a result.
    """
    try:
        settings = flat(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read ({' '.join(str(error).split())}): repeat that run") from error
    counted = {
        key: _named(key, value)
        for key, value in settings.items()
        if re.fullmatch(COUNTED, key) and not re.fullmatch(PLACES, key)
    }
    return hashlib.sha256(json.dumps(counted, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _named(key: str, value: Any) -> Any:
    """Return a setting without where its file or class lies: both may move."""
    if isinstance(value, list):
        return [_named(key, part) for part in value]
    if isinstance(value, dict):  # an entry of a list
        return {name: _named(f"{key}.{name}", part) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    if re.fullmatch(FILES, key):
        return Path(value).name
    return value.rpartition(".")[2] if key.endswith("class_path") else value


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
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
