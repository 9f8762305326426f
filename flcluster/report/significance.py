"""Whether methods differ by more than their seeds make them: paired tests over the seeds that two of them share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from flcluster.report.tables import Grid

Values = Mapping[str, Mapping[int, float]]
"""Name of a method -> seed -> its number."""


FEWEST = 3
"""Seeds with fewer of which no test is made."""


ALL_PAIRS = 6
"""With more methods than these each is compared with the first one only."""


@dataclass(frozen=True)
class Paired:
    """One method minus another, seed by seed."""

    first: str
    second: str
    gaps: NDArray[np.float64]

    @property
    def tested(self) -> bool:
        """Whether there are enough seeds, whose differences are not all the same."""
        return len(self.gaps) >= FEWEST and float(np.ptp(self.gaps)) > 1e-12

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the mean difference, by Student's t."""
        if not self.tested:
            return math.nan, math.nan
        low, high = stats.t.interval(0.95, len(self.gaps) - 1, self.gaps.mean(), stats.sem(self.gaps))
        return float(low), float(high)

    @property
    def p_t(self) -> float:
        """Paired t-test, two-sided."""
        return float(stats.ttest_1samp(self.gaps, 0.0).pvalue) if self.tested else math.nan

    @property
    def p_wilcoxon(self) -> float:
        """Wilcoxon's signed-rank test, two-sided; exact unless differences are tied."""
        return float(stats.wilcoxon(self.gaps, method="auto").pvalue) if self.tested else math.nan


def paired(values: Values) -> list[Paired]:
    """Compare all pairs of a few methods, or each of many with the first, over the seeds that both have."""
    names = list(values)
    pairs = combinations(names, 2) if len(names) <= ALL_PAIRS else ((name, names[0]) for name in names[1:])
    found = []
    for one, other in pairs:
        seeds = [
            s for s in values[one] if math.isfinite(values[one][s]) and math.isfinite(values[other].get(s, np.nan))
        ]
        if seeds:
            found.append(Paired(one, other, np.array([values[one][s] - values[other][s] for s in sorted(seeds)])))
    return found


def holm(ps: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests as Holm does; NaN (no test) stays and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted((p, at) for at, p in enumerate(ps) if math.isfinite(p))
    corrected, largest = [math.nan] * len(ps), 0.0
    for rank, (p, at) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        corrected[at] = largest
    return corrected


def significance_grid(values: Values, what: str, where: str = "") -> Grid | None:
    """Return the tests as a table; None where no two methods share more than one seed."""
    pairs = paired(values)
    if not any(len(pair.gaps) > 1 for pair in pairs):
        return None
    ts, signs = holm([pair.p_t for pair in pairs]), holm([pair.p_wilcoxon for pair in pairs])
    rows = []
    for pair, t, sign in zip(pairs, ts, signs, strict=True):
        low, high = pair.interval
        std = f" ±{pair.gaps.std(ddof=1):.3f}" if len(pair.gaps) > 1 else ""
        rows.append(
            {
                "A − B": f"{pair.first} − {pair.second}",
                "Seeds": str(len(pair.gaps)),
                "Difference": f"{pair.gaps.mean():+.3f}{std}",
                "95 % interval": "" if math.isnan(low) else f"{low:+.3f} to {high:+.3f}",
                "p, paired t": _p(t) or _why_not(pair),
                "p, Wilcoxon": _p(sign),
            }
        )
    return Grid(f"Differences in {what}{f', {where}' if where else ''}", rows, _caption(pairs, len(values)))


def _p(p: float) -> str:
    return "" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _why_not(pair: Paired) -> str:
    return "too few seeds" if len(pair.gaps) < FEWEST else "all the same"


def _caption(pairs: Sequence[Paired], methods: int) -> str:
    said = ["Paired over seeds: mean ± standard deviation of A − B."]
    if not (tested := [pair for pair in pairs if pair.tested]):
        return f"{said[0]} No test is made of fewer than {FEWEST} seeds."
    if methods > ALL_PAIRS:
        said.append("Each is compared with the first one.")
    said.append(f"p-values are two-sided and corrected for {len(tested)} comparisons (Holm); intervals are not.")
    least = min(2 / 2 ** len(pair.gaps) for pair in tested)
    if least > 0.05:
        said.append(f"With so few seeds Wilcoxon's p cannot fall below {least:.3g}, before correction.")
    return " ".join(said)
