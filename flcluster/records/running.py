"""A run while it goes on: what its files tell so far, without a summary."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flcluster.errors import UserError
from flcluster.records.reader import Run, read_columns, read_population, read_settings
from flcluster.score import Score

FILES = ("summary.json", "metrics.csv", "clients.csv", "population.csv", "config.yaml", "edges.csv")
"""What tells of a run."""


PLACES = ("update", "epoch", "time", "phase")
"""Columns that say where a run is, not how it is."""


def running_directories(path: Path) -> list[Path]:
    """Return the directories of the runs at or below a path, finished or not; none if there are none yet."""
    if (path / "metrics.csv").exists() or (path / "config.yaml").exists():
        return [path]
    return sorted({file.parent for file in path.rglob("metrics.csv")})


def load_running(path: Path) -> Run | None:
    """Read a run that may still be going on; None as long as it has not written anything to be shown."""
    if not ((path / "metrics.csv").exists() and (path / "clients.csv").exists()):
        return None
    try:
        metrics = read_columns(path / "metrics.csv", ("update",), growing=True)
        clients = read_columns(path / "clients.csv", ("update", "client", "status"), growing=True)
    except UserError:
        if any((path / name).read_text(encoding="utf-8", errors="replace").count("\n") for name in FILES[1:3]):
            raise
        return None  # not even the heads are there
    settings = read_settings(path / "config.yaml")
    summary = _summary(path, settings or {}, metrics, clients)
    label = f"{summary['algorithm']} {summary['dataset']} seed={summary.get('seed', '?')}"
    return Run(path, summary, metrics, clients, label, settings, read_population(path, growing=True))


def is_newer(path: Path) -> bool:
    """Say whether a run has gone on since it wrote its summary."""
    return (path / "metrics.csv").stat().st_mtime > (path / "summary.json").stat().st_mtime + 1


def _summary(
    path: Path, settings: Mapping[str, Any], metrics: Mapping[str, Any], clients: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the summary, or what it would say so far."""
    written = path / "summary.json"
    if written.exists() and not is_newer(path):
        try:
            told = json.loads(written.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(
                f"{written} cannot be read ({error}): resume or repeat that run to write it anew"
            ) from error
        if isinstance(told, dict) and {"algorithm", "dataset", "num_clusters"} <= set(told):
            return told
    last = {name: float(values[-1]) for name, values in metrics.items() if name not in PLACES and len(values)}
    known = {name: value for name, value in last.items() if value == value}
    data, method = (_class(settings.get(part)) for part in ("data", "algorithm"))
    of_data = settings.get("data")
    arguments = (of_data.get("init_args") if isinstance(of_data, Mapping) else None) or {}
    clusters = sum(name.startswith("true_") for name in clients)
    return {
        **known,
        "algorithm": method,
        "dataset": data,
        "num_clusters": clusters or int(arguments.get("num_clusters") or 1),
        "num_clients": _whole(arguments.get("num_clients"), clients),
        "seed": settings.get("seed_everything", "?"),
        "status": "running",
        **_score(settings.get("engine")),
        "updates": int(metrics["update"][-1]) if len(metrics["update"]) else 0,
    }


def _score(engine: Any) -> dict[str, str]:
    """Return what a run is scored by, as far as its configuration says so."""
    told = engine if isinstance(engine, Mapping) else {}
    return Score.named(told["metric"], told.get("metric_mode") or "auto").entries if told.get("metric") else {}


def _class(named: Any) -> str:
    """Return the name of a class without its module."""
    path = named.get("class_path") if isinstance(named, Mapping) else named
    return str(path or "unknown").rpartition(".")[2]


def _whole(told: Any, clients: Mapping[str, Any]) -> int:
    """Return the number of clients, as configured or as far as they have been seen."""
    seen = clients["client"]
    return int(told) if isinstance(told, int) else int(seen.max()) + 1 if len(seen) else 0
