"""Files of devices: profiles as CSV, and FedScale's capacity and availability traces."""

import csv
import io
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcluster.devices.availability import Periods
from flcluster.errors import UserError
from flcluster.files import read_text

Floats = NDArray[np.float64]


def read_profiles(path: str | Path) -> tuple[Floats, Floats]:
    """Read the columns ms_per_sample and mbps of a CSV file, one device a row."""
    rows, reader = [], csv.DictReader(io.StringIO(read_text(Path(path)), newline=""), restkey="more")
    try:
        for row in reader:
            if "more" in row:
                raise ValueError(f"{len(row['more'])} values too many")
            rows.append((float(row["ms_per_sample"]), float(row["mbps"])))
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        place = f"{path}, line {reader.line_num}"
        raise UserError(f"{place}: it must be a CSV with the numbers ms_per_sample,mbps ({error})") from error
    return _positive(path, rows)


def read_capacity(path: Path) -> tuple[Floats, Floats]:
    """Read milliseconds a sample and kilobit a second of FedScale's device capacities, or of a CSV file of profiles."""
    if path.suffix.lower() == ".csv":
        ms_per_sample, mbps = read_profiles(path)
        return ms_per_sample, mbps * 1000
    try:
        rows = [(float(e["computation"]), float(e["communication"])) for e in _entries(path).values()]
    except (KeyError, ValueError, TypeError, OverflowError) as error:
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
        if isinstance(entry["active"], str) or not all(map(math.isfinite, (*starts, *ends))):
            raise ValueError("starts and ends must be lists of finite numbers")
    except (KeyError, ValueError, TypeError, OverflowError) as error:
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


def load_plain(path: Path) -> Any:
    """Read dictionaries, lists, texts and numbers (NumPy's too) from a pickle file."""
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file, encoding="latin1").load()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror or error})") from error
    except UserError as error:
        raise UserError(f"{path} is refused: {error}") from error
    except Exception as error:  # a broken pickle fails in many ways
        raise UserError(f"{path} is no pickle file of plain data ({type(error).__name__}: {error})") from error


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return what stands in for NumPy's numbers, and nothing else."""
        if (module, name) == ("numpy", "dtype"):
            return _NumberType
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "scalar":
            return _number
        if (module, name) == ("_codecs", "encode"):
            return _to_bytes
        raise UserError(f"it would run {module}.{name}; only dictionaries, lists, texts and numbers are read")


class _NumberType:
    """A NumPy number type by its name, such as f8."""

    def __init__(self, name: str, align: bool = False, copy: bool = False) -> None:
        if not re.fullmatch(r"[fiu][1248]|b1", name):
            raise UserError(f"it holds values of NumPy's type {name!r}; only numbers are read")
        self.name, self.order = name, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"


def _number(kind: _NumberType, raw: bytes | str) -> int | float | bool:
    data = raw.encode("latin1") if isinstance(raw, str) else raw
    value: int | float | bool = np.frombuffer(data, kind.order + kind.name, count=1).item()
    return value


def _to_bytes(text: str, codec: str) -> bytes:
    return text.encode("latin1")
