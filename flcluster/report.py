"""Read runs back from their directories and lay them beside the papers: in the terminal and as a report."""

import csv
import json
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flcluster import figures, tables
from flcluster.errors import UserError
from flcluster.tables import Key, Row, Summary, key_of, list_tables, number, paper_table, plus_minus

__all__ = ["Run", "list_tables", "load_runs", "paper_table", "summary_table", "write_report"]

SPREADS = "CDFL paper: ± over 5 repeats; CCFL paper: ± across clients"
BASE = "Download: per update, relative to CDFL (to CCFL where CDFL was not run)."


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
        metrics = _read_columns(path / "metrics.csv", ("update",))
        clients = _read_columns(path / "clients.csv", ("update", "client", "status"))
        return cls(path, summary, metrics, clients, f"{method} {dataset} K={K} seed={summary.get('seed', '?')}")


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


def _read_columns(path: Path, needed: Sequence[str]) -> dict[str, np.ndarray]:
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


def wide_console() -> Console:
    """Return a console wide enough for the tables, also where output is piped."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 140))


def summary_table(runs: Sequence[Run]) -> Table:
    """Return one row a run, and a dim row for each paper that prints the same dataset, K and method."""
    table = Table(title="Runs", box=box.SIMPLE_HEAD, padding=0, caption_justify="left")
    table.caption = f"Bright rows: OURS (± across a run's clients). Dim rows: printed in the PAPER ({SPREADS}). {BASE}"
    titles = ("Client\nbefore", "Client\nafter", "Cluster", "KL", "Fresh\n%", "Depr.\n%", "Downl.\n/ CDFL", "Time")
    for title in ("Method", "Dataset", "K", "Clients", "Updates", *titles):
        side: Literal["left", "right"] = "left" if title in ("Method", "Dataset") else "right"
        table.add_column(title, justify=side, overflow="fold", no_wrap=title == "Method")
    groups = tables.repeats(run.summary for run in runs)
    for key, group in groups.items():
        for summary, download in zip(group, tables.ratios(groups, key, "download_bytes"), strict=True):
            table.add_row(*_run_cells(key, summary, plus_minus(download, digits=2)))
        printed = tables.paper_rows(*key)
        for paper in dict.fromkeys(row.source for row in printed):
            table.add_row(*_paper_cells(key, paper, printed), style="dim")
    return table


def _run_cells(key: Key, summary: Summary, download: str) -> list[str]:
    accuracies = ("client_acc_before", "client_acc_after", "cluster_acc")
    measured = [plus_minus(number(summary, name), number(summary, f"{name}_std")) for name in accuracies]
    sizes = ["" if summary.get(name) is None else str(summary[name]) for name in ("num_clients", "updates")]
    shares = [plus_minus(100 * number(summary, name), digits=1) for name in ("fresh_share", "deprecated_share")]
    seconds = number(summary, "wall_seconds")
    time = str(timedelta(seconds=round(seconds))) if math.isfinite(seconds) else ""
    kl = plus_minus(number(summary, "kl"))
    return [escape(key[2]), escape(key[0]), str(key[1]), *sizes, *measured, kl, *shares, download, time]


def _paper_cells(key: Key, paper: str, rows: Iterable[Row]) -> list[str]:
    cell = {row.metric: plus_minus(row.mean, row.std) for row in rows if row.source == paper}
    after = cell.get("client_after", cell.get("client", ""))
    return [f" {paper}", key[0], str(key[1]), "", "", cell.get("client_before", ""), after, cell.get("cluster", "")]


def write_report(runs: Sequence[Run], out_dir: str | Path) -> list[Path]:
    """Write ``report.md``, ``report.csv`` and the pictures; return what was written."""
    if not runs:
        raise UserError("There is no run to report on: give at least one finished run's directory.")
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    groups = tables.repeats(run.summary for run in runs)
    rows = tables.our_rows(groups) + [row for key in groups for row in tables.paper_rows(*key)]
    tables.write_rows(sorted(rows, key=lambda row: tables.order(row[:3])), out / "report.csv")
    pictures = _pictures(runs, out)
    lines = ["# Runs beside the papers", "", tables.markdown(groups, rows), ""]
    lines += [f"Columns marked *ours* are measured here, mean ± standard deviation over runs. {SPREADS}. {BASE}"]
    lines += ["", *(f"- {note}" for note in tables.cautions(groups)), ""]
    lines += [f"![{picture.stem}]({picture.name})\n" for picture in pictures]
    lines += ["## Runs", "", *(f"- {run.label}: `{run.path}`" for run in runs), ""]
    (out / "report.md").write_text("\n".join(lines), encoding="utf-8")
    return [out / "report.md", out / "report.csv", *pictures]


def _pictures(runs: Sequence[Run], out: Path) -> list[Path]:
    settings: dict[str, list[Run]] = {}
    methods: dict[str, Run] = {}
    for run in runs:
        dataset, K, method = key_of(run.summary)
        settings.setdefault(re.sub(r"[^\w.-]+", "_", f"{dataset}_K{K}"), []).append(run)
        methods.setdefault(re.sub(r"[^\w.-]+", "_", f"{dataset}_K{K}_{method}"), run)
    drawn = [figures.accuracy_over_time(group, out / f"accuracy_{name}.png") for name, group in settings.items()]
    drawn += [figures.kl_per_method(runs, out / "kl.png"), figures.overheads(runs, out / "overheads.png")]
    drawn += [figures.mixtures(run, out / f"mixtures_{name}.png") for name, run in methods.items()]
    return [path for path in drawn if path is not None]
