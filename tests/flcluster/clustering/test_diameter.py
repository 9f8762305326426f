"""The largest distance within clusters against all pairs, and samples of pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import flcluster.clustering.diameter as module
from flcluster.clustering.diameter import any_pair_beyond, max_pair_distance, pair_sample
from flcluster.clustering.distances import L1, L2, JensenShannon

DISTANCES = [L1(), JensenShannon(), JensenShannon(squared=True), L2()]


def same_cluster(points, labels, distance):
    """All distances of pairs in one cluster."""
    i, j = np.triu_indices(len(points), 1)
    same = labels[i] == labels[j]
    return distance.between(points, points)[i[same], j[same]].astype(np.float64)


def histograms(n, dims, seed, spread=1.0, shared=0.0):
    """Many labels each; ``shared`` is what all have in common, so that no two are at the maximum."""
    points = np.random.default_rng(seed).dirichlet(np.full(dims, spread), n)
    return ((1 - shared) * points + shared / dims).astype(np.float32)


@st.composite
def cases(draw):
    """Counts over few labels (ties, duplicates, disjoint ones), clusters of any size."""
    n, dims = draw(st.integers(1, 20)), draw(st.integers(1, 5))
    row = st.lists(st.integers(0, 6), min_size=dims, max_size=dims).filter(any)
    counts = np.array(draw(st.lists(row, min_size=n, max_size=n)), dtype=np.float64)
    labels = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    return (counts / counts.sum(1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@given(case=cases(), limit=st.floats(-0.5, 2.5), rank=st.integers(0, 10), data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_pair_beyond(distance, case, limit, rank, data):
    """Against all pairs; also for limits at, just below and just above the distances that there are."""
    points, labels = case
    pairs = np.sort(same_cluster(points, labels, distance))[::-1]
    limits = [limit]
    if len(pairs):
        at = float(pairs[min(rank, len(pairs) - 1)])
        limits += [at, at - 1e-5, at + 1e-5, float(pairs[0]), float(pairs[0]) - 1e-5, float(pairs[0]) + 1e-5]
    order = np.array(data.draw(st.permutations(range(len(points)))))
    for each in limits:
        expected = bool((pairs > each + 5e-6).any())
        if bool((pairs > each + 1e-7).any()) == expected:  # else it is a matter of rounding
            assert any_pair_beyond(points, labels, each, distance) is expected
            assert any_pair_beyond(points[order], labels[order], each, distance) is expected
    assert max_pair_distance(points, labels, distance) == pytest.approx(pairs.max(initial=0.0), abs=3e-6)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize(("spread", "shared"), [(0.1, 0.0), (0.1, 0.3), (1.0, 0.0), (30.0, 0.0)])
@pytest.mark.parametrize("tile", [64, 2048])
def test_many_points(distance, spread, shared, tile, monkeypatch):
    """Several tiles and strips; the limits lie around the largest distances, where sweeps and bounds fail."""
    monkeypatch.setattr(module, "_TILE", tile)
    monkeypatch.setattr(module, "_STRIP", 24)
    monkeypatch.setattr(module, "_PAIRS", 10)
    points = histograms(300, 12, 3, spread, shared)
    labels = np.random.default_rng(0).integers(2, size=300)
    pairs = np.sort(same_cluster(points, labels, distance))[::-1]
    for rank in (0, 1, 5, 50, 5000):
        for shift in (-1e-5, 1e-5):
            limit = pairs[rank] + shift
            assert any_pair_beyond(points, labels, limit, distance) is bool((pairs > limit).any())
    assert max_pair_distance(points, labels, distance) == pytest.approx(pairs[0], abs=2e-6)


def test_without_a_lucky_sweep(monkeypatch):
    """The search alone finds the one pair that is beyond, wherever it is."""
    monkeypatch.setattr(module, "_sweep", lambda points, metric: -1.0)
    monkeypatch.setattr(module, "_TILE", 64)
    for seed in range(20):
        points = histograms(200, 6, seed)
        labels = np.random.default_rng(seed).integers(3, size=200)
        pairs = np.sort(same_cluster(points, labels, L1()))
        between = (pairs[-1] + pairs[-2]) / 2
        assert any_pair_beyond(points, labels, between, L1()) == (pairs[-1] - pairs[-2] > 4e-6)
        assert not any_pair_beyond(points, labels, pairs[-1], L1())
        assert max_pair_distance(points, labels, L1()) == pytest.approx(pairs[-1], abs=2e-6)


@pytest.mark.parametrize("metric", [L1(), JensenShannon(), L2()], ids=repr)
@pytest.mark.parametrize("share", [-1.0, 0.0, 0.5, 1.2, 1.9])
def test_tiles_cover_all_open_pairs(metric, share, monkeypatch):
    """Every pair whose distances from the centre sum to more than the limit is in a tile, under a valid bound."""
    monkeypatch.setattr(module, "_TILE", 64)
    monkeypatch.setattr(module, "_STRIP", 24)
    points = histograms(150, 6, 4)
    radii = metric.between(points, points.mean(0, keepdims=True))[:, 0]
    points, radii = points[np.argsort(-radii)], np.sort(radii)[::-1]
    limit = share * float(radii.mean())
    number = {point.tobytes(): i for i, point in enumerate(points)}
    covered = set()
    for x, y, bound in module._tiles(points, radii, limit, metric):
        assert (bound >= metric.between(x, y) ** metric.order).all()
        covered |= {frozenset((number[p.tobytes()], number[q.tobytes()])) for p in x for q in y}
    needed = {frozenset((i, j)) for i in range(150) for j in range(i) if radii[i] + radii[j] > limit + 1e-6}
    assert needed <= covered
    assert len(covered) <= len(needed) + 24 * 150  # and little else


def test_few_distances_are_computed(monkeypatch):
    """No limit near the largest distance costs all pairs: 3,000 points have 4.5 million."""
    points = histograms(3000, 100, 1, spread=0.1, shared=0.3)
    labels = np.zeros(3000, np.int64)
    computed = 0

    def count(method):
        def counted(self, x, y):
            nonlocal computed
            out = method(self, x, y)
            computed += out.size
            return out

        return counted

    monkeypatch.setattr(L1, "between", count(L1.between))
    monkeypatch.setattr(L1, "paired", count(L1.paired))
    largest = max_pair_distance(points, labels, L1())
    assert largest < 1.9
    for limit in (0.1, largest - 1e-3, largest + 1e-3, 2.0):
        assert any_pair_beyond(points, labels, limit, L1()) == (limit < largest)
    assert computed < 300_000


def test_at_once(monkeypatch):
    """The maximum and the two largest distances from the centre settle it without any search."""
    monkeypatch.setattr(module, "_tiles", None)
    points = np.eye(3, dtype=np.float32)
    assert not any_pair_beyond(points, np.zeros(3, np.int64), 2.0, L1())
    assert not any_pair_beyond(points, np.zeros(3, np.int64), 2.0 - 4e-16, L1())
    assert not any_pair_beyond(points, np.arange(3), 0.0, L1())
    near = (points * 0.1 + 0.3).astype(np.float32)
    assert not any_pair_beyond(near, np.zeros(3, np.int64), 0.5, L1())
    assert any_pair_beyond(points, np.zeros(3, np.int64), 1.9, L1())


def test_rounding_does_not_trigger():
    """Thirds and sevenths do not add up to 1: two disjoint histograms may be at 2.0000002."""
    points = np.array([[1 / 3, 2 / 3, 0, 0], [0, 0, 3 / 7, 4 / 7]], np.float32)
    assert not any_pair_beyond(points, np.zeros(2, np.int64), 2.0, L1())
    points = np.array([[1 / 3, 2 / 3], [2 / 3, 1 / 3]], np.float32)
    assert not any_pair_beyond(points, np.zeros(2, np.int64), 2 / 3, L1())
    assert any_pair_beyond(points, np.zeros(2, np.int64), 2 / 3 - 1e-5, L1())


# ------------------------------------------------------------------------------------------------------ samples


def test_a_sample_of_all_pairs():
    points = histograms(12, 4, 2)
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 3])
    for distance in DISTANCES:
        found = pair_sample(points, labels, distance, 1000, seed=0)
        assert np.sort(found) == pytest.approx(np.sort(same_cluster(points, labels, distance)), abs=1e-6)
    assert len(pair_sample(points, np.arange(12), L1(), 10, seed=0)) == 0
    assert len(pair_sample(points[:0], labels[:0], L1(), 10, seed=0)) == 0


def test_a_sample_is_even_over_pairs():
    """Every same-cluster pair has the same chance: counts of the distances, which are all different."""
    points = histograms(15, 4, 2)
    labels = np.array([0] * 8 + [1] * 5 + [2] * 2)
    pairs = np.sort(same_cluster(points, labels, L1()))
    draws = np.concatenate([pair_sample(points, labels, L1(), 38, seed) for seed in range(300)])
    assert len(pairs) == 28 + 10 + 1
    counts = np.bincount(np.abs(draws[:, None] - pairs).argmin(1), minlength=39)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_sample_repeats_with_its_seed():
    points, labels = histograms(100, 5, 0), np.zeros(100, np.int64)
    a, b, c, d = (pair_sample(points, labels, L1(), 50, *ids) for ids in ((1, 2), (1, 2), (2, 2), (1, 3)))
    assert np.array_equal(a, b) and not np.array_equal(a, c) and not np.array_equal(a, d)
    assert len(a) == 50
