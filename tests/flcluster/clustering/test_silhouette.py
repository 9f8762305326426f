"""Silhouettes against scikit-learn, mean distances against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

import flcluster.clustering.silhouette as module
from flcluster.clustering.distances import L1, L2, JensenShannon
from flcluster.clustering.silhouette import mean_distances, silhouette, silhouettes

DISTANCES = [L1(), JensenShannon(), JensenShannon(squared=True), L2()]


def histograms(n, dims, seed, clusters=3):
    draw = np.random.default_rng(seed)
    popular = draw.dirichlet(np.full(dims, 0.5), clusters)
    labels = draw.integers(clusters, size=n)
    counts = np.array([draw.multinomial(12, popular[k]) for k in labels])
    return (counts / 12).astype(np.float32), labels


def by_hand(points, labels, distance):
    """Return each client's mean distance to the others in its cluster."""
    pairs = distance.between(points, points)
    out = []
    for i in range(len(points)):
        others = [pairs[i, j] for j in range(len(points)) if j != i and labels[j] == labels[i]]
        out.append(np.mean(others) if others else 0.0)
    return out


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize(("n", "dims", "seed"), [(60, 8, 0), (200, 20, 1), (30, 1, 2)])
def test_silhouette_against_scikit_learn(distance, n, dims, seed):
    points, labels = histograms(n, dims, seed)
    pairs = distance.between(points, points).astype(np.float64)
    np.fill_diagonal(pairs, 0.0)
    expected = silhouette_score(pairs, labels, metric="precomputed")
    assert silhouette(points, labels, distance) == pytest.approx(expected, abs=1e-5)
    if isinstance(distance, L1):
        expected = silhouette_score(points.astype(np.float64), labels, metric="manhattan")
        assert silhouette(points, labels, distance) == pytest.approx(expected, abs=1e-6)


def test_several_clusterings_at_once():
    points, _ = histograms(50, 6, 3)
    draw = np.random.default_rng(0)
    labellings = [draw.integers(k, size=50) for k in (2, 5, 9)]
    together = silhouettes(points, labellings, L1())
    assert together == pytest.approx([silhouette_score(points, each, metric="manhattan") for each in labellings])


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_special_cases(distance):
    """Alone in a cluster: 0, as with scikit-learn; one cluster: 0; equal points: 0; two tight clusters: nearly 1."""
    points = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    assert silhouette(points, np.array([0, 0, 1, 1, 2]), distance) == pytest.approx(4 / 5, abs=1e-6)
    assert silhouette(points, np.zeros(5, np.int64), distance) == 0.0
    assert silhouette(points, np.arange(5), distance) == 0.0
    same = np.repeat(points[:1], 4, axis=0)
    assert silhouette(same, np.array([0, 0, 1, 1]), distance) == 0.0
    assert silhouette(points[:4], np.array([0, 0, 7, 7]), distance) == pytest.approx(1.0, abs=1e-6)  # gaps in numbers


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_mean_distances(distance):
    points, labels = histograms(80, 7, 5, clusters=4)
    points, labels = np.concatenate([points, points[:1]]), np.append(labels, 9)  # and one alone
    found = mean_distances(points, labels, distance)
    assert found == pytest.approx(by_hand(points, labels, distance), abs=2e-6)
    assert found[-1] == 0.0
    assert found.min() >= 0


def test_mean_distances_by_hand():
    points = np.array([[1, 0], [0.5, 0.5], [0, 1], [0.25, 0.75]], np.float32)
    assert mean_distances(points, np.array([0, 0, 0, 1]), L1()).tolist() == [1.5, 1.0, 1.5, 0.0]
    assert mean_distances(points[:0], np.zeros(0, np.int64), L1()).tolist() == []


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_order_does_not_matter(data):
    points, _ = histograms(20, 4, data.draw(st.integers(0, 10)))
    labels = np.array(data.draw(st.lists(st.integers(0, 4), min_size=20, max_size=20)))
    order = np.array(data.draw(st.permutations(range(20))))
    for distance in (L1(), JensenShannon()):
        assert silhouette(points[order], labels[order], distance) == pytest.approx(
            silhouette(points, labels, distance), abs=1e-6
        )
        assert mean_distances(points[order], labels[order], distance) == pytest.approx(
            mean_distances(points, labels, distance)[order], abs=1e-6
        )


def test_large_numbers_are_estimated(monkeypatch):
    """Beyond the limit L1 stays exact; others are near, differ by the seed, and repeat with it."""
    points, labels = histograms(600, 10, 8)
    exact = {d: (silhouette(points, labels, d), mean_distances(points, labels, d)) for d in (L1(), L2())}
    monkeypatch.setattr(module, "_EXACT", 150)
    monkeypatch.setattr(module, "_PARTNERS", 80)
    assert silhouette(points, labels, L1()) == exact[L1()][0]
    assert np.array_equal(mean_distances(points, labels, L1()), exact[L1()][1])
    scores = [silhouette(points, labels, L2(), seed) for seed in (1, 1, 2)]
    assert scores[0] == scores[1] != scores[2]
    assert scores == pytest.approx([exact[L2()][0]] * 3, abs=0.1)
    means = [mean_distances(points, labels, L2(), seed) for seed in (1, 1, 2)]
    assert np.array_equal(means[0], means[1]) and not np.array_equal(means[0], means[2])
    assert means[0] == pytest.approx(exact[L2()][1], abs=0.1)
    assert means[0].mean() == pytest.approx(exact[L2()][1].mean(), rel=0.05)


def test_partners_do_not_count_themselves(monkeypatch):
    """All pairs are equally far apart, so every estimate is exact, for the partners and for the others."""
    monkeypatch.setattr(module, "_EXACT", 10)
    monkeypatch.setattr(module, "_PARTNERS", 5)
    points = np.eye(30, dtype=np.float32)
    assert mean_distances(points, np.zeros(30, np.int64), L2()) == pytest.approx(np.full(30, 2**0.5), rel=1e-6)
