"""What classes mean, as vectors A(y): the part of AP-FL that lets a generator draw classes it never saw.

Name one under ``algorithm.semantics``. The shipped vectors are the default; a file (.npz) brings CLIP's, BERT's or
word2vec's (docs/methods/apfl.md has the recipe); the rest are controls, not to be compared with the paper's results.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError, at_least
from flcluster.seeds import rng

MAKE = "make a file that has them (docs/methods/apfl.md, a recipe) and name it by NamesFile"


Vectors = NDArray[np.float32]
"""One vector per class, ``[classes, D]``, of length 1 each."""


class NamedVectors(NamedTuple):
    """What a file holds."""

    names: tuple[str, ...]
    vectors: Vectors
    source: str
    """What made the vectors, for tables: the file's own word for it, or else the file's name."""


@dataclass(frozen=True, kw_only=True)
class Semantics(ABC):
    """Gives every class a vector. A new one is a class with ``title`` and ``vectors``; name it by its class_path."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What tables call it."""

    @abstractmethod
    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Return a vector of length 1 per class, ``[classes, D]``; only random ones depend on the run's seed."""


@dataclass(frozen=True, kw_only=True)
class ShippedNames(Semantics):
    """Sentence embeddings (MiniLM, 384 values) of the class names of all datasets that flcluster knows."""

    @property
    def title(self) -> str:
        """The model's short name."""
        return "MiniLM"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Look the names up in the package's own file."""
        return pick(shipped(), names, f"the shipped vectors know the classes of the built-in datasets only; {MAKE}")


@dataclass(frozen=True, kw_only=True)
class NamesFile(Semantics):
    """The vectors of a NumPy archive that holds names, vectors and perhaps source, or a vector under each name."""

    path: str
    """The .npz file."""
    label: str | None = None
    """What tables call it; what the file says, or else its name, if not given."""

    @property
    def title(self) -> str:
        """The label, or the model that made the file, or the file's name."""
        return self.label or self._held().source

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Look the names up in the file."""
        return pick(self._held(), names, f"{self.path} (algorithm.semantics.path) lacks them; {MAKE}")

    def _held(self) -> NamedVectors:
        try:
            return read_vectors(Path(self.path).expanduser())
        except UserError as error:
            raise UserError(f"algorithm.semantics.path: {error}") from error


@dataclass(frozen=True, kw_only=True)
class OneHot(Semantics):
    """Control: each class is as far from every other, so nothing is known of a class that was never seen."""

    @property
    def title(self) -> str:
        """Say that it is a control."""
        return "one-hot (control)"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Return the unit matrix."""
        return np.eye(len(names), dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class RandomVectors(Semantics):
    """Control: a random direction for each class, another one for another seed of the run."""

    dim: int = 512
    """Dimensions; as many as CLIP's vectors have by default."""

    def __post_init__(self) -> None:
        at_least("semantics.dim", self.dim, 1)

    @property
    def title(self) -> str:
        """Say that it is a control."""
        return "random (control)"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Draw Gaussian vectors and scale them."""
        return unit_vectors(rng(seed, "semantics").standard_normal((len(names), self.dim)), "RandomVectors")


def shipped() -> NamedVectors:
    """Read the vectors that are part of the package."""
    with resources.as_file(resources.files("flcluster.algorithms.personal") / "minilm.npz") as path:
        return read_vectors(path)


def read_vectors(path: Path) -> NamedVectors:
    """Read a file with names, vectors and perhaps source (numpy.savez), or one that holds a vector under each name."""
    held = _arrays(path)
    if not _ours(held):
        return NamedVectors(tuple(held), _stacked(list(held.values()), path), path.stem)
    names, vectors = held["names"].tolist(), list(held["vectors"])
    if len(names) != len(vectors):
        raise UserError(f"{path} has {len(names)} names for {len(vectors)} vectors: make it again")
    if len(set(names)) != len(names):
        raise UserError(f"{path} has a name more than once: make it again")
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
        raise UserError(f"there is no file {path}: docs/methods/apfl.md has a recipe that makes one") from None
    except Exception as error:  # a broken archive fails in many ways
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


def unit_vectors(vectors: NDArray[np.floating], what: str) -> Vectors:
    """Scale vectors to length 1; refuse one that has no direction."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise UserError(f"{what}: every vector must be of finite numbers, not all of them zero")
    scaled: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
    return scaled
