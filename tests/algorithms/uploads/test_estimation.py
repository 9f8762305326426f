"""Distribution estimation of CDFL (its Algorithm 2) and CCFL (its Algorithm 1), and FedSoft's per-sample shares."""

import math

import pytest
import torch
from by_hand import check, vec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flcluster.algorithms.uploads.estimation import estimate_distribution, raw_scores, sample_shares

EXAMPLES = settings(deadline=None, max_examples=50, database=None)
NO_BARS = (0.0, 0.0, 0.0)
MIN_BARS = ("min", "min", "min")


def reference_scores(terms, c1, c2, bars, clamp):
    """The papers' pseudo-code as loops, plus the clamp and the uniform term of a zero sum."""
    K = len(terms[0])
    clamped = 0
    moved = []
    for term, bar in zip(terms, bars, strict=True):
        bar = min(term) if bar == "min" else bar
        row = []
        for value in term:
            value = value - bar
            if clamp and value < 0:
                value = 0.0
                clamped += 1
            row.append(value)
        moved.append(row)
    scores = []
    for k in range(K):
        score = 0.0
        for weight, row in zip((c1, c2, 1 - c1 - c2), moved, strict=True):
            whole = sum(row)
            others = sum(row[i] for i in range(K) if i != k)
            score += weight * ((K - 1) / K if clamp and whole < 1e-12 else others / whole)
        scores.append(score / (K - 1))
    return scores, clamped


def reference_softmax(scores, amplifier):
    powers = [math.exp(amplifier * score) for score in scores]
    return [power / sum(powers) for power in powers]


def reference_weights(terms, c1, c2, amplifiers, bars, clamp):
    weights, clamped = reference_scores(terms, c1, c2, bars, clamp)
    for amplifier in amplifiers:
        weights = reference_softmax(weights, amplifier)
    return weights, clamped


# On a grid of 1/64 every difference and sum of the inputs is exact, so that no tolerance has to hide cancellation.
grid = st.integers(0, 640).map(lambda i: i / 64)


@st.composite
def uploads(draw, smallest=2, largest=6):
    """Three lists l, d1, d2 of one length K."""
    K = draw(st.integers(smallest, largest))
    return [draw(st.lists(grid, min_size=K, max_size=K)) for _ in range(3)]


@st.composite
def coefficients(draw):
    """c1, c2 and 1 - c1 - c2 all in [0, 1]."""
    c1 = draw(st.floats(0, 1))
    return c1, draw(st.floats(0, 1)) * (1 - c1)


bars_strategy = st.tuples(*[st.one_of(st.just("min"), grid)] * 3)
amplifiers_strategy = st.lists(st.sampled_from([1.0, 3.0, 7.0, 10.0, 15.0]), min_size=1, max_size=3)


def tensors(terms):
    return [torch.tensor(term, dtype=torch.float64) for term in terms]


# ---------------------------------------------------------------------------------------------- raw scores


def test_raw_scores_by_hand():
    """
    K = 3, c = (.5, .25, .25), bars (1, 0, 0).
    l = (2, 3, 4) - 1 = (1, 2, 3), S = 6: (5, 4, 3)/6. d1 = (1, 1, 2), S = 4: (3, 3, 2)/4. d2 = (5, 0, 5), S = 10:
    (5, 10, 5)/10. a = 1/2 (.5*5/6 + .25*3/4 + .25/2, .5*4/6 + .25*3/4 + .25, .5*3/6 + .25*2/4 + .25/2)
      = 1/2 (20/48 + 9/48 + 6/48, 16/48 + 9/48 + 12/48, 12/48 + 6/48 + 6/48) = (35, 37, 24)/96.
    """
    scores, clamped = raw_scores(vec(2, 3, 4), vec(1, 1, 2), vec(5, 0, 5), c1=0.5, c2=0.25, bars=(1.0, 0.0, 0.0))
    check(scores, [35 / 96, 37 / 96, 24 / 96])
    assert clamped == 0


