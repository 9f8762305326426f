"""Every column of the metrics as curves over uploads, rounds, time or traffic: means over seeds, with bands."""

import re
from collections.abc import Sequence

import numpy as np

from flcluster.records.columns import COLUMNS, column
from flcluster.records.reader import Run
from flcluster.report.curves import has, time_unit
from flcluster.report.html.blocks import Block, label, rounded, section, thin, whole, words
from flcluster.report.html.events import events
from flcluster.report.html.group import Group
from flcluster.score import common_score

FIRST = ("client_acc", "acc_global", "client_acc_after", "client_acc_before", "cluster_acc")


HIDDEN = r"update|epoch|time|phase|cluster_size_\d+|cluster_acc_\d+"


PLACES = 300
"""Most points of a curve."""


def curves_section(groups: Sequence[Group]) -> Block | None:
    """Return the curves of all groups, and which column is shown first."""
    columns = shown_columns([run for group in groups for run in group.runs])
    lines = [line for group in groups if (line := group_lines(group, columns)) is not None]
    if not lines or not columns:
        return None
    unit, of_time = time_unit([run for group in groups for run in group.runs])
    for line in lines:
        line["x"]["time"] = rounded(np.array(line["x"]["time"], float) / unit, 6)
    xs = {"update": "client updates", "epoch": "rounds (server epochs)", "time": of_time, "traffic": "traffic (MB)"}
    xs |= {"passes": "client computation (samples passed)"}
    xs = {x: title for x, title in xs.items() if x != "time" or "rounds" not in of_time}
    used = [x for x in xs if any(len(set(line["x"][x])) > 1 for line in lines)] or ["update"]
    score = common_score(run.score for group in groups for run in group.runs)
    block = {
        "kind": "curves",
        "columns": [{"name": name, "title": column(name, score).label} for name in columns],
        "xs": [{"name": x, "title": words(xs[x])} for x in used],
        "groups": lines,
    }
    many = any(len(group.runs) > 1 for group in groups)
    intro = "Drag to zoom, double-click to zoom out, click a name to hide it."
    intro += " Bands are one standard deviation over seeds." if many else ""
    marked = any(line["events"] for line in lines)
    intro += " Dotted lines: data drift or clusters are made anew; their triangles say what happened." if marked else ""
    return section("curves", "Curves", [block], intro)


def shown_columns(runs: Sequence[Run]) -> list[str]:
    """Return the columns that say something in some run: accuracies first, others as tables have them."""
    found = dict.fromkeys(name for run in runs for name in run.metrics if not re.fullmatch(HIDDEN, name))
    known = [*FIRST, *COLUMNS]
    order = sorted(found, key=lambda name: known.index(name) if name in known else len(known))
    return [name for name in order if any(has(run, name) for run in runs)]


def group_lines(group: Group, columns: Sequence[str]) -> Block | None:
    """Return what is drawn of a group: its places on every axis, and the mean and deviation of every column there."""
    runs = [run for run in group.runs if len(run.metrics["update"])]
    if not runs:
        return None
    grid = places(runs)
    kept = thin(len(grid), PLACES)
    x = {axis: mean_and_spread(np.stack([along(run, on_axis(run, axis), grid) for run in runs]))[0] for axis in AXES}
    y = {}
    for name in columns:
        if any(has(run, name) for run in runs):
            mean, std = mean_and_spread(np.stack([_at(run, name, grid) for run in runs])[:, kept])
            y[name] = {"mean": rounded(mean)} | ({"std": rounded(std, 3)} if np.isfinite(std).any() else {})
    at = {name: (whole if name in ("update", "epoch") else rounded)(values[kept]) for name, values in x.items()}
    marks = events(runs[0], grid[kept]) if len(runs) == 1 or _alike(runs) else []
    return {"name": label(group.name), "ink": group.ink, "x": at, "y": y, "events": marks}


AXES = ("update", "epoch", "time", "traffic", "passes")


def on_axis(run: Run, axis: str) -> np.ndarray:
    """Return where each row of the metrics is on an axis; zeros where that is not known."""
    zeros = np.zeros(len(run.metrics["update"]))
    if axis == "traffic":
        sent = run.metrics.get("upload_bytes", zeros) + run.metrics.get("download_bytes", zeros)
        return np.asarray(sent / 1e6)
    found: np.ndarray = run.metrics.get("client_compute" if axis == "passes" else axis, zeros)
    return found


def places(runs: Sequence[Run]) -> np.ndarray:
    """Return the updates at which repeats are compared: those of all, in the range that all have."""
    grids = [run.metrics["update"] for run in runs]
    if all(np.array_equal(grid, grids[0]) for grid in grids):
        return grids[0]
    every: np.ndarray = np.unique(np.concatenate(grids))
    return every[every <= min(grid[-1] for grid in grids)]


def along(run: Run, values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return a column at some updates: as it is where it was measured there, else linear in between."""
    updates = run.metrics["update"]
    if np.array_equal(updates, grid):
        return values
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(grid), np.nan)
    found: np.ndarray = np.interp(grid, updates[known], values[known], left=np.nan, right=np.nan)
    return found


def _at(run: Run, name: str, grid: np.ndarray) -> np.ndarray:
    return along(run, run.metrics.get(name, np.full(len(run.metrics["update"]), np.nan)), grid)


def mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sample deviation over rows, of what is known; NaN where that is nothing, or one."""
    known = np.isfinite(values)
    count = known.sum(0)
    total = np.where(known, values, 0.0).sum(0)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    squares = np.where(known, (values - mean) ** 2, 0.0).sum(0)
    return mean, np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)


def _alike(runs: Sequence[Run]) -> bool:
    return all(np.array_equal(run.metrics["update"], runs[0].metrics["update"]) for run in runs)
