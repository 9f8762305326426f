"""Final values and times to accuracy, by hand and against a plain loop."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.report.curves import final_value, own_time, time_to_accuracy

NAN = math.nan
CURVES = st.lists(st.tuples(st.floats(0, 10), st.sampled_from([0.1, 0.2, 0.3, NAN])), min_size=0, max_size=12)


def array(*values):
    return np.array(values, dtype=float)


@pytest.mark.parametrize(
    ("accuracies", "target", "time"),
    [
        ((0.1, 0.5, 0.6, 0.7), 0.5, 20),
        ((0.1, 0.5, 0.4, 0.7), 0.5, 40),  # touching it once is not enough
        ((0.6, 0.7, 0.7, 0.7), 0.5, 10),
        ((0.1, 0.5, 0.6, 0.4), 0.5, NAN),
        ((0.1, 0.5, NAN, 0.5), 0.5, 20),  # what was not measured does not count as below
        ((0.1, 0.2, 0.5, NAN), 0.5, 30),
        ((NAN, NAN, NAN, NAN), 0.5, NAN),
        ((0.6, 0.6, 0.6, 0.6), NAN, NAN),
    ],
)
def test_time_to_accuracy(accuracies, target, time):
    assert time_to_accuracy(array(10, 20, 30, 40), array(*accuracies), target) == pytest.approx(time, nan_ok=True)


@settings(deadline=None, max_examples=200, database=None)
@given(CURVES, st.sampled_from([0.1, 0.15, 0.2, 0.3, 0.4]))
def test_it_is_what_a_plain_loop_finds(curve, target):
    curve = sorted(curve, key=lambda point: point[0])
    known = [(t, a) for t, a in curve if not math.isnan(a)]
    stays = [t for i, (t, _) in enumerate(known) if all(a >= target for _, a in known[i:])]
    expected = stays[0] if stays else NAN
    found = time_to_accuracy(array(*(t for t, _ in curve)), array(*(a for _, a in curve)), target)
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_flat_curve_reaches_its_own_mean_whatever_the_rounding():
    """The mean of equal numbers may be off in the last bit."""
    for level in np.linspace(0.01, 0.99, 99):
        curve = np.full(7, level)
        assert time_to_accuracy(np.arange(7.0), curve, sum([level] * 5) / 5) == 0


def test_final_value_is_the_mean_of_the_last_measured_rows():
    assert final_value(array(9, 1, 2, 3, 4, 5)) == 3
    assert final_value(array(9, 1, NAN, 3, NAN), last=2) == 2
    assert final_value(array(1, 3), last=5) == 2
    assert math.isnan(final_value(array()))
    assert math.isnan(final_value(array(NAN)))


def test_a_baselines_own_time_is_the_end_if_it_ends_below_its_mean():
    times = array(0, 1, 2, 3)
    assert own_time(times, array(0.1, 0.4, 0.4, 0.4), 0.4) == 1
    assert own_time(times, array(0.1, 0.4, 0.5, 0.3), 0.4) == 3
    assert own_time(times, array(0.1, 0.5, 0.3, NAN), 0.4) == 2
    assert math.isnan(own_time(times, array(NAN, NAN, NAN, NAN), 0.4))