@pytest.mark.parametrize(
    ("c1", "c2", "expected"),
    [(1.0, 0.0, (0.75, 0.25)), (0.0, 1.0, (0.6, 0.4)), (0.0, 0.0, (0.1, 0.9))],
)
def test_each_coefficient_selects_its_own_term(c1, c2, expected):
    """K = 2: a = (x_2, x_1)/S. l = (1, 3): (.75, .25); d1 = (2, 3): (.6, .4); d2 = (9, 1): (.1, .9)."""
    scores, _ = raw_scores(vec(1, 3), vec(2, 3), vec(9, 1), c1=c1, c2=c2, bars=NO_BARS)
    check(scores, expected)


def test_each_bar_is_subtracted_from_its_own_term():
    """K = 2: l = (2, 3) - 1 = (1, 2), d1 = (3, 7) - 2 = (1, 5), d2 = (4, 12) - 3 = (1, 9)."""
    scores, _ = raw_scores(vec(2, 3), vec(3, 7), vec(4, 12), c1=0.25, c2=0.25, bars=(1.0, 2.0, 3.0))
    first = 0.25 * 2 / 3 + 0.25 * 5 / 6 + 0.5 * 9 / 10
    check(scores, [first, 1 - first])


@EXAMPLES
@given(uploads(), coefficients(), bars_strategy)
def test_raw_scores_follow_the_pseudo_code(terms, cs, bars):
    scores, clamped = raw_scores(*tensors(terms), c1=cs[0], c2=cs[1], bars=bars)
    expected, expected_clamped = reference_scores(terms, *cs, bars, True)
    check(scores, expected)
    assert clamped == expected_clamped


@EXAMPLES
@given(uploads(), coefficients(), st.tuples(grid, grid, grid))
def test_unclamped_raw_scores_follow_the_pseudo_code(terms, cs, bars):
    assume(all(sum(value - bar for value in term) != 0 for term, bar in zip(terms, bars, strict=True)))
    scores, clamped = raw_scores(*tensors(terms), c1=cs[0], c2=cs[1], bars=bars, clamp=False)
    expected, _ = reference_scores(terms, *cs, bars, False)
    check(scores, expected, 1e-10)  # single terms may be several thousand and cancel
    assert clamped == 0  # nothing was set to zero


@EXAMPLES
@given(uploads(), st.floats(-1, 2), st.floats(-1, 2), bars_strategy)
def test_raw_scores_sum_to_one_for_any_coefficients(terms, c1, c2, bars):
    scores, _ = raw_scores(*tensors(terms), c1=c1, c2=c2, bars=bars)
    assert scores.sum().item() == pytest.approx(1, abs=1e-12)


@EXAMPLES
@given(uploads(), coefficients(), st.tuples(grid, grid, grid))
def test_unclamped_raw_scores_sum_to_one(terms, cs, bars):
    assume(all(sum(value - bar for value in term) != 0 for term, bar in zip(terms, bars, strict=True)))
    scores, _ = raw_scores(*tensors(terms), c1=cs[0], c2=cs[1], bars=bars, clamp=False)
    assert scores.sum().item() == pytest.approx(1, abs=1e-9)  # single scores may be several thousand


@EXAMPLES
@given(uploads(), coefficients(), bars_strategy)
def test_clamped_raw_scores_stay_within_zero_and_one_over_k_minus_one(terms, cs, bars):
    scores, _ = raw_scores(*tensors(terms), c1=cs[0], c2=cs[1], bars=bars)
    assert scores.min().item() >= -1e-12
    assert scores.max().item() <= 1 / (len(terms[0]) - 1) + 1e-12


def test_range_is_attained():
    """K = 3: the best has x = 0 in every term: a = 1/2; x = (0, 0, 1) gives (1, 1, 0)/2."""
    scores, _ = raw_scores(vec(0, 0, 1), vec(0, 0, 2), vec(0, 0, 3), c1=0.3, c2=0.3, bars=NO_BARS)
    check(scores, [0.5, 0.5, 0.0])


# ---------------------------------------------------------------------------------------------- bars and clamp


def test_unclamped_negative_terms_invert_the_order():
    """
    l = (.5, 1), bar 8: x = (-7.5, -7), S = -14.5; a = (-7, -7.5)/-14.5 = (.483, .517): the worse cluster wins.
    """
    scores, clamped = raw_scores(vec(0.5, 1), vec(1, 1), vec(1, 1), c1=1.0, c2=0.0, bars=(8.0, 0.0, 0.0), clamp=False)
    check(scores, [7 / 14.5, 7.5 / 14.5])
    assert [round(score, 3) for score in scores.tolist()] == [0.483, 0.517]
    assert clamped == 0


