"""Files of vectors: one per class name, as a NumPy archive (.npz)."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.files import replacing

Vectors = NDArray[np.float32]
"""One vector per class, ``[classes, D]``, of length 1 each."""


class NamedVectors(NamedTuple):
    """What a file holds."""

    names: tuple[str, ...]
    vectors: Vectors
    source: str
    """What made the vectors, for tables: the file's own word for it, or else the file's name."""


def unit_vectors(vectors: NDArray[np.floating], what: str) -> Vectors:
    """Scale vectors to length 1; refuse one that has no direction."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise UserError(f"{what}: every vector must be of finite numbers, not all of them zero")
    return (vectors / lengths).astype(np.float32)


def write_vectors(path: Path, held: NamedVectors) -> None:
    """Write a file that is half as large as float32 would be; the same vectors give the same bytes."""
    arrays = {"names": np.array(held.names), "vectors": held.vectors.astype(np.float16), "source": held.source}
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_vectors(path: Path) -> NamedVectors:
    """Read a file of ours (names, vectors, source), or one that holds a vector under each name."""
    held = _arrays(path)
    if not _ours(held):
        return NamedVectors(tuple(held), _stacked(list(held.values()), path), path.stem)
    names, vectors = held["names"].tolist(), list(held["vectors"])
    if len(names) != len(vectors):
        raise UserError(f"{path} has {len(names)} names for {len(vectors)} vectors: make it again")
    return NamedVectors(tuple(names), _stacked(vectors, path), str(held.get("source", path.stem)))


def pick(held: NamedVectors, names: Sequence[str], advice: str) -> Vectors:
    """Return the vectors of some names in their order; refuse, and list them, if any is missing."""
    place = {name: at for at, name in enumerate(held.names)}
    missing = [name for name in names if name not in place]
    if missing:
        raise UserError(f"no vector for the class{'es' * (len(missing) > 1)} {', '.join(missing)}: {advice}")
    return held.vectors[[place[name] for name in names]]


def _arrays(path: Path) -> dict[str, Any]:
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it is a single array")
        with archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: make it with `flcluster vectors --output {path}`") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        what = "a NumPy archive (.npz) with a vector under each name"
        raise UserError(f"{path} cannot be read ({error}): it must be {what}") from error


def _ours(held: Mapping[str, Any]) -> bool:
    """Tell our layout from classes that happen to be called names and vectors."""
    return {"names", "vectors"} <= held.keys() and held["names"].dtype.kind == "U" and held["vectors"].ndim == 2


def _stacked(rows: Sequence[NDArray[Any]], path: Path) -> Vectors:
    kinds = sorted({f"{row.dtype} {list(row.shape)}" for row in rows})
    if len({row.shape for row in rows}) != 1 or rows[0].ndim != 1 or any(row.dtype.kind not in "fiu" for row in rows):
        found = ", ".join(kinds) or "nothing"
        raise UserError(f"{path} must hold one vector of numbers per class name, all of one length; found {found}")
    return unit_vectors(np.stack(rows), str(path))
