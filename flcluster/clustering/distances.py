"""How far apart two clients' representations are: L1, Jensen-Shannon and L2.

Every distance is summed in double precision and handed back in single precision, so two values that differ by more
than a rounding of float32 do differ. Memory stays bounded: no array of points x points x dimensions is ever made.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from flcluster.clustering.points import Doubles, Points
from flcluster.clustering.sketch import Sketch, shared_sketch


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
        out, to_y = np.empty((len(x), len(y)), dtype=np.float32), self._to(np.asarray(y, dtype=np.float64))
        for rows in spans(len(x), max(y.shape), self.cells):
            out[rows] = to_y(np.asarray(x[rows], dtype=np.float64))
        return out

    def paired(self, x: Points, y: Points) -> Points:
        """Return the distance of every row of x to the same row of y, as [n]."""
        out = np.empty(len(x), dtype=np.float32)
        for rows in spans(len(x), x.shape[1], self.cells):
            out[rows] = self._rows(np.asarray(x[rows], dtype=np.float64), np.asarray(y[rows], dtype=np.float64))
        return out

    @abstractmethod
    def _to(self, y: Doubles) -> Callable[[Doubles], Doubles]:
        """Return what maps some rows x to their distances to all y, [n, m]."""

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

    def _to(self, y: Doubles) -> Callable[[Doubles], Doubles]:
        return lambda x: np.asarray(cdist(x, y, "cityblock"))  # a fourth faster than torch.cdist(p=1), and in double

    def _rows(self, x: Doubles, y: Doubles) -> Doubles:
        distances: Doubles = np.abs(x - y).sum(1)
        return distances

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
    cells: ClassVar[int] = 2**18

    @property
    def metric(self) -> Distance:
        """The square root."""
        return JensenShannon()

    @property
    def power(self) -> int:
        """2 for the divergence."""
        return 2 if self.squared else 1

    def _to(self, y: Doubles) -> Callable[[Doubles], Doubles]:
        mass = y.sum(1)
        if len(y) < y.shape[1]:
            return lambda x: self._from_shared(
                x.sum(1)[:, None] + mass, np.stack([_shared(x, row).sum(1) for row in y], axis=1)
            )
        columns = [(b, _xlogx(b), np.flatnonzero(b)) for b in y.T.copy()]
        return lambda x: self._from_shared(x.sum(1)[:, None] + mass, _shared_by_label(x, columns))

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

    def _to(self, y: Doubles) -> Callable[[Doubles], Doubles]:
        middle = y.mean(0)  # from there the squares that are subtracted are small
        y = y - middle
        squares = (y * y).sum(1)

        def distances(x: Doubles) -> Doubles:
            x = x - middle
            apart: Doubles = np.sqrt(np.maximum((x * x).sum(1)[:, None] + squares - 2 * (x @ y.T), 0.0))
            return apart

        return distances

    def _rows(self, x: Doubles, y: Doubles) -> Doubles:
        distances: Doubles = np.sqrt(((x - y) ** 2).sum(1))
        return distances

    def sketch(self, points: Points) -> Sketch:
        """Use |x − y|² = |x|² + |y|² − 2·x·y, from the mean, where the terms are small."""
        middle = points.mean(0)
        return lambda x: (((x - middle) ** 2).sum(1), np.sqrt(np.float32(2)) * (x - middle))


def _with_mass(mass: Points, more: Points, features: Points) -> tuple[Points, Points]:
    return mass + more, features


def _shared(a: Doubles, b: Doubles) -> Doubles:
    """Return (a·log2((a + b)/a) + b·log2((a + b)/b)) / 2: what two histograms share of a label, 0 if one has none."""
    divergence: Doubles = (_xlogx(a + b) - _xlogx(a) - _xlogx(b)) / (2 * np.log(2))
    return divergence


def _shared_by_label(x: Doubles, columns: list[tuple[Doubles, Doubles, NDArray[np.int64]]]) -> Doubles:
    """Return Σ _shared of all rows of x and of histograms given by label: counts, count·ln count, who has any.

    Histograms are sparse, and nothing is shared where one has 0: only pairs that both have the label are computed.
    """
    both = np.zeros((len(x), len(columns[0][0])))
    for a, (b, b_log_b, j) in zip(x.T.copy(), columns, strict=True):
        i = np.flatnonzero(a)
        a_log_a = _xlogx(a)
        if 2 * len(i) * len(j) < both.size:
            both[np.ix_(i, j)] += _xlogx(a[i, None] + b[j]) - a_log_a[i, None] - b_log_b[j]
        else:
            both += _xlogx(a[:, None] + b) - (a_log_a[:, None] + b_log_b)
    divergence: Doubles = both / (2 * np.log(2))
    return divergence


def _xlogx(x: Doubles) -> Doubles:
    """Return x·ln x, 0 at 0."""
    positive = np.maximum(x, np.finfo(np.float64).tiny)
    logs = np.log(positive)
    logs *= positive
    return logs
