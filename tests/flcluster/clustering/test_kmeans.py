"""Centres, nearest centres, and k-means with the number of clusters by silhouette."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonargparse import ArgumentParser
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score

from flcluster.clustering.distances import L1, L2, Distance, JensenShannon
from flcluster.clustering.kmeans import Clusterer, KMeansBySilhouette, centres_of, nearest, plus_plus, without_empty
from flcluster.errors import UserError

DISTANCES = [L1(), JensenShannon(), JensenShannon(squared=True), L2()]


def grouped(n, groups, seed, dims=20):
    """Histograms of clients that hold 3 to 6 of the labels that their group prefers."""
    draw = np.random.default_rng(seed)
    which = draw.integers(groups, size=n)
    points = np.zeros((n, dims), np.float32)
    for i, group in enumerate(which):
        own = np.arange(dims)[np.arange(dims) % groups == group]
        labels = draw.permutation(own)[: draw.integers(3, 7)]
        counts = draw.integers(5, 15, len(labels))
        points[i, labels] = counts / counts.sum()
    return points, which


# ------------------------------------------------------------------------------------------------ centres, nearest


def test_centres():
    points = np.array([[1, 0], [0, 1], [0.5, 0.5], [1, 0]], np.float32)
    labels = np.array([0, 0, 2, 2])
    assert centres_of(points, labels, 3).tolist() == [[0.5, 0.5], [0, 0], [0.75, 0.25]]
    before = np.full((3, 2), 7.0, np.float32)
    assert centres_of(points, labels, 3, before).tolist() == [[0.5, 0.5], [7, 7], [0.75, 0.25]]
    assert (before == 7).all()
    assert centres_of(points, labels, 3).dtype == np.float32


def test_centres_of_many_points_are_not_rounded_away():
    points = np.full((200_000, 1), 0.1, np.float32)
    assert centres_of(points, np.zeros(200_000, np.int64), 1).item() == np.float32(0.1)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_nearest(distance):
    points, _ = grouped(50, 3, 0)
    centres = points[[3, 9, 20, 41]]
    expected = [min(range(4), key=lambda k: distance.between(p[None], centres[k : k + 1]).item()) for p in points]
    found = nearest(points, centres, distance)
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_the_metric_decides_who_is_nearest():
    """0.6 and 1.2 away from the first centre by L2 and L1, 0.9 from the second by both."""
    point = np.array([[0.0, 0.0, 0.0, 0.0]], np.float32)
    centres = np.array([[0.3, 0.3, 0.3, 0.3], [0.9, 0.0, 0.0, 0.0]], np.float32)
    assert nearest(point, centres, L2()).item() == 0
    assert nearest(point, centres, L1()).item() == 1


def test_of_equally_near_centres_the_first():
    points = np.array([[0.5, 0.5]], np.float32)
    assert nearest(points, np.array([[0, 1], [1, 0], [0, 1]], np.float32), L1()).item() == 0


@given(labels=st.lists(st.integers(0, 6), min_size=1, max_size=20))
def test_without_empty(labels):
    found, kept = without_empty(np.array(labels), 9)
    assert kept.tolist() == sorted(set(labels))
    assert kept[found].tolist() == labels


# --------------------------------------------------------------------------------------------------------- k-means


def brute_force(points, distance, max_clusters, n_init=20):
    """K by scikit-learn alone: its k-means, and its silhouette of the distances after re-assignment."""
    pairs = distance.between(points, points).astype(np.float64)
    np.fill_diagonal(pairs, 0.0)
    best = (-2.0, None)
    for count in range(2, max_clusters + 1):
        means = KMeans(count, n_init=n_init, random_state=1).fit(points).cluster_centers_
        labels = distance.between(points, means.astype(np.float32)).argmin(1)
        best = max(best, (silhouette_score(pairs, labels, metric="precomputed"), count))
    return best


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize("groups", [2, 3, 4])
def test_the_groups_are_found(distance, groups):
    points, which = grouped(120, groups, groups)
    found = KMeansBySilhouette(max_clusters=7).cluster(points, distance, seed=0, event=0)
    assert adjusted_rand_score(which, found.labels) == 1.0
    assert brute_force(points, distance, 7)[1] == groups == len(found.centres)
    assert found.centres == pytest.approx(centres_of(points, found.labels, groups))
    assert found.labels.dtype == np.int64


@pytest.mark.parametrize("distance", [L1(), JensenShannon(), L2()], ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_silhouette_is_the_best_over_k(distance, seed):
    """Without clear groups too: as good as scikit-learn's best over K, which the same K need not reach."""
    points = np.random.default_rng(seed).dirichlet(np.full(4, 0.5), 60).astype(np.float32)
    found = KMeansBySilhouette(max_clusters=6, n_init=20).cluster(points, distance, seed, 0)
    pairs = distance.between(points, points).astype(np.float64)
    np.fill_diagonal(pairs, 0.0)
    score = silhouette_score(pairs, found.labels, metric="precomputed")
    assert score == pytest.approx(brute_force(points, distance, 6)[0], abs=0.02)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_points_go_to_the_nearest_centre_under_the_metric(distance):
    """Lloyd's centres are near the returned means, so nearly all points are still at their nearest."""
    points = np.random.default_rng(3).dirichlet(np.full(6, 0.5), 200).astype(np.float32)
    found = KMeansBySilhouette(5, 5).cluster(points, distance, 0, 0)
    assert (nearest(points, found.centres, distance) == found.labels).mean() > 0.95
    assert np.unique(found.labels).tolist() == list(range(len(found.centres)))


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_assignment_is_by_the_metric(distance, monkeypatch):
    """Lloyd's centres given: points go to the nearest one under the distance, the empty cluster falls, means follow."""
    points = np.random.default_rng(0).dirichlet(np.full(8, 0.3), 300).astype(np.float32)
    centres = np.concatenate([points[:4], np.full((1, 8), 9.0, np.float32), points[4:6]])
    monkeypatch.setattr(KMeansBySilhouette, "_centres", lambda *_: centres)
    found = KMeansBySilhouette(7, 7).cluster(points, distance, 0, 0)
    expected = distance.between(points, centres[[0, 1, 2, 3, 5, 6]]).argmin(1)
    assert found.labels.tolist() == expected.tolist()
    for k in range(6):
        assert found.centres[k] == pytest.approx(points[expected == k].mean(0), abs=1e-6)


