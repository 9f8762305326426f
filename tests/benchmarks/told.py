"""What a benchmark says: a ratio, by name, and what was aimed at; and how ways to do the same work take turns."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Told(NamedTuple):
    """One line of the table."""

    what: str
    found: float
    goal: str = ""
    unit: str = ""


def show(rows: list[Told]) -> list[Told]:
    """Print some lines, and return them."""
    for what, found, goal, unit in rows:
        print(f"{what:<84}{found:>8.2f}{unit:<3} {goal}".rstrip(), flush=True)
    return rows


def in_turns(ways: Mapping[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """Let ways take turns, so that a noisy machine disturbs all alike; return the CPU seconds of each turn.

    A first turn, which warms up, is not counted.
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns + 1):
        for way, run in ways.items():
            began = time.process_time()
            run()
            if turn:
                times[way].append(time.process_time() - began)
    return times


def ratio(one: list[float], other: list[float]) -> float:
    """Return the median of the turns' ratios."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))
