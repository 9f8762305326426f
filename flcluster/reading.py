"""Runs as their directories tell them: summary.json, metrics.csv and clients.csv, read back and checked."""

import csv
import json
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flcluster import tables
from flcluster.errors import UserError
from flcluster.tables import key_of, number


@dataclass(frozen=True, eq=False)
class Run:
    """One run as its directory tells it."""

    path: Path
    summary: dict[str, Any]
    metrics: dict[str, np.ndarray]
    """Columns of ``metrics.csv``, one entry a session; NaN = not measured."""
    clients: dict[str, np.ndarray]
    """Columns of ``clients.csv``, one entry an upload; NaN = not measured, ``status`` is text."""
    label: str

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """Read a run's directory."""
        path = Path(path)
        summary = _read_summary(path / "summary.json")
        dataset, K, method = key_of(summary)
        metrics = read_columns(path / "metrics.csv", ("update",))
        clients = read_columns(path / "clients.csv", ("update", "client", "status"))
        where = dataset if summary.get("partition") else f"{dataset} K={K}"
        return cls(path, summary, metrics, clients, f"{method} {where} seed={summary.get('seed', '?')}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing: resume that run to its end, or leave its folder out.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}): restore it, or repeat that run.") from error


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is not valid JSON ({error}): resume or repeat that run to write it anew.") from error
    needed = ("algorithm", "dataset", "num_clusters")
    absent = [n for n in needed if summary.get(n) is None] if isinstance(summary, dict) else list(needed)
    if absent:
        raise UserError(f"{path} lacks {', '.join(absent)}: it is no summary of a run; repeat that run.")
    for name in ("num_clusters", *tables.METRICS.values()):
        if not isinstance(summary.get(name), int | float | None):
            raise UserError(f"{path}: {name} is {summary[name]!r}, not a number; repeat that run.")
    return summary


def read_columns(path: Path, needed: Sequence[str]) -> dict[str, np.ndarray]:
    """Read a CSV file of numbers, column by column, some of which it must have; an empty cell is NaN."""
    header, *lines = list(csv.reader(_text(path).splitlines())) or [[]]
    if absent := [name for name in needed if name not in header]:
        raise UserError(f"{path} has no column {', '.join(absent)}: it is empty or corrupt; repeat that run.")
    for at, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise UserError(f"{path}, line {at}: {len(line)} cells instead of {len(header)}; delete it or run again.")
    cells = list(zip(*lines, strict=True)) or [()] * len(header)
    return {name: _column(path, name, column) for name, column in zip(header, cells, strict=True)}


def _column(path: Path, name: str, cells: Sequence[str]) -> np.ndarray:
    if name == "status":
        return np.array(cells, dtype=str)
    known = {"": math.nan, "True": 1.0, "False": 0.0}
    values = np.full(len(cells), math.nan)
    for i, cell in enumerate(cells):
        try:
            values[i] = known[cell] if cell in known else float(cell)
        except ValueError:
            where = f"{path}, line {i + 2}, column {name}"
            raise UserError(f"{where}: {cell!r} is no number; delete that line or run again.") from None
    return values


def load_runs(paths: Iterable[str | Path]) -> list[Run]:
    """Load run directories, and every finished run at any depth below other directories, in table order."""
    found: dict[Path, Run] = {}
    for path in map(Path, paths):
        for directory in _run_directories(path):
            found[directory.resolve()] = Run.load(directory)
    return sorted(found.values(), key=lambda run: (tables.order(key_of(run.summary)), number(run.summary, "seed")))


def _run_directories(path: Path) -> list[Path]:
    if not path.is_dir():
        raise UserError(f"{path} is not a directory: give a run's directory, or a folder that holds some.")
    if any((path / name).exists() for name in ("summary.json", "metrics.csv", "clients.csv")):
        return [path]
    finished = sorted(file.parent for file in path.rglob("summary.json"))
    for directory in sorted({file.parent for file in path.rglob("metrics.csv")} - set(finished)):
        warnings.warn(f"{directory} has no summary.json (interrupted?) and is left out", stacklevel=3)
    if not finished:
        raise UserError(f"{path} holds no finished run (no summary.json at any depth): finish a run first.")
    return finished
