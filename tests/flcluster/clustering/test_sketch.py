"""Features bound a concave kernel from below, however few they are, and come close where they are many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flcluster.clustering.sketch import shared_sketch

KERNELS = {
    "minimum": np.minimum,
    "harmonic mean": lambda a, b: a * b / np.maximum(a + b, 1e-300),
}


def shared(points, kernel):
    x = points.astype(np.float64)
    return kernel(x[:, None], x).sum(-1)


def bound(points, kernel, nodes, rank):
    mass, features = shared_sketch(points, kernel, nodes, rank)(points)
    assert mass.dtype == features.dtype == np.float32
    assert (mass > -1e-6).all()
    return features @ features.T - mass[:, None] - mass


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@given(
    points=hnp.arrays(np.float32, st.tuples(st.integers(1, 10), st.integers(1, 5)), elements=st.floats(0, 1, width=32)),
    nodes=st.integers(2, 12),
    data=st.data(),
)
@settings(deadline=None)
def test_it_is_a_lower_bound(kernel, points, nodes, data):
    """Also with fewer features than nodes."""
    rank = data.draw(st.integers(1, nodes))
    assert (bound(points, kernel, nodes, rank) <= shared(points, kernel) + 1e-5).all()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_what_the_features_leave_out_is_in_the_mass(kernel):
    """Points at the nodes alone: nothing is lost between them, so features of low rank overshoot without the mass."""
    points = np.random.default_rng(0).choice(np.float32([0, 0.1, 0.4, 1]), (40, 3))
    assert bound(points, kernel, 12, 12) == pytest.approx(shared(points, kernel), abs=1e-5)
    _, features = shared_sketch(points, kernel, 12, 1)(points)
    assert (features @ features.T > shared(points, kernel) + 1e-3).any()
    assert (bound(points, kernel, 12, 1) <= shared(points, kernel) + 1e-5).all()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_more_nodes_come_closer(kernel):
    points = np.random.default_rng(1).exponential(0.1, (60, 8)).astype(np.float32)
    gaps = [(shared(points, kernel) - bound(points, kernel, nodes, nodes)).mean() for nodes in (2, 4, 16)]
    assert gaps[0] > 1.5 * gaps[1] > 3 * gaps[2]
    assert gaps[2] < 0.02 * shared(points, kernel).mean()


def test_nothing_to_share():
    points = np.zeros((3, 4), np.float32)
    mass, features = shared_sketch(points, np.minimum, 3, 3)(points)
    assert not mass.any() and not features.any() and len(features) == 3