def test_clamp_makes_all_negative_terms_uniform():
    """The same upload with the clamp: x = (0, 0), so that the term says nothing: (1/2, 1/2), two clamps."""
    scores, clamped = raw_scores(vec(0.5, 1), vec(1, 1), vec(1, 1), c1=1.0, c2=0.0, bars=(8.0, 0.0, 0.0))
    assert scores.tolist() == [0.5, 0.5]
    assert clamped == 2


def test_unclamped_mixed_signs_leave_the_unit_interval():
    """l = (7, 10), bar 8: x = (-1, 2), S = 1; a = (2, -1)."""
    scores, _ = raw_scores(vec(7, 10), vec(1, 1), vec(1, 1), c1=1.0, c2=0.0, bars=(8.0, 0.0, 0.0), clamp=False)
    check(scores, [2.0, -1.0])


def test_clamping_is_the_default_of_both_functions():
    """l = (7, 10), bar 8: x = (0, 2); a = (1, 0) and softmax(a) = (e, 1)/(e + 1)."""
    scores, clamped = raw_scores(vec(7, 10), vec(1, 1), vec(1, 1), c1=1.0, c2=0.0, bars=(8.0, 0.0, 0.0))
    check(scores, [1.0, 0.0])
    assert clamped == 1
    weights, clamped = estimate_distribution(
        vec(7, 10), vec(1, 1), vec(1, 1), c1=1.0, c2=0.0, amplifiers=[1.0], bars=(8.0, 0.0, 0.0)
    )
    check(weights, [math.e / (math.e + 1), 1 / (math.e + 1)])
    assert clamped == 1


def test_clamp_count_covers_all_terms_and_leaves_out_equality():
    """l = (7, 8, 9) with bar 8: one below; d1 = (1, 2, 3) with bar 2.5: two; d2 = (4, 5, 6) with bar 4: none."""
    _, clamped = raw_scores(vec(7, 8, 9), vec(1, 2, 3), vec(4, 5, 6), c1=0.5, c2=0.25, bars=(8.0, 2.5, 4.0))
    assert isinstance(clamped, int)
    assert clamped == 3


def test_min_bars_never_clamp():
    _, clamped = raw_scores(vec(7, 8, 9), vec(3, 2, 1), vec(4, 4, 6), c1=0.5, c2=0.25, bars=MIN_BARS)
    assert clamped == 0


def test_zero_sum_makes_only_its_own_term_uniform():
    """
    K = 3, c = (.5, .25, .25); d1 ties under `min`, so that its term is 2/3 for all. l = (1, 2, 3), S = 6: (5, 4, 3)/6;
    d2 = (0, 1, 3), S = 4: (4, 3, 1)/4.
    a = 1/2 (5/12 + 1/6 + 1/4, 4/12 + 1/6 + 3/16, 3/12 + 1/6 + 1/16) = (40, 33, 23)/96.
    """
    scores, clamped = raw_scores(vec(1, 2, 3), vec(4, 4, 4), vec(0, 1, 3), c1=0.5, c2=0.25, bars=(0.0, "min", 0.0))
    check(scores, [40 / 96, 33 / 96, 23 / 96])
    assert clamped == 0


@pytest.mark.parametrize("K", [2, 3, 4, 6])
def test_all_terms_without_information_give_uniform_weights(K):
    same = torch.full((K,), 2.5, dtype=torch.float64)
    weights, clamped = estimate_distribution(same, same, same, c1=0.5, c2=0.2, amplifiers=[10.0], bars=MIN_BARS)
    check(weights, [1 / K] * K)
    assert clamped == 0


def test_min_is_the_minimum_over_the_clusters_of_this_upload():
    """`min` is the same as handing the term's own minimum as a constant, for each term separately."""
    terms = vec(9, 7, 8), vec(0.5, 2, 0.25), vec(3, 4, 6)
    by_name, _ = raw_scores(*terms, c1=0.5, c2=0.2, bars=MIN_BARS)
    by_value, _ = raw_scores(*terms, c1=0.5, c2=0.2, bars=(7.0, 0.25, 3.0))
    assert torch.equal(by_name, by_value)


