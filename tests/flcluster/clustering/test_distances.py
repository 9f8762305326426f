"""Distances against SciPy and by hand, in blocks of any size; and that a sketch bounds them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial import distance as scipy_distance

from flcluster.clustering.distances import L1, L2, JensenShannon, spans

DISTANCES = [L1(), JensenShannon(), JensenShannon(squared=True), L2()]


def histograms(n, dims, seed, zeros=0.5):
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, 20, (n, dims)) * (draw.random((n, dims)) > zeros)
    counts[:, draw.integers(dims)] += 1
    return (counts / counts.sum(1, keepdims=True)).astype(np.float32)


def truth(distance, p, q):
    """SciPy's value for two vectors, in double precision."""
    p, q = p.astype(np.float64), q.astype(np.float64)
    if isinstance(distance, L1):
        return scipy_distance.cityblock(p, q)
    if isinstance(distance, L2):
        return scipy_distance.euclidean(p, q)
    root = np.nan_to_num(scipy_distance.jensenshannon(p, q, base=2))
    return root**2 if distance.squared else root


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize(("n", "m", "dims"), [(7, 5, 3), (4, 30, 12), (30, 4, 12), (1, 1, 1)])
@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.9])
def test_against_scipy(distance, n, m, dims, zeros):
    """Few rows or many, sparse or dense: Jensen-Shannon takes another way each time."""
    x, y = histograms(n, dims, 1, zeros), histograms(m, dims, 2, zeros)
    expected = [[truth(distance, p, q) for q in y] for p in x]
    found = distance.between(x, y)
    assert found.dtype == np.float32
    # SciPy normalises anew before it compares, which matters by a rounding of the square root
    assert found == pytest.approx(np.array(expected), abs=3e-4 if isinstance(distance, JensenShannon) else 1e-6)
    rows = min(n, m)
    assert distance.paired(x[:rows], y[:rows]) == pytest.approx(np.diag(found), abs=1e-7)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_blocks_do_not_matter(distance, monkeypatch):
    x, y = histograms(40, 6, 3), histograms(33, 6, 4)
    whole = distance.between(x, y), distance.paired(x[:33], y)
    monkeypatch.setattr(type(distance), "cells", 50)
    assert np.array_equal(distance.between(x, y), whole[0]) or isinstance(distance, L2)
    assert distance.between(x, y) == pytest.approx(whole[0], abs=1e-7)
    assert np.array_equal(distance.paired(x[:33], y), whole[1])


def test_by_hand():
    p, q = np.array([[0.5, 0.5, 0.0]], np.float32), np.array([[0.5, 0.25, 0.25]], np.float32)
    assert L1().between(p, q).item() == 0.5
    assert L2().between(p, q).item() == pytest.approx(math.sqrt(2) / 4, rel=1e-7)
    # m = (1/2, 3/8, 1/8): KL(p|m) = log2(4/3)/2, KL(q|m) = log2(2/3)/4 + 1/4
    divergence = (math.log2(4 / 3) / 2 + math.log2(2 / 3) / 4 + 1 / 4) / 2
    assert JensenShannon(squared=True).between(p, q).item() == pytest.approx(divergence, rel=1e-6)
    assert JensenShannon().between(p, q).item() == pytest.approx(math.sqrt(divergence), rel=1e-6)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_the_maximum_is_reached_and_equal_points_are_at_zero(distance):
    apart = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    if isinstance(distance, L2):
        apart = np.array([[0.6, 0.8], [-0.6, -0.8]], np.float32)
    assert distance.between(apart, apart)[0, 1] == pytest.approx(distance.maximum, abs=1e-6)
    points = histograms(60, 30, 7)
    assert np.diag(distance.between(points, points)).max() < 1e-7
    assert distance.paired(points, points.copy()).max() < 1e-7


@pytest.mark.parametrize("distance", [L1(), L2()], ids=repr)
def test_small_differences_far_from_the_origin(distance):
    """A product of matrices in single precision would return noise here."""
    x = np.full((1, 50), 100.0, np.float32)
    y = x.copy()
    y[0, 3] += np.float32(0.01)
    assert distance.between(x, y).item() == pytest.approx(0.01, rel=1e-2)


def test_near_equal_histograms():
    x = np.full((1, 100), 0.01, np.float32)
    y = x.copy()
    y[0, 0], y[0, 1] = 0.0101, 0.0099
    assert JensenShannon().between(x, y).item() == pytest.approx(truth(JensenShannon(), x[0], y[0]), rel=1e-2)
    assert JensenShannon().paired(x, y).item() > 1e-4


@given(length=st.integers(0, 50), width=st.integers(0, 20), cells=st.integers(1, 100))
def test_spans(length, width, cells):
    parts = list(spans(length, width, cells))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(length))
    assert all((part.stop - part.start) * width <= max(cells, width) for part in parts)


def test_the_square_root_is_the_metric_of_the_divergence():
    points = histograms(20, 5, 9)
    squared = JensenShannon(squared=True)
    assert (squared.power, JensenShannon().power, L1().power) == (2, 1, 1)
    root = squared.metric.between(points, points)
    assert squared.between(points, points) == pytest.approx(root**squared.power, abs=1e-6)


@pytest.mark.parametrize("metric", [L1(), JensenShannon(), L2()], ids=repr)
@given(
    points=hnp.arrays(np.float32, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.floats(0, 1, width=32))
)
@settings(deadline=None)
def test_a_sketch_bounds_every_distance(metric, points):
    mass, features = metric.sketch(points)(points)
    bound = mass[:, None] + mass - features @ features.T
    assert (bound >= metric.between(points, points) ** metric.order - 1e-5).all()


@pytest.mark.parametrize(("metric", "gap"), [(L1(), 0.02), (JensenShannon(), 0.002), (L2(), 1e-5)], ids=repr)
def test_a_sketch_is_close(metric, gap):
    """Loose bounds would be right, and useless."""
    points = histograms(50, 100, 5, zeros=0.8)
    mass, features = metric.sketch(points)(points)
    excess = mass[:, None] + mass - features @ features.T - metric.between(points, points) ** metric.order
    assert features.dtype == np.float32
    assert excess[np.triu_indices(50, 1)].mean() < gap


def test_a_sketch_of_equal_points_is_exact():
    points = np.full((3, 4), 0.25, np.float32)
    for metric in (L1(), JensenShannon(), L2()):
        mass, features = metric.sketch(points)(points)
        assert mass[:, None] + mass - features @ features.T == pytest.approx(np.zeros((3, 3)), abs=1e-6)
