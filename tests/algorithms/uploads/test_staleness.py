"""Update ratios of CDFL and CCFL, FedSoft-Async's ratios and CCFL's global adjustment filter."""

import numpy as np
import pytest
import torch
from by_hand import check, vec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flcluster.algorithms.uploads.estimation import (
    estimate_distribution,
    passes_filter,
    soft_ratios,
    staleness_factor,
    update_ratios,
)
from flcluster.algorithms.uploads.history import History

EXAMPLES = settings(deadline=None, max_examples=50, database=None)
PAPER = {"beta0": 0.025, "a": 10.0, "b": 5.0}


def reference_ratios(weights, staleness, beta0, a, b, threshold):
    """UpdateRatioCompute of the papers as a loop."""
    bar = 1 / len(weights) - 1e-9 if threshold == "ave" else threshold
    top = max(weights)
    ratios = []
    for weight, s in zip(weights, staleness, strict=True):
        beta1 = 0.0 if weight < bar else weight / top
        beta2 = 1.0 if s < b else 1 / (a * s + 1)
        ratios.append(beta0 * beta1 * beta2)
    return ratios


@st.composite
def estimates(draw):
    """Weights that sum to one, and a staleness for each, of either sign."""
    K = draw(st.integers(2, 6))
    raw = draw(st.lists(st.integers(1, 1000), min_size=K, max_size=K))
    weights = [value / sum(raw) for value in raw]
    staleness = draw(st.lists(st.integers(-30, 60).map(float), min_size=K, max_size=K))
    return weights, staleness


# ---------------------------------------------------------------------------------------------- staleness factor


def test_staleness_factor_jumps_at_b():
    """a = 10, b = 5: s = 4 is fresh, s = 5 weighs 1/(10 * 5 + 1) = 1/51, s = 6 1/61, s = 40 1/401."""
    factor = staleness_factor(vec(0, 1, 4, 4.999, 5, 6, 40), 10.0, 5.0)
    check(factor, [1, 1, 1, 1, 1 / 51, 1 / 61, 1 / 401])


def test_negative_staleness_is_fresh():
    """Also where a*s + 1 is negative or exactly zero (s = -1 with a = 1)."""
    assert staleness_factor(vec(-1, -7, -100, 0), 10.0, 5.0).tolist() == [1.0] * 4
    assert staleness_factor(vec(-1, -2), 1.0, 5.0).tolist() == [1.0] * 2


def test_staleness_factor_of_whole_numbers():
    factor = staleness_factor(torch.tensor([-3, 4, 5, 7]), 10.0, 5.0)
    assert factor.is_floating_point()
    check(factor, [1, 1, 1 / 51, 1 / 71], 1e-6)


@EXAMPLES
@given(st.lists(st.integers(-30, 60), min_size=1, max_size=8), st.floats(0, 20), st.integers(0, 30))
def test_staleness_factor_follows_the_pseudo_code(staleness, a, b):
    factor = staleness_factor(vec(*staleness), a, float(b))
    check(factor, [1.0 if s < b else 1 / (a * s + 1) for s in staleness])


def test_staleness_factor_never_grows():
    factor = staleness_factor(torch.arange(-10, 50, dtype=torch.float64), 10.0, 5.0)
    assert (factor[1:] <= factor[:-1]).all()
    assert (factor[16:] < factor[15:-1]).all()  # strictly from s = 5 on


# ---------------------------------------------------------------------------------------------- update ratios


def test_update_ratios_by_hand():
    """
    K = 3, `ave` = 1/3, weights (.5, .4, .1): b1 = (1, .8, 0). s = (4, 5, 0): b2 = (1, 1/51, 1).
    beta = .025 * (1, .8/51, 0).
    """
    ratios = update_ratios(vec(0.5, 0.4, 0.1), vec(4, 5, 0), **PAPER)
    check(ratios, [0.025, 0.02 / 51, 0.0])
    assert ratios[2].item() == 0.0


@EXAMPLES
@given(estimates(), st.sampled_from([0.025, 0.5, 1.0]), st.sampled_from([0.5, 10.0]), st.integers(0, 10).map(float))
def test_update_ratios_follow_the_pseudo_code_with_the_average(estimate, beta0, a, b):
    weights, staleness = estimate
    ratios = update_ratios(vec(*weights), vec(*staleness), beta0=beta0, a=a, b=b)
    check(ratios, reference_ratios(weights, staleness, beta0, a, b, "ave"))


@EXAMPLES
@given(estimates(), st.floats(0, 1))
def test_update_ratios_follow_the_pseudo_code_with_a_number(estimate, threshold):
    weights, staleness = estimate
    assume(all(abs(weight - threshold) > 1e-8 for weight in weights))
    ratios = update_ratios(vec(*weights), vec(*staleness), **PAPER, threshold=threshold)
    check(ratios, reference_ratios(weights, staleness, **PAPER, threshold=threshold))