def test_one_cluster_if_all_points_coincide():
    points = np.repeat(np.array([[0.2, 0.3, 0.5]], np.float32), 10, axis=0)
    found = KMeansBySilhouette().cluster(points, L1(), 0, 0)
    assert found.labels.tolist() == [0] * 10
    assert found.centres.tolist() == points[:1].tolist()
    assert len(KMeansBySilhouette().cluster(points[:1], L1(), 0, 0).centres) == 1


@pytest.mark.parametrize(("different", "min_clusters"), [(d, m) for d in (2, 3, 4) for m in (2, 5)])
def test_no_more_clusters_than_different_points(different, min_clusters, recwarn):
    points = np.eye(6, dtype=np.float32)[np.arange(20) % different]
    found = KMeansBySilhouette(min_clusters).cluster(points, L1(), 0, 0)
    assert len(found.centres) == different
    assert adjusted_rand_score(np.arange(20) % different, found.labels) == 1.0
    assert not recwarn.list


def test_a_single_k_and_k_from_one():
    points, _ = grouped(60, 3, 1)
    assert len(KMeansBySilhouette(5, 5).cluster(points, L1(), 0, 0).centres) == 5
    assert len(KMeansBySilhouette(1, 1).cluster(points, L1(), 0, 0).centres) == 1
    assert len(KMeansBySilhouette(1, 6).cluster(points, L1(), 0, 0).centres) == 3


def test_it_repeats_with_seed_and_event():
    """Few starts on structureless points, so that other draws end elsewhere."""
    points = np.random.default_rng(0).dirichlet(np.ones(8), 150).astype(np.float32)
    method = KMeansBySilhouette(8, 8, n_init=1)
    a, b, c, d = (method.cluster(points, L1(), *ids).labels for ids in ((1, 2), (1, 2), (1, 3), (2, 2)))
    assert np.array_equal(a, b)
    assert adjusted_rand_score(a, c) < 1 and adjusted_rand_score(a, d) < 1


def test_beyond_the_sample():
    """K and the first centres come from a part; labels and centres from all points."""
    points, which = grouped(400, 4, 5)
    found = KMeansBySilhouette(sample=80).cluster(points, L1(), 0, 0)
    assert adjusted_rand_score(which, found.labels) == 1.0
    assert found.centres == pytest.approx(centres_of(points, found.labels, 4))
    other = KMeansBySilhouette(2, 8, n_init=1, sample=20)
    uneven = np.random.default_rng(0).dirichlet(np.ones(8), 400).astype(np.float32)
    a, b, c = (other.cluster(uneven, L1(), 0, event).labels for event in (0, 0, 1))
    assert np.array_equal(a, b) and not np.array_equal(a, c)


@given(seed=st.integers(0, 1000), count=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_plus_plus_takes_different_points(seed, count):
    draw = np.random.default_rng(seed)
    points = np.repeat(draw.random((6, 3)).astype(np.float32), 4, axis=0)
    starts = plus_plus(points, count, draw)
    assert len(np.unique(starts, axis=0)) == count
    assert all((points == start).all(1).any() for start in starts)


def test_plus_plus_is_as_good_as_scikit_learns():
    """The mean sum of squares right after the start, over many draws."""
    from sklearn.cluster import kmeans_plusplus

    points = np.random.default_rng(0).random((200, 4)).astype(np.float32)

    def left(starts):
        return (L2().between(points, starts).min(1) ** 2).sum()

    ours = [left(plus_plus(points, 6, np.random.default_rng(i))) for i in range(60)]
    theirs = [left(kmeans_plusplus(points, 6, random_state=i)[0]) for i in range(60)]
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.03)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"min_clusters": 0}, "min_clusters 0"),
        ({"min_clusters": 5, "max_clusters": 4}, "max_clusters 4"),
        ({"n_init": 0}, "clusterer.n_init must be at least 1, got 0"),
        ({"sample": 0}, "clusterer.sample must be at least 1, got 0"),
    ],
)
def test_mistakes(kwargs, message):
    with pytest.raises(UserError, match=message):
        KMeansBySilhouette(**kwargs)


def test_configured_by_class_path():
    parser = ArgumentParser()
    parser.add_argument("--clusterer", type=Clusterer)
    parser.add_argument("--distance", type=Distance)
    given = parser.parse_object(
        {
            "clusterer": {
                "class_path": "flcluster.clustering.kmeans.KMeansBySilhouette",
                "init_args": {"max_clusters": 5},
            },
            "distance": {"class_path": "flcluster.clustering.distances.JensenShannon", "init_args": {"squared": True}},
        }
    )
    made = parser.instantiate(given)
    assert made.clusterer == KMeansBySilhouette(max_clusters=5)
    assert made.distance == JensenShannon(squared=True)
