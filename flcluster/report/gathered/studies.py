"""Studies as their files of gathered rows tell them: variant and seed -> numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from flcluster.engine.messages.words import did_you_mean, listed
from flcluster.errors import UserError
from flcluster.report.gathered.curves import path_beside, read_curves
from flcluster.report.gathered.rows import Row, read_rows

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

    @property
    def commits(self) -> list[str]:
        """The commits that made the runs, seven digits each."""
        return sorted({part[:7] for row in self.rows.values() for part in row["commit"].split("+")})

    def values(self, variant: str, column: str) -> Series:
        """Return a number of each seed of a variant; seeds that have none are left out."""
        if variant not in self.variants:
            known = f"{did_you_mean(variant, self.variants)} It has {listed(self.variants)}"
            raise UserError(f"{self.path} has no runs of {variant!r};{known}")
        told = {seed: row.get(column, "") for (name, seed), row in self.rows.items() if name == variant}
        return {seed: float(cell) for seed, cell in sorted(told.items()) if cell}

    def curve(self, variant: str, x: str, y: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return two columns over time, one pair for each seed."""
        runs: dict[str, list[tuple[float, float]]] = {}
        for row in read_curves(path_beside(self.path)):
            if variant_of(row["run"]) == variant and x in row and y in row:
                runs.setdefault(row["run"], []).append((float(row[x]), float(row[y])))
        return [(np.array(points)[:, 0], np.array(points)[:, 1]) for points in runs.values()]


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
