"""k-centre clustering against all choices of centres, and what Algorithm 4 needs of it."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.clustering.distances import L1, L2
from flcluster.clustering.kcentre import KCentre, farthest_first
from flcluster.errors import UserError

EXAMPLES = settings(deadline=None, max_examples=60, database=None)


def radius(points, chosen, distance):
    return float(distance.between(points, points[list(chosen)]).min(1).max())


@EXAMPLES
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32), st.sampled_from([L1(), L2()]))
def test_the_widest_cluster_is_at_most_twice_the_best(n, count, seed, distance):
    points = np.random.default_rng(seed).uniform(size=(n, 3)).astype(np.float32)
    chosen = farthest_first(points, count, distance, seed % n)
    assert len(chosen) == len(set(chosen)) == min(n, count)
    assert chosen[0] == seed % n
    best = min(radius(points, some, distance) for some in combinations(range(n), min(n, count)))
    assert radius(points, chosen, distance) <= 2 * best + 1e-5


@pytest.mark.parametrize("seed", range(5))
def test_clusters_that_are_there_are_found(seed):
    """Four groups .2 wide and 2 apart: with K = 4 each is a cluster, whichever point comes first (Assumption F)."""
    draw = np.random.default_rng(seed)
    truth = draw.permutation(np.repeat(np.arange(4), 6))
    points = (2 * np.eye(4)[truth] + draw.uniform(0, 0.05, (24, 4))).astype(np.float32)
    found = KCentre(4).cluster(points, L1(), seed, 3)
    assert len(found.centres) == 4
    assert all(len(set(found.labels[truth == k].tolist())) == 1 for k in range(4))
    for k in range(4):
        assert found.centres[k] == pytest.approx(points[found.labels == k].mean(0), abs=1e-6)


def test_every_point_is_with_the_nearest_of_those_chosen():
    points = np.random.default_rng(0).uniform(size=(30, 2)).astype(np.float32)
    found = KCentre(5).cluster(points, L2(), 1, 0)
    starts = [farthest_first(points, 5, L2(), first) for first in range(30)]
    by_start = [L2().between(points, points[chosen]).argmin(1) for chosen in starts]
    assert any((labels == found.labels).all() for labels in by_start)


def test_the_first_point_depends_on_the_event_and_repeats():
    points = np.random.default_rng(0).uniform(size=(40, 2)).astype(np.float32)
    runs = [[KCentre(6).cluster(points, L1(), 1, event).labels.tolist() for event in range(6)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert len({tuple(labels) for labels in runs[0]}) > 1


def test_never_more_clusters_than_different_points():
    points = np.array([[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 3, dtype=np.float32)
    found = KCentre(5).cluster(points, L1(), 0, 0)
    assert len(found.centres) == 2
    assert len(set(found.labels[:4].tolist())) == len(set(found.labels[4:].tolist())) == 1


def test_at_least_one_cluster():
    with pytest.raises(UserError, match="num_clusters"):
        KCentre(0)
