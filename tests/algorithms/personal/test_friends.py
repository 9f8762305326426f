"""AP-FL's formulas for models: numbers worked out by hand, and what must hold whatever the numbers."""

import csv
import io
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms import APFL
from flcluster.algorithms.personal.fedasync import fedasync_step
from flcluster.algorithms.personal.friends import (
    SHARES,
    even_labels,
    friend_labels,
    friend_share,
    interpolated,
    sweep_table,
)


def rows(seed=0, width=40):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(2, width))).float()


# ------------------------------------------------------------------------------------------------- (1 − λ) θ_k + λ θ_f


def test_a_tenth_of_the_friend_by_hand():
    client, friend = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([3.0, 8.0, 0.5])
    assert interpolated(client, friend, 0.1).tolist() == pytest.approx([1.2, -1.0, 0.05])
    assert interpolated(client, friend, 0.9).tolist() == pytest.approx([2.8, 7.0, 0.45])


def test_the_ends_are_the_models_themselves():
    """Bit for bit, also where floating point would lose the small one beside the large; and as copies."""
    client, friend = torch.tensor([1e-20, 1e30, 0.1]), torch.tensor([1e20, -1e-30, 0.3])
    for share, model in ((0.0, client), (1.0, friend)):
        found = interpolated(client, friend, share)
        assert torch.equal(found, model)
        found += 1
        assert not torch.equal(found, model)


def test_one_of_them_may_be_broken_if_it_has_no_share():
    broken = torch.full((3,), math.nan)
    assert torch.equal(interpolated(torch.ones(3), broken, 0.0), torch.ones(3))
    assert torch.equal(interpolated(broken, torch.ones(3), 1.0), torch.ones(3))


@given(st.floats(0, 1), st.integers(0, 10**6), st.floats(-100, 100))
@settings(max_examples=60, deadline=None)
def test_it_is_linear_whatever_the_scale_and_the_order(share, seed, scale):
    """As NumPy has it in float64; scaled models scale, and numbers in another order come out in that order."""
    client, friend = rows(seed)
    found = interpolated(client, friend, share)
    expected = (1 - share) * client.double().numpy() + share * friend.double().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    scaled = interpolated(scale * client, scale * friend, share)
    np.testing.assert_allclose(scaled, scale * expected, rtol=1e-5, atol=2e-6 * (1 + abs(scale)))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(client)))
    assert torch.equal(interpolated(client[order], friend[order], share), found[order])
    torch.testing.assert_close(interpolated(friend, client, 1 - share), found, rtol=1e-4, atol=2e-6)


@given(st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_equal_models_stay_what_they_are(share):
    client, _ = rows()
    torch.testing.assert_close(interpolated(client, client, share), client, rtol=1e-6, atol=1e-6)


def test_arguments_are_left_alone():
    client, friend = rows()
    before = client.clone(), friend.clone()
    for share in SHARES:
        interpolated(client, friend, share)
    assert torch.equal(client, before[0])
    assert torch.equal(friend, before[1])


@pytest.mark.parametrize(("coefficient", "share"), [(0.01, 0.99), (0.1, 0.9), (0.0, 1.0), (1.0, 0.0), (0.5, 0.5)])
def test_what_lambda_is_the_share_of(coefficient, share):
    """The friend's by the paper's text; the client's by its equation, so that .01 means 99 % friend."""
    assert friend_share(coefficient, "friend") == coefficient
    assert friend_share(coefficient, "literal") == pytest.approx(share)


def test_every_run_tries_these_shares():
    assert SHARES == (0, 0.01, 0.1, 0.5, 0.9, 0.99, 1)


@pytest.mark.parametrize("coefficient", [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("reading", ["friend", "literal"])
def test_a_usual_share_is_not_tried_twice(coefficient, reading):
    """Either reading of any usual λ is one of the seven shares; another λ is tried besides."""
    assert APFL(interpolation=coefficient, reading=reading).shares == SHARES


def test_another_share_is_tried_besides():
    found = APFL(interpolation=0.3, reading="literal").shares
    assert found == pytest.approx((0, 0.01, 0.1, 0.5, 0.7, 0.9, 0.99, 1))


# ------------------------------------------------------------------------------------------------- what a friend learns


def drawn(counts, per_class):
    labels = friend_labels(np.array(counts, dtype=np.int64), per_class)
    assert labels.dtype == torch.int64
    return torch.bincount(labels, minlength=len(counts)).tolist()


@pytest.mark.parametrize(
    ("counts", "per_class", "expected"),
    [
        ([30, 0, 10], 10, [15, 0, 5]),
        ([5, 5, 5], 600, [600, 600, 600]),
        ([0, 0, 7, 0], 600, [0, 0, 600, 0]),
        ([1, 1, 1, 0], 1, [1, 1, 1, 0]),
        ([2, 1, 0], 5, [7, 3, 0]),  # 20/3 and 10/3: the larger remainder gets what is left
        ([1, 2, 4], 3, [1, 3, 5]),  # 9/7, 18/7 and 36/7: the second remainder is the largest
        ([999, 1], 10, [20, 0]),
        ([0, 0], 10, [0, 0]),
    ],
)
def test_labels_by_hand(counts, per_class, expected):
    assert drawn(counts, per_class) == expected


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30), st.integers(1, 700))
@settings(max_examples=200, deadline=None)
def test_labels_have_the_clients_own_mix(counts, per_class):
    """Exactly ``per_class`` for each class that is held, each class within one of its share, none that is not held."""
    found = drawn(counts, per_class)
    total = per_class * sum(count > 0 for count in counts)
    assert sum(found) == total
    for count, number in zip(counts, found, strict=True):
        if count == 0:
            assert number == 0
        else:
            assert abs(number - Fraction(total * count, sum(counts))) < 1


def test_labels_of_all_classes_alike():
    assert torch.bincount(even_labels(4, 600)).tolist() == [600] * 4
    assert even_labels(2, 3).dtype == torch.int64


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(1, 50), st.integers(2, 9))
@settings(max_examples=60, deadline=None)
def test_only_the_shares_of_the_labels_matter(counts, per_class, times):
    """Twice the data in the same mix want the same samples; more data of a class never fewer samples of it."""
    found = drawn(counts, per_class)
    assert drawn([times * count for count in counts], per_class) == found
    for i, a in enumerate(counts):
        for j, b in enumerate(counts):
            assert not (a > b and found[i] < found[j])


