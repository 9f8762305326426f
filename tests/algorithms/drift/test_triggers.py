"""Triggers, and the rules for Δ: by hand, and against the paper's counts of re-clusterings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonargparse import ArgumentParser

from flcluster.algorithms.drift.triggers import (
    CentreShift,
    DeltaRule,
    FixedDelta,
    HoldOnSingle,
    PairDistance,
    PrintedRule,
    Trigger,
)
from flcluster.clustering.distances import L1, L2, JensenShannon
from flcluster.errors import UserError

POINTS = np.array([[1, 0, 0], [0.75, 0.25, 0], [0.5, 0.5, 0], [0, 0, 1], [0, 0.25, 0.75]], np.float32)
LABELS = np.array([0, 0, 0, 1, 1])
CENTRES = np.array([[0.75, 0.25, 0], [0, 0.125, 0.875]], np.float32)


def fires(trigger, delta, points=POINTS, labels=LABELS, before=CENTRES, now=CENTRES, distance=None, seed=0, event=0):
    return trigger.fires(points, labels, before, now, delta, distance or L1(), seed, event)


def simulate(rule, events, largest=2.0):
    """Count re-clusterings if every event with Δ below a constant distance triggers."""
    delta, fired_before, count = rule.initial, False, 0
    for _ in range(events):
        fired = delta < largest
        delta = rule.update(delta, fired, fired_before)
        fired_before = fired
        count += fired
    return count


@pytest.mark.parametrize(
    ("rule", "events", "counts"),
    [
        (PrintedRule, 1000, [662, 203, 106, 73, 58]),
        (PrintedRule, 950, [629, 193, 100, 71, 56]),
        (HoldOnSingle, 1000, [519, 177, 96, 69, 54]),
        (HoldOnSingle, 950, [494, 169, 92, 65, 52]),
    ],
)
def test_the_number_of_reclusterings(rule, events, counts):
    """Some pair is always at the largest distance 2: Δ is a timer. The paper counts 479, 177, 92, 65 and 52."""
    assert [simulate(rule(c=0.1, m=m), events) for m in (1.1, 1.5, 2.0, 2.5, 3.0)] == counts


@pytest.mark.parametrize(
    ("rule", "fired", "fired_before", "expected"),
    [
        (PrintedRule(), True, True, 1.0),
        (PrintedRule(), True, False, 0.4),
        (PrintedRule(), False, True, 0.4),
        (PrintedRule(), False, False, 0.4),
        (HoldOnSingle(), True, True, 1.0),
        (HoldOnSingle(), True, False, 0.5),
        (HoldOnSingle(), False, True, 0.4),
        (HoldOnSingle(), False, False, 0.4),
        (PrintedRule(c=0.2, m=3.0), True, True, 1.5),
        (PrintedRule(c=0.3, m=3.0), False, False, 0.3),
        (HoldOnSingle(c=0.3, m=3.0), False, False, 0.3),
        (FixedDelta(0.5), True, True, 0.5),
    ],
)
def test_one_step(rule, fired, fired_before, expected):
    assert rule.update(0.5, fired, fired_before) == pytest.approx(expected)


@pytest.mark.parametrize("rule", [PrintedRule(c=0.25), HoldOnSingle(c=0.25), FixedDelta(0.25)], ids=repr)
def test_the_start(rule):
    assert rule.initial == 0.25


@given(history=st.lists(st.booleans(), max_size=60), c=st.floats(0.01, 1), m=st.floats(1.01, 4))
def test_delta_never_falls_below_c(history, c, m):
    """And the two rules differ only after single triggers."""
    for rule in (PrintedRule(c, m), HoldOnSingle(c, m)):
        delta, before = rule.initial, False
        for fired in history:
            after = rule.update(delta, fired, before)
            assert after >= c
            assert (after > delta) == (fired and before)
            delta, before = after, fired
    for fired, before in ((True, True), (False, True), (False, False)):
        assert PrintedRule(c, m).update(0.7, fired, before) == HoldOnSingle(c, m).update(0.7, fired, before)


def test_any_pair():
    """The largest same-cluster distance is 1.0 (first and third), across clusters it is 2."""
    assert fires(PairDistance(), 0.9) is True
    assert fires(PairDistance(), 1.0) is False
    assert fires(PairDistance(), 0.0, labels=np.arange(5)) is False
    assert fires(PairDistance(), 1.9, labels=np.zeros(5, np.int64)) is True
    assert fires(PairDistance(), math.inf) is False


def test_a_quantile_of_the_pairs():
    """Same-cluster distances are .5, 1, .5 and .5; quantiles are interpolated between the two largest."""
    assert fires(PairDistance(quantile=0.5), 0.49) is True
    assert fires(PairDistance(quantile=0.5), 0.5) is False
    assert fires(PairDistance(quantile=0.9), 0.84) is True  # .5 + .7 · .5 = .85
    assert fires(PairDistance(quantile=0.9), 0.86) is False
    assert fires(PairDistance(quantile=0.9), 0.0, labels=np.arange(5)) is False


def test_a_sampled_quantile():
    draw = np.random.default_rng(0)
    points, labels = draw.dirichlet(np.ones(5), 300).astype(np.float32), draw.integers(2, size=300)
    pairs = L1().between(points, points)[np.triu_indices(300, 1)]
    same = (labels[:, None] == labels)[np.triu_indices(300, 1)]
    q95 = float(np.quantile(pairs[same], 0.95))
    trigger = PairDistance(quantile=0.95, sample=2000)
    assert fires(trigger, q95 - 0.05, points, labels) and not fires(trigger, q95 + 0.05, points, labels)
    close = [fires(trigger, q95, points, labels, seed=seed) for seed in range(20)]
    assert set(close) == {True, False}  # it is a sample
    assert close == [fires(trigger, q95, points, labels, seed=seed) for seed in range(20)]


def test_disjoint_histograms_do_not_pass_the_maximum():
    """Rounding may put them at 2.0000002."""
    draw = np.random.default_rng(1)
    points = np.zeros((40, 20), np.float32)
    points[:20, :10], points[20:, 10:] = draw.dirichlet(np.ones(10), 20), draw.dirichlet(np.ones(10), 20)
    points *= np.float32(1 + 2e-7)  # rounding rarely does it, this always
    labels = np.zeros(40, np.int64)
    for quantile in (0.99, 1.0):
        assert fires(PairDistance(quantile), 1.999, points, labels) is True
        assert fires(PairDistance(quantile), 2.0, points, labels) is False
    assert fires(CentreShift(), 2.0, before=points[:20], now=points[20:]) is False


def test_centre_shift():
    now = np.array([[0.75, 0.25, 0], [0, 0.375, 0.625]], np.float32)
    assert fires(CentreShift(), 0.49, now=now) is True
    assert fires(CentreShift(), 0.5, now=now) is False
    assert fires(CentreShift(), 0.35, now=now, distance=L2()) is True
    assert fires(CentreShift(), 0.36, now=now, distance=L2()) is False
    assert fires(CentreShift(), 0.0) is False
    assert fires(CentreShift(), 0.99, now=CENTRES[::-1], distance=JensenShannon()) is False


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrintedRule(c=0.0), "c is 0"),
        (lambda: HoldOnSingle(m=1.0), "m is 1"),
        (lambda: PrintedRule(m=math.inf), "m is inf"),
        (lambda: FixedDelta(-1.0), "delta is -1"),
        (lambda: FixedDelta(math.nan), "delta is nan"),
        (lambda: PairDistance(quantile=0.0), "quantile is 0"),
        (lambda: PairDistance(quantile=1.5), "quantile is 1.5"),
        (lambda: PairDistance(sample=0), "sample is 0"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_configured_by_class_path():
    parser = ArgumentParser()
    parser.add_argument("--trigger", type=Trigger)
    parser.add_argument("--rule", type=DeltaRule)
    given = parser.parse_object(
        {
            "trigger": {
                "class_path": "flcluster.algorithms.drift.triggers.PairDistance",
                "init_args": {"quantile": 0.95},
            },
            "rule": {"class_path": "flcluster.algorithms.drift.triggers.HoldOnSingle", "init_args": {"m": 1.5}},
        }
    )
    made = parser.instantiate(given)
    assert (made.trigger, made.rule) == (PairDistance(0.95), HoldOnSingle(m=1.5))
