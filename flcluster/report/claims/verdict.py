"""When a claim holds: a rule, so that nobody decides by eye.

An order ("A is above B") holds if at least three seeds were run of both, and the mean of their differences, seed by
seed, is above two standard errors. It does not hold if that mean is below minus two, and is not settled in between.
"A is near B" holds if at least three seeds were run and the mean difference lies within a stated margin. One or two
seeds are "seen once" or "seen twice", for or against. What was not run is "not tried".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rule = Literal["above", "below", "near"]
Verdict = Literal["holds", "does not hold", "not settled", "seen", "seen against", "not tried"]

SEEDS = 3
"""Fewer do not settle anything."""
ERRORS = 2.0
"""Standard errors that a difference must be larger than."""


@dataclass(frozen=True)
class Found:
    """What was measured for a claim: differences, seed by seed, and what they say."""

    gaps: NDArray[np.float64]
    verdict: Verdict

    @property
    def seeds(self) -> int:
        """How many there are."""
        return len(self.gaps)

    @property
    def mean(self) -> float:
        """The mean difference; NaN where nothing was run."""
        return float(self.gaps.mean()) if len(self.gaps) else math.nan

    @property
    def text(self) -> str:
        """The verdict in words."""
        times = {1: "once", 2: "twice"}.get(self.seeds, "")
        if self.verdict == "seen":
            return f"seen {times}"
        return f"seen {times}, against it" if self.verdict == "seen against" else self.verdict


def differences(first: Mapping[int, float], second: Mapping[int, float]) -> NDArray[np.float64]:
    """Return first minus second for the seeds that both have a finite number of."""
    gaps = np.array([first[seed] - second[seed] for seed in sorted(set(first) & set(second))], dtype=np.float64)
    return gaps[np.isfinite(gaps)]


def judged(gaps: NDArray[np.float64], rule: Rule, margin: float = 0.0) -> Found:
    """Say what differences make of a claim.

    For an order the margin is what the difference must be larger than, besides (0: anything).

    >>> judged(np.array([0.03, 0.05, 0.04]), "above").verdict, judged(np.array([0.03, -0.05, 0.04]), "above").verdict
    ('holds', 'not settled')
    >>> judged(np.array([0.03]), "below").text, judged(np.array([0.004, -0.01, 0.0]), "near", 0.01).verdict
    ('seen once, against it', 'holds')
    """
    if not len(gaps):
        return Found(gaps, "not tried")
    if rule == "near":
        return Found(gaps, _in_words(abs(float(gaps.mean())) <= margin, len(gaps)))
    towards = (gaps if rule == "above" else -gaps) - margin
    if len(gaps) < SEEDS:
        return Found(gaps, _in_words(float(towards.mean()) > 0, len(gaps)))
    error = float(towards.std(ddof=1)) / math.sqrt(len(towards))
    if abs(float(towards.mean())) <= ERRORS * error:
        return Found(gaps, "not settled")
    return Found(gaps, _in_words(float(towards.mean()) > 0, len(gaps)))


def _in_words(so: bool, seeds: int) -> Verdict:
    if seeds < SEEDS:
        return "seen" if so else "seen against"
    return "holds" if so else "does not hold"
