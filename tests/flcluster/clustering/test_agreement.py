"""The KL divergence between the true mixture and its estimate, and the purity of assignments."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from by_hand import check, vec
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from flcluster.clustering.agreement import kl_divergence, matched_purity, matching

EXAMPLES = settings(deadline=None, max_examples=50, database=None)


@st.composite
def pairs(draw, smallest):
    """Two distributions over K clusters; `smallest` is the least unnormalised entry of the second."""
    K = draw(st.integers(2, 6))
    true = draw(st.lists(st.integers(0, 100), min_size=K, max_size=K).filter(any))
    estimate = draw(st.lists(st.integers(smallest, 100), min_size=K, max_size=K).filter(any))
    return [value / sum(true) for value in true], [value / sum(estimate) for value in estimate]


def reference(true, estimate, floor):
    floored = [max(q, floor) for q in estimate]
    total = 0.0
    for p, q in zip(true, floored, strict=True):
        if p > 0:
            total += p * math.log(p / (q / sum(floored)))
    return total


def test_by_hand():
    """P = (.5, .5), Q = (.25, .75): .5 ln 2 + .5 ln(2/3) = .5 ln(4/3), in nats."""
    check(kl_divergence(vec(0.5, 0.5), vec(0.25, 0.75)), 0.5 * math.log(4 / 3))


def test_it_is_the_true_distribution_that_weighs():
    """P = (.9, .1), Q = (.5, .5): .9 ln 1.8 + .1 ln .2 = .368; the other way round .5 ln(5/9) + .5 ln 5 = .511."""
    check(kl_divergence(vec(0.9, 0.1), vec(0.5, 0.5)), 0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    check(kl_divergence(vec(0.5, 0.5), vec(0.9, 0.1)), 0.5 * math.log(5 / 9) + 0.5 * math.log(5))


def test_an_absent_cluster_counts_nothing():
    """P = (1, 0), Q = (.5, .5): ln 2, with 0 ln 0 = 0."""
    check(kl_divergence(vec(1, 0), vec(0.5, 0.5)), math.log(2))


def test_floor_by_hand():
    """P = (.5, .5), Q = (1, 0) -> (1, 1e-4)/1.0001: .5 ln(.5 * 1.0001) + .5 ln(.5 * 10001) = 3.91212..."""
    expected = 0.5 * math.log(0.50005) + 0.5 * math.log(5000.5)
    assert round(expected, 3) == 3.912
    check(kl_divergence(vec(0.5, 0.5), vec(1, 0)), expected)


def test_floor_lifts_small_estimates_too_and_takes_from_the_others():
    """Q = (.99995, .00005) -> (.99995, .0001)/1.00005; P = (1, 0): ln(1.00005/.99995)."""
    check(kl_divergence(vec(1, 0), vec(0.99995, 0.00005)), math.log(1.00005 / 0.99995))


def test_floored_estimate_of_a_pure_client_costs_the_renormalisation():
    """P = Q = (1, 0): Q becomes (1, 1e-4)/1.0001: ln 1.0001."""
    check(kl_divergence(vec(1, 0), vec(1, 0)), math.log(1.0001))


def test_floor_is_an_option():
    """Floor .25: Q = (1, 0, 0) -> (1, .25, .25)/1.5 = (2/3, 1/6, 1/6); P = (0, .5, .5): ln 3."""
    check(kl_divergence(vec(0, 0.5, 0.5), vec(1, 0, 0), floor=0.25), math.log(3))


@EXAMPLES
@given(pairs(smallest=1))
def test_without_a_binding_floor_it_is_scipys(pair):
    """Every estimate is at least 1/600 here."""
    true, estimate = pair
    check(kl_divergence(vec(*true), vec(*estimate)), entropy(true, estimate))


@EXAMPLES
@given(pairs(smallest=0), st.sampled_from([1e-6, 1e-4, 1e-2]))
def test_with_a_floor_it_follows_the_definition(pair, floor):
    true, estimate = pair
    check(kl_divergence(vec(*true), vec(*estimate), floor), reference(true, estimate, floor))


@EXAMPLES
@given(pairs(smallest=0))
def test_finite_and_not_negative(pair):
    divergence = kl_divergence(vec(*pair[0]), vec(*pair[1])).item()
    assert math.isfinite(divergence)
    assert divergence >= -1e-12


@EXAMPLES
@given(pairs(smallest=1))
def test_zero_when_equal_and_positive_otherwise(pair):
    true, estimate = pair
    assert kl_divergence(vec(*estimate), vec(*estimate)).item() == pytest.approx(0, abs=1e-12)
    gap = sum(abs(p - q) for p, q in zip(true, estimate, strict=True))
    assert kl_divergence(vec(*true), vec(*estimate)).item() >= gap**2 / 2 - 1e-12  # Pinsker


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_leading_dimensions_are_kept(shape):
    random = np.random.default_rng(0)
    true = random.dirichlet(np.ones(4), size=shape)
    estimate = random.dirichlet(np.ones(4), size=shape)
    estimate[..., 0] = 0.0
    estimate /= estimate.sum(-1, keepdims=True)
    divergence = kl_divergence(torch.from_numpy(true), torch.from_numpy(estimate))
    assert tuple(divergence.shape) == shape
    for index in np.ndindex(shape):
        check(divergence[index], reference(true[index], estimate[index], 1e-4))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_inputs_are_left_alone_in_either_dtype(dtype, tolerance):
    true, estimate = torch.tensor([0.75, 0.25, 0.0], dtype=dtype), torch.tensor([0.5, 0.0, 0.5], dtype=dtype)
    divergence = kl_divergence(true, estimate)
    check(divergence, 0.75 * math.log(1.5 * 1.0001) + 0.25 * math.log(2500 * 1.0001), tolerance)
    assert true.tolist() == [0.75, 0.25, 0.0]
    assert estimate.tolist() == [0.5, 0.0, 0.5]


# -------------------------------------------------------------------------------------------------------------- purity


@st.composite
def assignments(draw):
    """Labels and true clusters of some clients; -1 = unknown, not all indices in use."""
    n = draw(st.integers(0, 12))
    columns = [draw(st.lists(st.integers(-1, draw(st.integers(0, 4))), min_size=n, max_size=n)) for _ in range(2)]
    return [np.array(column, dtype=np.int64) for column in columns]


def best_agreement(labels, truth):
    """Try every one-to-one renaming of five labels."""
    known = [(a, b) for a, b in zip(labels.tolist(), truth.tolist(), strict=True) if a >= 0 and b >= 0]
    return max(sum(names[a] == b for a, b in known) for names in permutations(range(5))), len(known)


@EXAMPLES
@given(assignments())
def test_purity_is_the_best_of_all_renamings(pair):
    agree, known = best_agreement(*pair)
    assert matched_purity(*pair) == pytest.approx(agree / known if known else math.nan, nan_ok=True)


@EXAMPLES
@given(assignments())
def test_matching_is_one_to_one_and_as_good_as_any(pair):
    labels, truth = pair
    names = matching(labels, truth)
    known = (labels >= 0) & (truth >= 0)
    assert len(set(names.values())) == len(names)
    assert set(names) <= set(labels[known].tolist()) and set(names.values()) <= set(truth[known].tolist())
    agree = sum(names.get(a) == b for a, b in zip(labels[known].tolist(), truth[known].tolist(), strict=True))
    assert agree == best_agreement(labels, truth)[0]


def test_purity_by_hand():
    """Label 5 stands for cluster 0 (2 clients), 2 for 1 (1 client); the third label has no partner: 3 of 5."""
    labels, truth = np.array([5, 5, 2, 5, 7, -1, 2]), np.array([0, 0, 1, 1, 0, 0, -1])
    assert matched_purity(labels, truth) == pytest.approx(3 / 5)
    assert matching(labels, truth) == {5: 0, 2: 1}


def test_one_label_for_all_is_as_pure_as_the_largest_cluster():
    """Unlike plain purity, no cluster counts twice: 4 labels on one cluster agree with the largest of them only."""
    assert matched_purity(np.zeros(6, int), np.array([0, 0, 0, 1, 1, 2])) == pytest.approx(0.5)
    assert matched_purity(np.array([0, 1, 2, 3, 3]), np.zeros(5, int)) == pytest.approx(0.4)


def test_purity_of_nobody_is_unknown():
    for labels, truth in (([], []), ([-1, -1], [0, 1]), ([0, 1], [-1, -1])):
        assert math.isnan(matched_purity(np.array(labels, int), np.array(truth, int)))
        assert matching(np.array(labels, int), np.array(truth, int)) == {}
