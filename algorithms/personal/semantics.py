"""What classes mean, as vectors A(y): the part of AP-FL that lets a generator draw classes it never saw.

Name one under ``algorithm.semantics``. The shipped vectors are the default; a file brings CLIP's, BERT's or word2vec's;
the rest are controls and fallbacks, whose results cannot be compared with the paper's.
"""

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.seeds import rng

from .glyphs import glyph
from .naming import attributes, character, pieces
from .vector_files import NamedVectors, Vectors, pick, read_vectors, unit_vectors

MAKE = "make a file for them (flcluster vectors --names … --output FILE.npz) and name it by NamesFile"


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
    """The vectors of a file: what ``flcluster vectors`` wrote, or a NumPy archive with a vector under each name."""

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
        _at_least_one("dim", self.dim)

    @property
    def title(self) -> str:
        """Say that it is a control."""
        return "random (control)"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Draw Gaussian vectors and scale them."""
        return unit_vectors(rng(seed, "semantics").standard_normal((len(names), self.dim)), "RandomVectors")


@dataclass(frozen=True, kw_only=True)
class HashedNames(Semantics):
    """Fallback without a language model: a name's three-letter pieces and attributes, projected at random.

    Classes that share pieces (shirt, T-shirt) or attributes (CIFAR-100's superclass, say) are close, others nearly at
    right angles. Every piece and every attribute has a Gaussian vector of its own, which its text determines; a name is
    the sum of its pieces' vectors and the sum of its attributes', both weighing the same. So it is the same in all
    runs, whatever the other names are.
    """

    dim: int = 512
    """Dimensions; as many as CLIP's vectors have by default."""

    def __post_init__(self) -> None:
        _at_least_one("dim", self.dim)

    @property
    def title(self) -> str:
        """Say that it is a fallback."""
        return "hashed names (fallback)"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Add up the vectors of each name's pieces and attributes."""
        rows = [self._sum("piece", pieces(name)) + self._sum("attribute", attributes(name)) for name in names]
        return unit_vectors(np.stack(rows), "HashedNames")

    def _sum(self, kind: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Add up one Gaussian vector per text, to an expected length that does not depend on how many there are."""
        draws = [rng(0, kind, zlib.crc32(text.encode())).standard_normal(self.dim) for text in texts]
        return np.sum([np.zeros(self.dim), *draws], axis=0) / math.sqrt(max(len(draws), 1))


@dataclass(frozen=True, kw_only=True)
class Glyphs(Semantics):
    """Fallback for letters and digits, whose names say little of their looks: a small picture of each, in print."""

    size: int = 16
    """Pixels a side; a vector has size² values."""

    def __post_init__(self) -> None:
        _at_least_one("size", self.size - 1)

    @property
    def title(self) -> str:
        """Say that it is a fallback."""
        return "glyphs (fallback)"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Draw each name's character; less their mean, so that blank paper is no likeness."""
        drawn = [character(name) for name in names]
        words = [name for name, found in zip(names, drawn, strict=True) if found is None]
        if words:
            raise UserError(
                f"algorithm.semantics: Glyphs draws letters and digits, but the classes are called {', '.join(words)}; "
                "use ShippedNames"
            )
        pictures = np.stack([glyph(found, self.size).ravel() for found in drawn if found is not None])
        return unit_vectors(pictures - pictures.mean(1, keepdims=True), "Glyphs")


def shipped() -> NamedVectors:
    """Read the vectors that are part of the package."""
    with resources.as_file(resources.files("flcluster.algorithms.personal") / "minilm.npz") as path:
        return read_vectors(path)


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UserError(f"algorithm.semantics.{name} is {value}: it must be larger")
