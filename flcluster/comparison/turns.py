"""Which run is next, where others may be making some of the same runs."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from flcluster.engine.processes.lock import holder

POLL = 1.0
"""Seconds between two looks at runs that others make."""


class Turns:
    """Runs below one folder that are still to be made, in their order.

    A run whose directory another process has is left to it and looked at again later: when that process is done with
    it or gone, it is its turn. Processes that make a run together are not ``alone`` and take all in the same order.
    """

    def __init__(self, output: Path, names: Iterable[str], alone: bool = True) -> None:
        self.output, self.left, self.alone = output, list(names), alone
        self._told: set[str] = set()

    def take(self) -> str | None:
        """Take the first run that nobody makes; None if others make all that are left."""
        for name in self.left:
            if not self.alone or holder(self.output / name) is None:
                self.left.remove(name)
                return name
        return None

    def put_back(self, name: str) -> None:
        """Leave a run to another process, which was quicker."""
        self.left.append(name)

    def wait(self, quiet: bool = False) -> None:
        """Wait a little; say for whom, each of them once."""
        for name in self.left:
            who = holder(self.output / name)
            line = f"waiting for {self.output / name}: {who}"
            if who is not None and line not in self._told and not quiet:
                self._told.add(line)
                print(line, file=sys.stderr, flush=True)
        time.sleep(POLL)
