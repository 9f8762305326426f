"""Files of devices: profiles as CSV, and FedScale's capacity and availability traces."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcluster.availability import Periods
from flcluster.errors import UserError
from flcluster.plain_pickle import load_plain

Floats = NDArray[np.float64]


def read_profiles(path: str | Path) -> tuple[Floats, Floats]:
    """Read the columns ms_per_sample and mbps of a CSV file, one device a row."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = [(float(row["ms_per_sample"]), float(row["mbps"])) for row in csv.DictReader(file)]
    except (OSError, KeyError, ValueError, TypeError, csv.Error) as error:
        raise UserError(f"{path} is no CSV with columns ms_per_sample,mbps ({error!r})") from error
    return _positive(path, rows)


def read_capacity(path: Path) -> tuple[Floats, Floats]:
    """Read milliseconds a sample and kilobit a second of FedScale's device capacities, or of a CSV file of profiles."""
    if path.suffix.lower() == ".csv":
        ms_per_sample, mbps = read_profiles(path)
        return ms_per_sample, mbps * 1000
    try:
        rows = [(float(e["computation"]), float(e["communication"])) for e in _entries(path).values()]
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is no device capacity trace: every entry must be {{'computation': milliseconds a sample, "
            f"'communication': kilobit a second}} ({error!r})"
        ) from error
    return _positive(path, rows)


def read_periods(path: Path) -> list[Periods]:
    """Read starts, ends and cycle of every device of FedScale's availability trace."""
    return [_periods_of(path, key, entry) for key, entry in _entries(path).items()]


def _periods_of(path: Path, key: Any, entry: Any) -> Periods:
    try:
        starts, ends = [[float(v) for v in entry[name]] for name in ("active", "inactive")]
        cycle = float(entry["finish_time"])
        if len(starts) != len(ends) or not 0 < cycle < math.inf:
            raise ValueError(f"{len(starts)} starts, {len(ends)} ends, finish_time {cycle}")
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is no availability trace: every entry must be {{'active': [start, …], 'inactive': [end, …] of "
            f"the same length, 'finish_time': seconds above 0}}, but that of {key!r} is not ({error!r})"
        ) from error
    return starts, ends, cycle


def _entries(path: Path) -> dict[Any, Any]:
    held = load_plain(path)
    if not isinstance(held, dict) or not held:
        raise UserError(f"{path} holds no devices: it must be a pickled dictionary with one entry a device")
    return held


def _positive(path: str | Path, rows: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Return both columns; a device must have a speed."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    if not len(table):
        raise UserError(f"{path} has no devices: at least one is needed")
    wrong = np.flatnonzero(~(np.isfinite(table) & (table > 0)).all(axis=1))
    if len(wrong):
        raise UserError(f"{path}: device {wrong[0] + 1} has the speeds {rows[wrong[0]]}; both must be above 0")
    return table[:, 0], table[:, 1]