@EXAMPLES
@given(uploads(smallest=2, largest=2), coefficients())
def test_min_with_two_clusters_is_hard(terms, cs):
    """Each term is (1, 0) for the smaller of the two (a tie says nothing: 1/2)."""
    scores, _ = raw_scores(*tensors(terms), c1=cs[0], c2=cs[1], bars=MIN_BARS)
    first = 0.0
    for weight, (one, two) in zip((cs[0], cs[1], 1 - cs[0] - cs[1]), terms, strict=True):
        first += weight * (1.0 if one < two else 0.0 if one > two else 0.5)
    check(scores, [first, 1 - first])


def test_min_with_two_clusters_is_exactly_one_and_zero():
    scores, _ = raw_scores(vec(0.51, 0.52), vec(0.1, 9.0), vec(3.0, 3.1), c1=0.5, c2=0.25, bars=MIN_BARS)
    assert scores.tolist() == [1.0, 0.0]
    scores, _ = raw_scores(vec(0.52, 0.51), vec(9.0, 0.1), vec(3.1, 3.0), c1=0.5, c2=0.25, bars=MIN_BARS)
    assert scores.tolist() == [0.0, 1.0]


# ---------------------------------------------------------------------------------------------- amplified weights


@pytest.mark.parametrize("cs", [(0.5, 0.4), (0.6, 0.3), (0.0, 0.0)])
@pytest.mark.parametrize(
    ("K", "amplifiers", "best"),
    [
        (2, (3,), 0.953),
        (2, (1,), 0.731),
        (3, (3,), 0.514),
        (3, (7,), 0.742),
        (3, (10,), 0.859),
        (4, (7,), 0.420),
        (4, (10,), 0.503),
        (4, (15,), 0.638),
        (6, (10,), 0.230),
        (6, (15,), 0.267),
        (6, (10, 10), 0.299),
    ],
)
def test_weight_of_a_cluster_that_wins_every_term(K, amplifiers, best, cs):
    """The best has a = 1/(K-1), every other a = (K-2)/(K-1)^2; e.g. K = 2, A = 3: e^3/(e^3 + 1) = .953."""
    winner = K // 2
    terms = [torch.full((K,), other, dtype=torch.float64) for other in (9.0, 2.0, 30.0)]
    for term in terms:
        term[winner] /= 2
    weights, clamped = estimate_distribution(*terms, c1=cs[0], c2=cs[1], amplifiers=amplifiers, bars=MIN_BARS)
    assert round(weights[winner].item(), 3) == best
    rest = (1 - weights[winner].item()) / (K - 1)
    check(weights, [weights[winner].item() if k == winner else rest for k in range(K)])
    assert clamped == 0


@EXAMPLES
@given(uploads(), coefficients(), st.sampled_from([1.0, 3.0, 7.0, 10.0, 15.0]), bars_strategy)
def test_that_weight_is_a_ceiling(terms, cs, amplifier, bars):
    weights, _ = estimate_distribution(*tensors(terms), c1=cs[0], c2=cs[1], amplifiers=[amplifier], bars=bars)
    K = len(terms[0])
    best, other = 1 / (K - 1), (K - 2) / (K - 1) ** 2
    ceiling = 1 / (1 + (K - 1) * math.exp(amplifier * (other - best)))
    assert weights.max().item() <= ceiling + 1e-12


def test_estimate_by_hand():
    """
    K = 2, c = (.5, .4, .1), A = 3, bar 8. l = (9, 11) - 8 = (1, 3): (3/4, 1/4); d1 = (1, 4): (4/5, 1/5);
    d2 = (2, 3): (3/5, 2/5). a_1 = .375 + .32 + .06 = .755, a_2 = .245; weight 1/(1 + exp(-3 * .51)) = 1/(1 + e^-1.53).
    """
    weights, clamped = estimate_distribution(
        vec(9, 11), vec(1, 4), vec(2, 3), c1=0.5, c2=0.4, amplifiers=[3.0], bars=(8.0, 0.0, 0.0)
    )
    first = 1 / (1 + math.exp(-1.53))
    check(weights, [first, 1 - first])
    assert clamped == 0


