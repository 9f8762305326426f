"""Runs as their directories tell them: summary.json, metrics.csv and clients.csv, read back and checked."""

import csv
import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from typing_extensions import Self

from flcluster.errors import UserError
from flcluster.records.columns import COLUMNS
from flcluster.score import Score

NO_RESULTS = r"seed|num_\w+|\w+_std|cluster_size_\d+|updates_per_second|peak_memory_gb"
"""Numbers in a summary that are no result of the run."""


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
    settings: Mapping[str, Any] | None = None
    """The resolved configuration, as ``config.yaml`` has it; None where that cannot be read."""
    population: Mapping[str, np.ndarray] | None = None
    """Columns of ``population.csv``, where all clients are measured; None where there is no such file."""

    @property
    def status(self) -> str:
        """``finished``, or ``stopped: why``."""
        return str(self.summary.get("status", "finished"))

    @property
    def score(self) -> Score:
        """What the columns called ``…acc…`` hold: accuracy, or what a module of one's own is scored by."""
        return Score.of(self.summary)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a run's directory."""
        path = Path(path)
        summary = _read_summary(path / "summary.json")
        dataset, K, method = key_of(summary)
        metrics = read_columns(path / "metrics.csv", ("update",))
        clients = read_columns(path / "clients.csv", ("update", "client", "status"))
        where = dataset if summary.get("partition") else f"{dataset} K={K}"
        label = f"{method} {where} seed={summary.get('seed', '?')}"
        return cls(path, summary, metrics, clients, label, read_settings(path / "config.yaml"), read_population(path))


def read_population(folder: Path, growing: bool = False) -> Mapping[str, np.ndarray] | None:
    """Read a run's ``population.csv``; None where there is none."""
    path = folder / "population.csv"
    needed = ("update", "epoch", "client", "label", "accuracy")
    return read_columns(path, needed, growing) if path.exists() else None


def read_settings(path: Path) -> Mapping[str, Any] | None:
    """Read a resolved configuration; None where that cannot be done."""
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return settings if isinstance(settings, dict) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing: resume that run to its end, or leave its folder out.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}): restore it, or repeat that run.") from error


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary: dict[str, Any] = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is not valid JSON ({error}): resume or repeat that run to write it anew.") from error
    needed = ("algorithm", "dataset", "num_clusters")
    absent = [n for n in needed if summary.get(n) is None] if isinstance(summary, dict) else list(needed)
    if absent:
        raise UserError(f"{path} lacks {', '.join(absent)}: it is no summary of a run; repeat that run.")
    for name in ("num_clusters", *COLUMNS):
        if not isinstance(summary.get(name), int | float | None):
            raise UserError(f"{path}: {name} is {summary[name]!r}, not a number; repeat that run.")
    return summary


def read_columns(path: Path, needed: Sequence[str], growing: bool = False) -> dict[str, np.ndarray]:
    """Read a CSV file of numbers, column by column, some of which it must have; an empty cell is NaN.

    Of a file that is ``growing`` the last line may not have been written to its end, and is left out.
    """
    text = _text(path)
    header, *lines = list(csv.reader((text[: text.rfind("\n") + 1] if growing else text).splitlines())) or [[]]
    if absent := [name for name in needed if name not in header]:
        raise UserError(f"{path} has no column {', '.join(absent)}: it is empty or corrupt; repeat that run.")
    for at, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise UserError(f"{path}, line {at}: {len(line)} cells instead of {len(header)}; delete it or run again.")
    cells = list(zip(*lines, strict=True)) or [()] * len(header)
    return {name: _column(path, name, column) for name, column in zip(header, cells, strict=True)}


def _column(path: Path, name: str, cells: Sequence[str]) -> np.ndarray:
    if name in ("status", "phase"):
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
    """Load run directories in the order given, and every finished run at any depth below other directories by name."""
    found: dict[Path, Run] = {}
    for path in map(Path, paths):
        loaded = [Run.load(directory) for directory in _run_directories(path)]
        for run in sorted(loaded, key=lambda run: (*key_of(run.summary), number(run.summary, "seed"))):
            found.setdefault(run.path.resolve(), run)
    return list(found.values())


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


Summary = Mapping[str, Any]
"""A run's ``summary.json``."""


Key = tuple[str, int, str]
"""Dataset (and who holds what of it), number of clusters and method: what a run is called in tables."""


def family(method: str) -> str:
    """Return a method's or a dataset's name without what tells its variants apart.

    >>> family("AP-FL (one-hot (control))"), family("MNIST (pixels in [0, 1])")
    ('AP-FL', 'MNIST')
    """
    return method.partition(" (")[0]


def plain_name(name: str) -> str:
    """Return a method's or a dataset's name without its variant and hyphens, which papers set as they like.

    >>> plain_name("FedSoft-Async (staleness in epochs)")
    'FedSoftAsync'
    """
    return family(name).replace("-", "")


def key_of(summary: Summary) -> Key:
    """Return what a run is called; where clients differ in their labels, who holds what belongs to the dataset."""
    dataset = str(summary["dataset"])
    if summary.get("partition"):
        dataset = f"{dataset}, {summary['partition']}, {summary.get('num_clients', '?')} clients"
    return dataset, int(summary["num_clusters"]), str(summary["algorithm"])


FINAL = ("client_acc", "client_acc_after")
"""What is called the final accuracy: the first of these that a run has. It is the mean over clients, each with the
model that it has after its last update or, where all clients are measured, at the end of the run. It is the last value
in metrics.csv, what progress ends with, and what summary, tables, figures and tests of significance show."""


def final_column(summaries: Iterable[Summary]) -> str | None:
    """Return the column that is the final accuracy of all of some runs; None where they have none in common."""
    told = list(summaries)
    return next((name for name in FINAL if all(math.isfinite(number(summary, name)) for summary in told)), None)


def results(summary: Summary) -> dict[str, float]:
    """Return the final numbers of a run by their columns' names, a method's own among them; without those unknown."""
    numbers = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    return {
        name: float(value)
        for name, value in numbers.items()
        if math.isfinite(value) and not re.fullmatch(NO_RESULTS, name)
    }


def number(summary: Summary, name: str) -> float:
    """Return a summary's value as a float, NaN where it is absent or null."""
    value = summary.get(name)
    return math.nan if value is None else float(value)
