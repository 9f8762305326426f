"""Studies as their files of gathered rows tell them: variant and seed -> numbers."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcluster.engine.messages.words import did_you_mean, listed
from flcluster.errors import UserError
from flcluster.records.columns import LAST, TIME_TO
from flcluster.records.reader import key_of
from flcluster.report.curves import Curve, final_value, own_time
from flcluster.report.gathered.curves import path_beside, read_curves
from flcluster.report.gathered.rows import Row, read_rows, summary_of
from flcluster.report.printed import paper_rows
from flcluster.report.summaries import Row as Printed

Series = Mapping[int, float]
"""Seed -> number."""


@dataclass(frozen=True)
class Gathered:
    """The rows of one study."""

    path: Path

    @cached_property
    def rows(self) -> Mapping[tuple[str, int], Row]:
        """Variant and seed -> the one row of that run."""
        found: dict[tuple[str, int], Row] = {}
        for row in read_rows(self.path):
            key = variant_of(row["run"]), int(row["seed"])
            if key in found:
                raise UserError(f"{self.path} has two rows of {row['run']}, of different commits: keep one of them")
            found[key] = row
        return found

    @property
    def variants(self) -> list[str]:
        """The variants, in order of appearance."""
        return list(dict.fromkeys(variant for variant, _ in self.rows))

    def seeds(self, variant: str) -> list[int]:
        """Return the seeds that a variant was run with."""
        return sorted(seed for name, seed in self.rows if name == variant)

    def made_by(self, variants: Collection[str]) -> str:
        """Say where the rows of some variants are, which code made them, and which of them are no repeats."""
        rows = {key: row for key, row in self.rows.items() if key[0] in variants}
        commits = sorted({part[:7] for row in rows.values() for part in row["commit"].split("+")})
        unlike = [name for name in variants if len({row["config"] for (n, _), row in rows.items() if n == name}) > 1]
        said = f"`results/{self.path.name}`, commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}."
        return said + (f" Seeds of {listed(unlike)} differ in more than the seed." if unlike else "")

    def printed(self, variant: str) -> list[Printed]:
        """Return what papers print for the setting of a variant."""
        summary = summary_of(self.rows[variant, self.seeds(variant)[0]])
        return paper_rows(*key_of(summary), summary)

    @cached_property
    def _sessions(self) -> Mapping[tuple[str, int], list[Row]]:
        """Variant and seed -> its metrics over time, of the code that its row is of."""
        path, found = path_beside(self.path), dict[tuple[str, int], list[Row]]()
        known = {(row["run"], row["commit"]): key for key, row in self.rows.items()}
        for row in read_curves(path) if path.exists() else []:
            if key := known.get((row["run"], row["commit"])):
                found.setdefault(key, []).append(row)
        return found

    def values(self, variant: str, column: str) -> Series:
        """Return a number of each seed of a variant, final or made of its curves; seeds that have none are left out."""
        if variant not in self.variants:
            others = f"{did_you_mean(variant, self.variants)} It has {listed(self.variants)}"
            raise UserError(f"{self.path} has no runs of {variant!r};{others}")
        told = {seed: row.get(column, "") for (name, seed), row in self.rows.items() if name == variant}
        known = {seed: float(cell) for seed, cell in sorted(told.items()) if cell}
        return known or self._over_time(variant, column)

    def _over_time(self, variant: str, column: str) -> Series:
        """Return the mean of a column's last rows, how much accuracy swings, or when it is another variant's."""
        if column.endswith(LAST):
            return {s: final_value(y) for s, (_, y) in self.curves(variant, "epoch", column.removesuffix(LAST)).items()}
        curves = self.curves(variant, "time", "client_acc")
        if column == "swing":
            return {seed: swing(y) for seed, (_, y) in curves.items() if len(y) > 3}
        if not column.startswith(TIME_TO):
            return {}
        goals = {
            s: final_value(y) for s, (_, y) in self.curves(column.removeprefix(TIME_TO), "time", "client_acc").items()
        }
        return {seed: own_time(*curve, goals[seed]) for seed, curve in curves.items() if seed in goals}

    def curves(self, variant: str, x: str, y: str) -> dict[int, Curve]:
        """Return two columns over time of each seed of a variant; seeds that have none are left out."""
        found = {}
        for (name, seed), rows in sorted(self._sessions.items()):
            points = [(float(row[x]), float(row[y])) for row in rows if name == variant and x in row and y in row]
            if points:
                found[seed] = np.array(points)[:, 0], np.array(points)[:, 1]
        return found


def swing(values: NDArray[np.float64]) -> float:
    """Return how much a curve changes from one place to the next, on average over its second half.

    >>> round(swing(np.array([0.1, 0.5, 0.7, 0.9, 0.8, 0.9])), 3)
    0.1
    """
    return float(np.abs(np.diff(values[len(values) // 2 :])).mean())


def variant_of(run: str) -> str:
    """Return the variant that a run's name tells.

    >>> variant_of("FIELDING-seed0"), variant_of("run_3")
    ('FIELDING', 'run_3')
    """
    return run.rpartition("-seed")[0] or run


def mean_and_deviation(values: Series) -> tuple[float, float]:
    """Return the mean over seeds and the standard deviation; NaN for the deviation of one."""
    known = np.array(list(values.values()))
    if not len(known):
        return math.nan, math.nan
    return float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else math.nan