@EXAMPLES
@given(estimates(), st.one_of(st.just("ave"), st.floats(0, 1)))
def test_update_ratios_stay_within_zero_and_beta0(estimate, threshold):
    weights, staleness = estimate
    ratios = update_ratios(vec(*weights), vec(*staleness), **PAPER, threshold=threshold)
    assert ratios.min().item() >= 0.0
    assert ratios.max().item() <= 0.025 * (1 + 1e-12)


@EXAMPLES
@given(estimates())
def test_the_heaviest_cluster_gets_beta0_when_fresh(estimate):
    """The largest weight is never below the average, and is divided by itself."""
    weights, _ = estimate
    ratios = update_ratios(vec(*weights), torch.zeros(len(weights), dtype=torch.float64), **PAPER)
    assert ratios[weights.index(max(weights))].item() == pytest.approx(0.025, rel=1e-12)


def test_default_threshold_is_the_average():
    """Weights (.6, .4): the average .5 keeps the first only."""
    check(update_ratios(vec(0.6, 0.4), vec(0, 0), **PAPER), [0.025, 0.0])
    check(update_ratios(vec(0.6, 0.4), vec(0, 0), **PAPER, threshold="ave"), [0.025, 0.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("K", range(1, 13))
def test_uniform_estimate_updates_all(K, dtype):
    """Whatever 1/K rounds to, a uniform estimate must not update none or some."""
    weights = torch.full((K,), 1 / K, dtype=dtype)
    ratios = update_ratios(weights, torch.zeros(K, dtype=dtype), **PAPER)
    check(ratios, [0.025] * K, 1e-12 if dtype == torch.float64 else 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("K", [2, 3, 4, 5, 6, 7, 9, 11])
def test_estimate_without_information_updates_all(K, dtype):
    same = torch.full((K,), 3.0, dtype=dtype)
    weights, _ = estimate_distribution(
        same, same, same, c1=0.5, c2=0.2, amplifiers=[10.0, 10.0], bars=("min", "min", "min")
    )
    ratios = update_ratios(weights, torch.zeros(K, dtype=dtype), **PAPER)
    check(ratios, [0.025] * K, 1e-12 if dtype == torch.float64 else 1e-6)


def test_average_is_compared_with_a_tiny_tolerance():
    """A deficit of 5e-10 from 1/3 is rounding and counts as equal, one of 1e-6 is not."""
    third = 1 / 3
    close = update_ratios(vec(third - 5e-10, third, third + 5e-10), vec(0, 0, 0), **PAPER)
    top = third + 5e-10
    check(close, [0.025 * (third - 5e-10) / top, 0.025 * third / top, 0.025])
    apart = update_ratios(vec(third - 1e-6, third, third + 1e-6), vec(0, 0, 0), **PAPER)
    check(apart, [0.0, 0.025 * third / (third + 1e-6), 0.025])


def test_a_number_as_threshold_refuses_only_what_is_below():
    """Weights (.25, .75): equality passes with 1/3 of beta0; anything above .25 refuses; above .75 refuses both."""
    weights, fresh = vec(0.25, 0.75), vec(0, 0)
    check(update_ratios(weights, fresh, **PAPER, threshold=0.25), [0.025 / 3, 0.025])
    check(update_ratios(weights, fresh, **PAPER, threshold=0.0), [0.025 / 3, 0.025])
    assert update_ratios(weights, fresh, **PAPER, threshold=0.26)[0].item() == 0.0
    check(update_ratios(weights, fresh, **PAPER, threshold=0.26), [0.0, 0.025])
    assert update_ratios(weights, fresh, **PAPER, threshold=0.76).tolist() == [0.0, 0.0]


def test_staleness_is_taken_per_cluster():
    """CCFL: t_k - tau differs by cluster, and is negative where nothing changed since the client synced."""
    ratios = update_ratios(vec(0.25, 0.25, 0.25, 0.25), vec(-3, 4, 5, 20), **PAPER)
    check(ratios, [0.025, 0.025, 0.025 / 51, 0.025 / 201])


def test_update_ratios_of_whole_number_staleness():
    ratios = update_ratios(vec(0.5, 0.5), torch.tensor([-2, 5]), **PAPER)
    check(ratios, [0.025, 0.025 / 51], 1e-6)


def test_update_ratios_leave_their_inputs_alone():
    weights, staleness = vec(0.7, 0.2, 0.1), vec(-1, 5, 9)
    update_ratios(weights, staleness, **PAPER)
    assert weights.tolist() == [0.7, 0.2, 0.1]
    assert staleness.tolist() == [-1, 5, 9]


# ---------------------------------------------------------------------------------------------- FedSoft-Async


def test_soft_ratios_by_hand():
    """beta0 * mu * b2, neither thresholded nor divided by the maximum: .025 * (.5, .4/51, .1)."""
    ratios = soft_ratios(vec(0.5, 0.4, 0.1), vec(4, 5, -2), **PAPER)
    check(ratios, [0.0125, 0.01 / 51, 0.0025])


@EXAMPLES
@given(estimates())
def test_soft_ratios_follow_the_formula(estimate):
    shares, staleness = estimate
    expected = [
        0.025 * share * (1.0 if s < 5 else 1 / (10 * s + 1)) for share, s in zip(shares, staleness, strict=True)
    ]
    check(soft_ratios(vec(*shares), vec(*staleness), **PAPER), expected)


# ---------------------------------------------------------------------------------------------- adjustment filter


def ramp(entries, K=1):
    """A history that runs 0, 1, 2, ... in every cluster and value."""
    return torch.arange(entries, dtype=torch.float64)[:, None, None].expand(entries, K, 3).clone()


def passing(history, values, *options, **more):
    """What the filter says of a history that is told as a tensor."""
    return passes_filter(History.of(history), values, *options, **more)


def test_filter_by_hand():
    """Of 0..40 the 70th percentile sits at position .7 * 40 = 28: 28.5 exceeds it, 27.5 does not."""
    history = ramp(41, K=2)
    values = torch.tensor([[27.5, 27.5, 27.5], [28.5, 28.5, 28.5]], dtype=torch.float64)
    assert passing(history, values).tolist() == [True, False]


def test_filter_interpolates():
    """Of 0..21 the 70th percentile sits at .7 * 21 = 14.7: not 14 (lower), 15 (higher), 14.5 (midpoint)."""
    values = torch.tensor([[14.69] * 3, [14.71] * 3], dtype=torch.float64)
    assert passing(ramp(22, K=2), values).tolist() == [True, False]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_of_the_three_refuses(which):
    values = torch.zeros(2, 3, dtype=torch.float64)
    values[1, which] = 100.0
    assert passing(ramp(41, K=2), values).tolist() == [True, False]


def test_equal_to_the_percentile_passes():
    history = torch.full((30, 2, 3), 5.0, dtype=torch.float64)
    values = torch.full((2, 3), 5.0, dtype=torch.float64)
    values[1, 0] = np.nextafter(5.0, 6.0)
    assert passing(history, values).tolist() == [True, False]


def test_each_cluster_and_value_has_its_own_history():
    """Every history is 0..40 in its own scale, with its 70th percentile at 28 scales: 27 passes, any 29 refuses."""
    scale = torch.tensor([[1.0, 10.0, 100.0], [1000.0, 10000.0, 100000.0]], dtype=torch.float64)
    history = ramp(41, K=2) * scale
    assert passing(history, 27 * scale).tolist() == [True, True]
    for k in range(2):
        for value in range(3):
            values = 27 * scale
            values[k, value] = 29 * scale[k, value]
            assert passing(history, values).tolist() == [k != 0, k != 1]


def test_filter_needs_twenty_entries():
    values = torch.full((2, 3), 1e9, dtype=torch.float64)
    assert passing(ramp(19, K=2), values).tolist() == [True, True]
    assert passing(ramp(20, K=2), values).tolist() == [False, False]


def test_filter_with_an_empty_history_passes():
    passes = passing(torch.zeros(0, 3, 3, dtype=torch.float64), torch.ones(3, 3, dtype=torch.float64))
    assert passes.dtype == torch.bool
    assert passes.tolist() == [True, True, True]


def test_filter_options():
    """0..4: the median is 2, the maximum 4."""
    values = torch.tensor([[1.9] * 3, [2.1] * 3, [4.1] * 3], dtype=torch.float64)
    history = ramp(5, K=3)
    assert passing(history, values, quantile=0.5, min_entries=5).tolist() == [True, False, False]
    assert passing(history, values, quantile=1.0, min_entries=5).tolist() == [True, True, False]
    assert passing(history, values, quantile=0.5, min_entries=6).tolist() == [True, True, True]


@EXAMPLES
@given(st.integers(1, 60), st.integers(1, 5), st.sampled_from([0.3, 0.5, 0.7, 0.9]), st.integers(0, 2**16))
def test_filter_follows_numpy_quantile(entries, K, quantile, seed):
    random = np.random.default_rng(seed)
    history = random.normal(size=(entries, K, 3))
    values = random.normal(loc=-0.3, size=(K, 3))
    expected = []
    for k in range(K):
        refused = False
        for i in range(3):
            refused = refused or values[k, i] > np.quantile(history[:, k, i], quantile)
        expected.append(entries < 20 or not refused)
    passes = passing(torch.from_numpy(history), torch.from_numpy(values), quantile)
    assert passes.dtype == torch.bool
    assert passes.tolist() == expected


def test_share_that_passes_when_the_three_are_independent():
    """.7^3 = 34.3 % for independent values; 2,000 clusters: standard deviation .011, so within .04."""
    generator = torch.Generator().manual_seed(0)
    history = torch.rand(200, 2000, 3, generator=generator)
    passes = passing(history, torch.rand(2000, 3, generator=generator))
    assert abs(passes.double().mean().item() - 0.343) < 0.04