@EXAMPLES
@given(uploads(), coefficients(), amplifiers_strategy, bars_strategy)
def test_estimate_follows_the_pseudo_code(terms, cs, amplifiers, bars):
    weights, clamped = estimate_distribution(*tensors(terms), c1=cs[0], c2=cs[1], amplifiers=amplifiers, bars=bars)
    expected, expected_clamped = reference_weights(terms, *cs, amplifiers, bars, True)
    check(weights, expected)
    assert clamped == expected_clamped
    assert weights.sum().item() == pytest.approx(1, abs=1e-12)


def test_unclamped_estimate_amplifies_the_inverted_scores():
    """a = (7, 7.5)/14.5; weight of the first 1/(1 + exp(10 * .5/14.5)) < 1/2, though its loss is the smaller."""
    weights, clamped = estimate_distribution(
        vec(0.5, 1), vec(1, 1), vec(1, 1), c1=1.0, c2=0.0, amplifiers=[10.0], bars=(8.0, 0.0, 0.0), clamp=False
    )
    first = 1 / (1 + math.exp(5 / 14.5))
    check(weights, [first, 1 - first])
    assert clamped == 0


def test_two_passes_are_two_softmaxes_in_order():
    """K = 2 hard: a = (1, 0). First pass with A: p = 1/(1 + e^-A); second with A': 1/(1 + e^(-A' (2p - 1)))."""
    terms = vec(1, 2), vec(1, 2), vec(1, 2)

    def by_hand(first, second):
        p = 1 / (1 + math.exp(-first))
        return 1 / (1 + math.exp(-second * (2 * p - 1)))

    for amplifiers in [(10.0, 10.0), (1.0, 3.0), (3.0, 1.0)]:
        weights, _ = estimate_distribution(*terms, c1=0.5, c2=0.2, amplifiers=amplifiers, bars=MIN_BARS)
        check(weights, [by_hand(*amplifiers), 1 - by_hand(*amplifiers)])
    assert abs(by_hand(1.0, 3.0) - by_hand(3.0, 1.0)) > 0.01  # so the loop above does tell the order


def test_a_huge_amplifier_does_not_overflow():
    weights, _ = estimate_distribution(vec(1, 2), vec(1, 2), vec(1, 2), c1=0.5, c2=0.2, amplifiers=[1e4], bars=MIN_BARS)
    assert weights.tolist() == [1.0, 0.0]


@EXAMPLES
@given(uploads(), coefficients(), amplifiers_strategy, bars_strategy, st.randoms(use_true_random=False))
def test_estimate_is_permutation_equivariant(terms, cs, amplifiers, bars, random):
    order = list(range(len(terms[0])))
    random.shuffle(order)
    options = {"c1": cs[0], "c2": cs[1], "amplifiers": amplifiers, "bars": bars}
    weights, clamped = estimate_distribution(*tensors(terms), **options)
    shuffled, shuffled_clamped = estimate_distribution(*[term[order] for term in tensors(terms)], **options)
    check(shuffled, weights[order])
    assert shuffled_clamped == clamped


@EXAMPLES
@given(uploads(), coefficients(), bars_strategy, st.integers(0, 2), st.sampled_from([1 / 16, 0.3, 3.0, 16.0]))
def test_estimate_does_not_depend_on_the_unit_of_a_term_and_its_bar(terms, cs, bars, which, factor):
    options = {"c1": cs[0], "c2": cs[1], "amplifiers": [7.0]}
    weights, clamped = estimate_distribution(*tensors(terms), bars=bars, **options)
    scaled = tensors(terms)
    scaled[which] = scaled[which] * factor
    scaled_bars = list(bars)
    if bars[which] != "min":
        scaled_bars[which] = bars[which] * factor
    again, again_clamped = estimate_distribution(*scaled, bars=tuple(scaled_bars), **options)
    check(again, weights, 1e-10)
    assert again_clamped == clamped


def test_batch_sum_with_bar_8_is_the_mean_with_bar_a_half():
    mean = vec(0.75, 1.25, 0.25)
    options = {"c1": 0.5, "c2": 0.25, "amplifiers": [3.0]}
    weights, clamped = estimate_distribution(mean, vec(1, 2, 3), vec(3, 2, 2), bars=(0.5, 0.0, 0.0), **options)
    summed, summed_clamped = estimate_distribution(
        16 * mean, 16 * vec(1, 2, 3), vec(3, 2, 2), bars=(8.0, 0.0, 0.0), **options
    )
    check(summed, weights)
    assert clamped == summed_clamped == 1


