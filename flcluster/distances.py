"""How far apart two clients' representations are: L1, Jensen-Shannon and L2.

Every distance is summed in double precision and handed back in single precision, so two values that differ by more
than a rounding of float32 do differ. Memory stays bounded: no array of points x points x dimensions is ever made.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.spatial.distance import cdist

from flcluster.sketch import Doubles, Points, Sketch, shared_sketch


def spans(length: int, width: int, cells: int) -> Iterator[slice]:
    """Cut ``length`` rows of ``width`` into slices of about ``cells`` cells."""
    step = max(1, cells // max(1, width))
    return (slice(at, min(at + step, length)) for at in range(0, length, step))


class Distance(ABC):
    """A distance between representations; frozen, without state."""

    maximum: ClassVar[float]
    """Largest value it can take on the representations it is meant for."""
    order: ClassVar[int]
    """The power of the metric that a sketch bounds."""
    cells: ClassVar[int] = 2**20
    """How many numbers are computed at a time."""

    @property
    def metric(self) -> "Distance":
        """The distance that obeys the triangle inequality and of which this one is the ``power``-th power."""
        return self

    @property
    def power(self) -> int:
        """See `metric`."""
        return 1

    def between(self, x: Points, y: Points) -> Points:
        """Return all distances between the n rows of x and the m rows of y, as [n, m]."""
        out, others = np.empty((len(x), len(y)), dtype=np.float32), np.asarray(y, dtype=np.float64)
        for rows in spans(len(x), max(y.shape), self.cells):
            out[rows] = self._block(np.asarray(x[rows], dtype=np.float64), others)
        return out

    def paired(self, x: Points, y: Points) -> Points:
        """Return the distance of every row of x to the same row of y, as [n]."""
        out = np.empty(len(x), dtype=np.float32)
        for rows in spans(len(x), x.shape[1], self.cells):
            out[rows] = self._rows(np.asarray(x[rows], dtype=np.float64), np.asarray(y[rows], dtype=np.float64))
        return out

    @abstractmethod
    def _block(self, x: Doubles, y: Doubles) -> Doubles:
        """Return the distances of a block, [n, m]."""

    @abstractmethod
    def _rows(self, x: Doubles, y: Doubles) -> Doubles:
        """Return the distances of rows, [n]."""

    @abstractmethod
    def sketch(self, points: Points) -> Sketch:
        """Return a map of such points to (mass, features) that bounds the metric's distances by one matrix product.

        For any two of the points, d(x, y)**order <= mass(x) + mass(y) − features(x)·features(y).
        """


@dataclass(frozen=True)
class L1(Distance):
    """Σ|p − q|, the default for label histograms: 0 for equal ones, 2 for two without a common label."""

    maximum: ClassVar[float] = 2.0
    order: ClassVar[int] = 1

    def _block(self, x: Doubles, y: Doubles) -> Doubles:
        return np.asarray(cdist(x, y, "cityblock"))  # a fourth faster than torch.cdist(p=1), and in double precision

    def _rows(self, x: Doubles, y: Doubles) -> Doubles:
        return np.abs(x - y).sum(1)

    def sketch(self, points: Points) -> Sketch:
        """Use |a − b| = a + b − 2·min(a, b), with a and b counted from the smallest value of their coordinate."""
        low = points.min(0)
        shared = shared_sketch(points - low, lambda a, b: 2 * np.minimum(a, b), nodes=3, rank=3)
        return lambda x: _with_mass((x - low).sum(1), *shared(x - low))


@dataclass(frozen=True)
class JensenShannon(Distance):
    """Square root of the Jensen-Shannon divergence to base 2: 0 for equal histograms, 1 without a common label."""

    squared: bool = False
    """Take the divergence itself, not its square root (it is no metric, and the trigger's Δ changes its meaning)."""
    maximum: ClassVar[float] = 1.0
    order: ClassVar[int] = 2
    cells: ClassVar[int] = 2**15  # more would leave the cache, and have torch wake other threads for each logarithm

    @property
    def metric(self) -> Distance:
        """The square root."""
        return JensenShannon()

    @property
    def power(self) -> int:
        """2 for the divergence."""
        return 2 if self.squared else 1

    def _block(self, x: Doubles, y: Doubles) -> Doubles:
        if len(y) < x.shape[1]:
            shared = np.stack([_shared(x, row).sum(1) for row in y], axis=1)
        else:
            shared = np.zeros((len(x), len(y)))
            for a, b in zip(x.T, y.T, strict=True):
                i, j = np.flatnonzero(a), np.flatnonzero(b)
                if 2 * len(i) * len(j) < shared.size:  # histograms are sparse, and nothing is shared where one has 0
                    shared[np.ix_(i, j)] += _shared(a[i, None], b[j])
                else:
                    shared += _shared(a[:, None], b)
        return self._from_shared(x.sum(1)[:, None] + y.sum(1), shared)

    def _rows(self, x: Doubles, y: Doubles) -> Doubles:
        return self._from_shared(x.sum(1) + y.sum(1), _shared(x, y).sum(1))

    def _from_shared(self, mass: Doubles, shared: Doubles) -> Doubles:
        divergence = np.maximum(mass / 2 - shared, 0.0)
        return divergence if self.squared else np.sqrt(divergence)

    def sketch(self, points: Points) -> Sketch:
        """Use JS = (Σp + Σq)/2 − Σ shared(p, q), where the shared part is concave in both."""
        shared = shared_sketch(points, _shared, nodes=16, rank=4)
        return lambda x: _with_mass(x.sum(1) / 2, *shared(x))


@dataclass(frozen=True)
class L2(Distance):
    """Euclidean distance, for embeddings and gradients of length 1: 0 for equal ones, 2 for opposite ones."""

    maximum: ClassVar[float] = 2.0
    order: ClassVar[int] = 2

    def _block(self, x: Doubles, y: Doubles) -> Doubles:
        middle = y.mean(0)  # from there the squares that are subtracted are small
        x, y = x - middle, y - middle
        squares = (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * (x @ y.T)
        return np.sqrt(np.maximum(squares, 0.0))

    def _rows(self, x: Doubles, y: Doubles) -> Doubles:
        return np.sqrt(((x - y) ** 2).sum(1))

    def sketch(self, points: Points) -> Sketch:
        """Use |x − y|² = |x|² + |y|² − 2·x·y, from the mean, where the terms are small."""
        middle = points.mean(0)
        return lambda x: (((x - middle) ** 2).sum(1), np.sqrt(np.float32(2)) * (x - middle))


def _with_mass(mass: Points, more: Points, features: Points) -> tuple[Points, Points]:
    return mass + more, features


def _shared(a: Doubles, b: Doubles) -> Doubles:
    """Return (a·log2((a + b)/a) + b·log2((a + b)/b)) / 2: what two histograms share of a label, 0 if one has none."""
    out = _xlogx(a + b)
    out -= _xlogx(a)
    out -= _xlogx(b)
    out /= 2 * np.log(2)
    return out


def _xlogx(x: Doubles) -> Doubles:
    """Return x·ln x, 0 at 0; by torch, whose logarithm takes half the time of NumPy's."""
    positive = torch.from_numpy(np.maximum(x, np.finfo(np.float64).tiny))
    out: Doubles = torch.log(positive).mul_(positive).numpy()
    return out
