"""What a part of the harness came to: its last line, which the table of ``python3 dev.py faults`` is made of."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Verdict:
    """A part's last line."""

    name: str
    tried: int
    came_to: str
    wrong: int

    def __str__(self) -> str:
        return f"{self.name}: {self.tried} tried, {self.came_to}: {self.wrong} wrong"


def read(line: str) -> Verdict | None:
    """Read a part's last line; None if it is none.

    >>> read("bad folders: 700 tried, 700 refused: 0 wrong").tried
    700
    """
    found = re.fullmatch(r"(.+?): (\d+) tried,? ?(.*): (\d+) wrong", line.strip())
    return Verdict(found[1], int(found[2]), found[3], int(found[4])) if found else None


def tell(name: str, counts: Mapping[str, int], good: Collection[str]) -> NoReturn:
    """Print the last line of a part, and exit as it says: whatever is not among the ``good`` outcomes is wrong."""
    wrong = sum(n for what, n in counts.items() if what not in good)
    came_to = ", ".join(f"{n} {what}" for what, n in sorted(counts.items(), key=lambda each: (-each[1], each[0])))
    tried = sum(counts.values())
    print(Verdict(name, tried, came_to or "nothing", wrong), flush=True)
    raise SystemExit(1 if wrong or not tried else 0)
