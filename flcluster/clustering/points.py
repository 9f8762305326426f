"""What clients are compared by: rows of numbers."""

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
Labels = NDArray[np.int64]
Doubles = NDArray[np.float64]


def shares(counts: NDArray[np.int64]) -> Points:
    """Turn counts into shares, row by row; a row without counts stays zero.

    Example:
        >>> shares(np.array([[1, 3], [0, 0]])).tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    totals = counts.sum(1, keepdims=True)
    rows: Points = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0).astype(np.float32)
    return rows


def unit(points: Points) -> Points:
    """Scale every row to length 1 (a row of zeros stays)."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    scaled: Points = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
    return scaled
