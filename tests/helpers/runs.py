"""One builder of a run, in memory or as a directory, and one of a study."""

import csv
import json
from pathlib import Path

import numpy as np
import yaml

from flcluster.records.reader import Run
from flcluster.report.study.file import Study

METRICS = {"update": [5, 10], "epoch": [0, 1], "time": [1.5, 3.0]}
CLIENTS = {"update": [], "client": [], "status": []}


def summary_of(algorithm="CDFL", seed=0, **values):
    """A run's summary."""
    base = {"algorithm": algorithm, "dataset": "FashionMNIST", "num_clusters": 2, "num_clients": 40, "seed": seed}
    return {**base, "updates": 10, **values}


def make_run(algorithm="CDFL", seed=0, metrics=None, clients=None, path="unused", settings=None, **values):
    """A run that never was; ``values`` are of its summary. Columns are given by name."""
    columns = {"update": [], **(metrics or {})}
    longest = max(len(list(column)) for column in columns.values())
    columns["update"] = columns["update"] if len(columns["update"]) else range(longest)
    arrays = {name: np.array(list(column), float) for name, column in columns.items()}
    uploads = {name: np.array(column) for name, column in (clients or {"client": [], "status": []}).items()}
    label = values.pop("label", f"{algorithm} seed={seed}")
    return Run(Path(path), summary_of(algorithm, seed, **values), arrays, uploads, label, settings)


def write_run(path, algorithm="CDFL", seed=0, metrics=METRICS, clients=CLIENTS, settings=None, **values):
    """A run's directory as the engine leaves it, with ``config.yaml`` where settings are given; returns its path."""
    path = Path(path)
    path.mkdir(parents=True)
    (path / "summary.json").write_text(json.dumps(summary_of(algorithm, seed, **values)))
    for name, columns in (("metrics", metrics), ("clients", clients)):
        with (path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    if settings is not None:
        (path / "config.yaml").write_text(yaml.safe_dump(settings))
    return path


def make_study(*names, target=None, common=None, table=(), paper=(), **variants):
    """A study that no file tells; ``names`` are variants without settings, others are named by keyword (_ = space)."""
    settings = {name: {} for name in names} | {name.replace("_", " "): own for name, own in variants.items()}
    told = {"title": "A study", "base": (), "common": common or {}, "variants": settings, "target": target}
    return Study(path=Path("s.yaml"), **told, figures=(), table=tuple(table), paper=tuple(paper))
