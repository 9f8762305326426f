"""Paired tests: against scipy's own pairing, statistics by hand, and honest where there is too little."""

import math

import numpy as np
import pytest
from scipy import stats

from flcluster.report.significance import holm, paired, significance_grid

A = {0: 0.80, 1: 0.82, 2: 0.79, 3: 0.85, 4: 0.81}
B = {0: 0.78, 1: 0.79, 2: 0.78, 3: 0.80, 4: 0.75, 9: 0.1}


def test_pairs_are_over_shared_seeds_whatever_their_order():
    (pair,) = paired({"A": A, "B": dict(reversed(B.items()))})
    np.testing.assert_allclose(pair.gaps, [0.02, 0.03, 0.01, 0.05, 0.06])
    ours, theirs = [A[s] for s in range(5)], [B[s] for s in range(5)]
    assert pair.p_t == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert pair.p_wilcoxon == pytest.approx(2 / 2**5)  # all five of one sign: the smallest there is
    low, high = pair.interval
    assert (low + high) / 2 == pytest.approx(0.034) and low > 0


def test_holm_is_as_in_a_textbook():
    """Four tests of 5 %: .01 and .005 times 3 and 4; then 2 · .03 = .06, and .04 may not be below it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([math.nan, 0.5]) == pytest.approx([math.nan, 0.5], nan_ok=True)


def test_two_seeds_are_shown_and_not_tested():
    grid = significance_grid({"A": {0: 0.5, 1: 0.7}, "B": {0: 0.4, 1: 0.5}}, "accuracy")
    assert grid is not None
    (row,) = grid.rows
    assert row["Difference"] == "+0.150 ±0.071" and row["Seeds"] == "2"
    assert row["p, paired t"] == "too few seeds" and row["p, Wilcoxon"] == "" and row["95 % interval"] == ""
    assert "No test is made of fewer than 3 seeds" in grid.caption


def test_one_seed_makes_no_table():
    assert significance_grid({"A": {0: 0.5}, "B": {0: 0.4}}, "accuracy") is None
    assert significance_grid({"A": {0: 0.5, 1: 0.4}, "B": {2: 0.4, 3: 0.3}}, "accuracy") is None


def test_equal_runs_are_not_called_different_or_alike():
    grid = significance_grid({"A": A, "B": A}, "accuracy")
    assert grid is not None and grid.rows[0]["p, paired t"] == "all the same"


def test_many_methods_are_compared_with_the_first():
    values = {name: {s: A[s] + 0.01 * at * (s + 1) for s in A} for at, name in enumerate("ABCDEFGH")}
    grid = significance_grid(values, "accuracy")
    assert grid is not None and len(grid.rows) == 7
    assert all(row["A − B"].endswith("− A") for row in grid.rows) and "corrected for 7 comparisons" in grid.caption
