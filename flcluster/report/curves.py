"""Columns of a run's metrics as curves: which points there are, what they are called, in which units."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from flcluster.records.reader import Run

Curve = tuple[np.ndarray, np.ndarray]
"""Places, and values there."""


def points(run: Run, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of a run's metrics where both were measured; nothing if one is absent."""
    none = np.full(len(run.metrics["update"]), math.nan)
    xs, ys = run.metrics.get(x, none), run.metrics.get(y, none)
    known = np.isfinite(xs) & np.isfinite(ys)
    return xs[known], ys[known]


def common(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Bring curves over the same range to the same places: ``[places]`` and ``[curves, places]``, linear in between."""
    if all(np.array_equal(x, curves[0][0]) for x, _ in curves):
        return curves[0][0], np.stack([y for _, y in curves])
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    places = np.unique(np.concatenate([x for x, _ in curves]))
    places = places[(places >= start) & (places <= end)]
    return places, np.stack([np.interp(places, x, y) for x, y in curves])


def has(run: Run, column: str) -> bool:
    """Say whether a column of the metrics holds anything."""
    return bool(np.isfinite(run.metrics.get(column, np.empty(0))).any())


def counts_rounds(run: Run) -> bool:
    """Say whether a run's time only counts its rounds: no devices were simulated."""
    rounds, times = points(run, "epoch", "time")
    return bool((np.abs(times - rounds) <= 1).all())


def time_unit(runs: Iterable[Run]) -> tuple[float, str]:
    """Return what to divide times by, and the axis' label with its unit: s, min or h by the longest run."""
    runs = list(runs)
    if all(counts_rounds(run) for run in runs):
        return 1.0, "time (rounds)"
    longest = max(points(run, "time", "time")[0].max(initial=0.0) for run in runs)
    unit, name = (1.0, "s") if longest < 600 else (60.0, "min") if longest < 6 * 3600 else (3600.0, "h")
    return unit, f"simulated time ({name})"


def cluster_sizes(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounds and sizes ``[clusters, rounds]`` of a run's clusters, without those never used."""
    none = np.full(len(run.metrics["update"]), math.nan)
    columns = sorted(
        (name for name in run.metrics if name.startswith("cluster_size_")), key=lambda name: int(name[13:])
    )
    rounds, sizes = run.metrics.get("epoch", none), np.nan_to_num(np.stack([none, *(run.metrics[n] for n in columns)]))
    rows = np.isfinite(rounds) & (sizes.sum(0) > 0)
    return rounds[rows], sizes[sizes.sum(1) > 0][:, rows]


def final_value(values: NDArray[np.float64], last: int = 5) -> float:
    """Return the mean of the last rows that were measured, NaN if none was.

    >>> final_value(np.array([0.1, 0.4, np.nan, 0.6]), last=2)
    0.5
    """
    known = values[np.isfinite(values)][-last:]
    return float(known.mean()) if len(known) else math.nan


def time_to_accuracy(
    times: NDArray[np.float64], accuracies: NDArray[np.float64], target: float, higher: bool = True
) -> float:
    """Return the first time from which the curve stays at or above the target to its end, NaN if it does not.

    At or below the target, where lower is better.

    FIELDING's time to accuracy (TTA): touching the target once is not enough. Rows without a value are skipped.

    >>> time_to_accuracy(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 0.3, 0.5, 0.6]), target=0.4)
    3.0
    >>> time_to_accuracy(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 2.0, 2.5, 1.0]), target=2.5, higher=False)
    2.0
    """
    known = np.isfinite(times) & np.isfinite(accuracies)
    sign = 1.0 if higher else -1.0
    times, below = times[known], np.flatnonzero(~(sign * accuracies[known] >= sign * target - 1e-9))  # a mean rounds
    first = below[-1] + 1 if len(below) else 0
    return float(times[first]) if first < len(times) else math.nan


def own_time(times: NDArray[np.float64], accuracies: NDArray[np.float64], target: float, higher: bool = True) -> float:
    """Return a baseline's time to the accuracy it ends with: all of its run if its last rows still swing around it."""
    reached = time_to_accuracy(times, accuracies, target, higher)
    known = times[np.isfinite(times) & np.isfinite(accuracies)]
    return float(known[-1]) if math.isnan(reached) and len(known) else reached