@EXAMPLES
@given(uploads(), coefficients(), amplifiers_strategy, bars_strategy, st.data())
def test_a_cluster_no_worse_in_every_term_weighs_no_less(terms, cs, amplifiers, bars, data):
    K = len(terms[0])
    better, worse = data.draw(st.permutations(range(K)))[:2]
    for term in terms:
        if term[better] > term[worse]:
            term[better], term[worse] = term[worse], term[better]
    weights, _ = estimate_distribution(*tensors(terms), c1=cs[0], c2=cs[1], amplifiers=amplifiers, bars=bars)
    assert weights[better].item() >= weights[worse].item() - 1e-12


@pytest.mark.parametrize("bars", [NO_BARS, MIN_BARS, (8.0, 0.0, 0.0)])
@pytest.mark.parametrize("clamp", [True, False])
def test_one_cluster_has_all_the_weight(bars, clamp):
    weights, _ = estimate_distribution(
        vec(2), vec(1), vec(3), c1=0.5, c2=0.2, amplifiers=[10.0], bars=bars, clamp=clamp
    )
    assert weights.tolist() == [1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_estimate_keeps_dtype_and_inputs(dtype):
    terms = [torch.tensor(term, dtype=dtype) for term in ([9.0, 7.0, 12.0], [1.0, 2.0, 3.0], [5.0, 4.0, 6.0])]
    copies = [term.clone() for term in terms]
    weights, _ = estimate_distribution(*terms, c1=0.5, c2=0.25, amplifiers=[7.0], bars=(8.0, "min", 0.0))
    assert weights.dtype == dtype
    expected, _ = reference_weights([c.tolist() for c in copies], 0.5, 0.25, [7.0], (8.0, "min", 0.0), True)
    check(weights, expected, 1e-12 if dtype == torch.float64 else 1e-6)
    for term, copy in zip(terms, copies, strict=True):
        assert torch.equal(term, copy)


# ---------------------------------------------------------------------------------------------- FedSoft's shares


def precise(result):
    return 1e-12 if result.dtype == torch.float64 else 1e-6


def test_sample_shares_by_hand():
    """Argmins (0, 1, 0, 0): counts (3, 1, 0), the empty cluster gets 1e-4 * 4; divided by 4.0004."""
    losses = torch.tensor([[0.1, 2.0, 0.3, 0.4], [0.2, 1.0, 0.5, 0.6], [0.3, 3.0, 0.4, 0.5]], dtype=torch.float64)
    shares = sample_shares(losses)
    check(shares, [3 / 4.0004, 1 / 4.0004, 0.0004 / 4.0004], precise(shares))


def test_sample_shares_without_an_empty_cluster_are_plain_counts():
    losses = torch.tensor([[1.0, 5.0, 5.0, 5.0], [2.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    shares = sample_shares(losses, sigma=0.5)
    check(shares, [0.25, 0.75], precise(shares))


def test_sample_shares_sigma():
    """K = 3, n = 2, sigma = .25: counts (2, 0, 0) become (2, .5, .5), divided by 3."""
    losses = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], dtype=torch.float64)
    shares = sample_shares(losses, sigma=0.25)
    check(shares, [2 / 3, 1 / 6, 1 / 6], precise(shares))


def test_sample_shares_of_one_cluster():
    shares = sample_shares(torch.tensor([[1.0, 2.0, 3.0]]))
    assert shares.tolist() == [1.0]


@EXAMPLES
@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 2**16), st.sampled_from([1e-4, 1e-2, 0.5]))
def test_sample_shares_follow_the_count(K, n, seed, sigma):
    losses = torch.rand(K, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    counts = [0.0] * K
    for sample in range(n):
        best = 0
        for k in range(1, K):
            if losses[k, sample].item() < losses[best, sample].item():
                best = k
        counts[best] += 1
    counts = [sigma * n if count == 0 else count for count in counts]
    shares = sample_shares(losses, sigma)
    check(shares, [count / sum(counts) for count in counts], precise(shares))
