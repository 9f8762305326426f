"""Pickle files that hold plain data only; one that names any function or class is refused, not run."""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from flcluster.errors import UserError


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