# ------------------------------------------------------------------------------------------------------------ FedAsync


@pytest.mark.parametrize(
    ("staleness", "moved"), [(0, 0.6), (1, 0.6 / math.sqrt(2)), (3, 0.3), (8, 0.2), (35, 0.1), (99, 0.06)]
)
def test_a_stale_upload_moves_the_model_less(staleness, moved):
    """η_s = .6 (1 + s)^−1/2."""
    found = fedasync_step(torch.zeros(3), torch.tensor([1.0, -10.0, 0.0]), staleness, lr=0.6, exponent=0.5)
    assert found.tolist() == pytest.approx([moved, -10 * moved, 0])
    back = fedasync_step(torch.tensor([1.0]), torch.zeros(1), staleness, lr=0.6, exponent=0.5)
    assert float(back) == pytest.approx(1 - moved)


def test_steps_of_other_settings_by_hand():
    model, upload = torch.tensor([2.0]), torch.tensor([4.0])
    assert float(fedasync_step(model, upload, 0, lr=1.0, exponent=0.5)) == 4
    assert float(fedasync_step(model, upload, 7, lr=0.25, exponent=0.0)) == pytest.approx(2.5)
    assert float(fedasync_step(model, upload, 3, lr=1.0, exponent=1.0)) == pytest.approx(2.5)
    assert float(fedasync_step(model, upload, 3, lr=1.0, exponent=2.0)) == pytest.approx(2 + 2 / 16)
    assert (float(model), float(upload)) == (2, 4)


@given(st.integers(0, 1000), st.floats(0.01, 1), st.floats(0, 3), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_a_step_stays_between_the_two_models(staleness, lr, exponent, seed):
    model, upload = rows(seed)
    found = fedasync_step(model, upload, staleness, lr, exponent).double()
    share = lr * (1 + staleness) ** -exponent
    expected = (1 - share) * model.double() + share * upload.double()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert (found <= torch.maximum(model, upload).double() + 1e-6).all()
    assert (found >= torch.minimum(model, upload).double() - 1e-6).all()


# ----------------------------------------------------------------------------------------------------------- the sweep


def test_the_table_of_a_sweep():
    """One row per client and share; numbers come back as they were, and what is not known is left out."""
    third = 1 / 3
    sweep = torch.tensor(
        [
            [[0.1, third], [0.2, 0.5]],
            [[math.nan, math.nan], [math.nan, math.nan]],  # not yet done
            [[0.25, math.nan], [math.nan, 1.0]],  # without local tests; without a global one
        ],
        dtype=torch.float64,
    )
    text = sweep_table(sweep, (0.0, 0.99), dropouts=[2])
    assert text.splitlines()[0] == "client,dropout,friend_share,acc_global,acc_local"
    found = list(csv.DictReader(io.StringIO(text)))
    assert [(r["client"], r["dropout"], float(r["friend_share"])) for r in found] == [
        ("0", "0", 0),
        ("0", "0", 0.99),
        ("2", "1", 0),
        ("2", "1", 0.99),
    ]
    assert (float(found[0]["acc_global"]), float(found[0]["acc_local"])) == (0.1, third)
    assert (found[2]["acc_global"], found[2]["acc_local"]) == ("0.25", "")
    assert (found[3]["acc_global"], found[3]["acc_local"]) == ("", "1.0")
