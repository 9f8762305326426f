"""What was made lately, so that it need not be made again."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Lately(Generic[V]):
    """Values by key; those that were asked for longest ago make room for new ones.

    >>> numbers = Lately(room=2, cost=lambda value: 1)
    >>> [numbers.get(key, lambda: len(numbers.kept)) for key in "aabcaca"]
    [0, 0, 1, 2, 2, 2, 2]

    Args:
        room: What all values may take.
        cost: What a value takes.
    """

    def __init__(self, room: int, cost: Callable[[V], int]) -> None:
        self.room, self.cost, self.taken = room, cost, 0
        self.kept: dict[Hashable, V] = {}

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key, made if it is not there."""
        if key in self.kept:
            value = self.kept.pop(key)
        else:
            value = make()
            self.taken += self.cost(value)
        self.kept[key] = value
        while self.taken > self.room and len(self.kept) > 1:
            self.taken -= self.cost(self.kept.pop(next(iter(self.kept))))
        return value
