"""What past uploads measured, kept in order, so that a quantile costs little however many there were."""

from array import array
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class _Series:
    """Numbers of some kinds: as they came, and those of each kind in ascending order."""

    def __init__(self, past: Tensor) -> None:
        flat = past.double().flatten(1)
        self.came = array("d", flat.flatten().tolist())
        self.ordered = [array("d", column.tolist()) for column in flat.T.contiguous().sort(1).values]

    def add(self, values: list[float]) -> None:
        """Put one number of each kind in its place."""
        self.came.extend(values)
        for column, value in zip(self.ordered, values, strict=True):
            insort(column, value)


@dataclass(frozen=True, eq=False)
class History:
    """Values of past uploads, ``[n, …]`` in the order in which they came. A larger one leaves this one as it was.

    Both share their numbers as long as one goes on with the larger. One that goes on with the smaller (an upload was
    undone) sorts once.

    Example:
        >>> history = History.of(torch.tensor([[4.0], [0.0]])).added(torch.tensor([1.0]))
        >>> len(history), history.quantile(0.5), history.values().flatten().tolist()
        (3, tensor([1.], dtype=torch.float64), [4.0, 0.0, 1.0])
    """

    series: _Series
    count: int
    newest: Tensor
    """What the last upload measured; zeros before the first."""

    @classmethod
    def of(cls, past: Tensor) -> "History":
        """Take up values in the order in which they came, ``[n, …]``."""
        newest = past[-1] if len(past) else torch.zeros(past.shape[1:])
        return cls(_Series(past), len(past), newest.double())

    def __len__(self) -> int:
        return self.count

    def values(self) -> Tensor:
        """Return all values in the order in which they came, ``[n, …]``."""
        every = self.series.came[: self.count * self.newest.numel()]
        return _doubles(every).view(self.count, *self.newest.shape)

    def added(self, values: Tensor) -> "History":
        """Return this with the values of one more upload."""
        series = self._own()
        series.add(values.flatten().tolist())
        return History(series, self.count + 1, values.double())

    def quantile(self, q: float) -> Tensor:
        """Return what ``torch.quantile(values, q, dim=0)`` does, to the last bit."""
        rank = q * (self.count - 1)
        low, series = int(rank), self._own()
        high = low + (rank > low)
        below, above = (_doubles([column[at] for column in series.ordered]) for at in (low, high))
        return torch.lerp(below, above, _doubles(rank - low)).view(self.newest.shape)

    def _own(self) -> _Series:
        """Return the numbers of this version, and no later ones."""
        alone = len(self.series.came) == self.count * self.newest.numel()
        return self.series if alone else _Series(self.values())


def _doubles(values: Sequence[float] | float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
