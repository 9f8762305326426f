"""The rule by which a claim holds."""

import math

import numpy as np
import pytest

from flcluster.report.claims.verdict import differences, judged


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([0.01, 0.02, 0.03], "holds"),  # mean .02, standard error .01 / sqrt(3) = .0058: 3.5 of them
        ([-0.01, -0.02, -0.03], "does not hold"),
        ([0.01, -0.01, 0.03], "not settled"),  # mean .01, standard error .0115
        ([0.02, 0.02, 0.02], "holds"),  # no spread at all
        ([0.0, 0.0, 0.0], "not settled"),
        ([0.02, 0.03], "seen"),
        ([-0.02], "seen against"),
        ([], "not tried"),
    ],
)
def test_an_order_needs_three_seeds_and_two_standard_errors(gaps, verdict):
    assert judged(np.array(gaps), "above").verdict == verdict
    opposite = {"holds": "does not hold", "does not hold": "holds", "seen": "seen against", "seen against": "seen"}
    assert judged(np.array(gaps), "below").verdict == opposite.get(verdict, verdict)


def test_the_bound_is_two_standard_errors():
    """Three gaps m - 1, m, m + 1 have the standard error 1 / sqrt(3) = .577: m must be above 1.155."""
    assert judged(np.array([0.15, 1.15, 2.15]), "above").verdict == "not settled"
    assert judged(np.array([0.16, 1.16, 2.16]), "above").verdict == "holds"


def test_an_order_by_a_margin():
    """A negative margin lets the first be a little on the wrong side: at most a point above, as "below, -0.01"."""
    gaps = np.array([0.004, 0.005, 0.006])
    assert judged(gaps, "below").verdict == "does not hold"
    assert judged(gaps, "below", -0.01).verdict == "holds"
    assert judged(gaps + 0.02, "below", -0.01).verdict == "does not hold"
    assert judged(gaps, "above", 0.01).verdict == "does not hold"


def test_more_seeds_settle_less_of_a_difference():
    """By hand: -1, 0, 1, 2, 3 have mean 1, deviation 1.581 and error .707: 1.41 of them; 0 to 4 have 2.83."""
    assert judged(np.array([-0.01, 0.0, 0.01, 0.02, 0.03]), "above").verdict == "not settled"
    assert judged(np.array([0.0, 0.01, 0.02, 0.03, 0.04]), "above").verdict == "holds"


def test_seeds_are_paired():
    """Seeds differ by ten times what the methods differ by, and still every seed says the same; or they do not."""
    theirs = {0: 0.5, 1: 0.7, 2: 0.9}
    assert judged(differences({0: 0.52, 1: 0.715, 2: 0.925}, theirs), "above").verdict == "holds"
    assert judged(differences({0: 0.90, 1: 0.715, 2: 0.545}, theirs), "above").verdict == "not settled"


def test_near_is_within_the_margin_on_average():
    assert judged(np.array([0.02, -0.02, 0.003]), "near", 0.01).verdict == "holds"
    assert judged(np.array([0.02, 0.02, 0.003]), "near", 0.01).verdict == "does not hold"
    assert judged(np.array([0.003, 0.001]), "near", 0.01).verdict == "seen"


def test_differences_are_of_the_seeds_that_both_have():
    found = differences({0: 0.5, 1: 0.6, 2: 0.7}, {2: 0.5, 1: 0.5, 5: 0.1})
    np.testing.assert_allclose(found, [0.1, 0.2])
    assert len(differences({0: math.nan, 1: 0.5}, {0: 0.5, 1: 0.4})) == 1  # what was not measured says nothing
