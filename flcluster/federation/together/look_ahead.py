"""Clients trained ahead of their turn, where the order of their results is known before the results are."""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Generic, TypeVar

R = TypeVar("R")


class LookAhead(Generic[R]):
    """Results of clients' turns, asked for one after the other and made several at a time.

    What a client trains depends only on what it received at its own last turn and on its own data. So of the turns to
    come, the first of every client can be trained now, many at a time, over all ranks; what the server or the
    neighbours do is then done turn by turn. The outcome is the same as one at a time.
    """

    def __init__(self, clients: Sequence[int], at_once: int, skipped: Container[int] = ()) -> None:
        self.clients, self.at_once, self.skipped = clients, at_once, skipped
        """Whose turn it is, how many results are made together at most, and the turns at which nothing is trained."""
        self.ready: dict[int, R] = {}

    def take(self, turn: int, make: Callable[[list[int]], Iterable[R]]) -> R:
        """Return the result of a turn; if there is none yet, make it and others that can be made now.

        Args:
            turn: Its number; the turns before it are over.
            make: Returns the results of some turns, given their numbers.
        """
        if turn not in self.ready:
            coming = self.known(turn)
            self.ready.update(zip(coming, make(coming), strict=True))
        return self.ready.pop(turn)

    def known(self, turn: int) -> list[int]:
        """Return the next turns without a result whose clients have their input: the first turn of each client."""
        taken: set[int] = set()
        coming: list[int] = []
        for n in range(turn, len(self.clients)):
            client = self.clients[n]
            if client not in taken:
                taken.add(client)
                if n not in self.ready and n not in self.skipped:
                    coming.append(n)
            if len(coming) == self.at_once or n - turn >= 8 * self.at_once:
                break
        return coming
