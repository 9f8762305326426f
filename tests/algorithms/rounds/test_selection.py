"""Who is picked, with a fixed generator: quotas of clusters, any selection, at random and by distance."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pytest
import torch
from by_hand import COMMON, two_kinds
from hypothesis import given, settings
from hypothesis import strategies as st
from selections import ids, look, shares

from flcluster.algorithms import Auxo, DistanceSelection, FedAvg, Fielding, Oort, RandomSelection
from flcluster.algorithms.rounds.selection import quotas
from flcluster.clustering.kmeans import KMeansBySilhouette
from flcluster.engine.run import make_loop

EXAMPLES = settings(deadline=None, max_examples=60, database=None)

# ------------------------------------------------------------------------------------------------------ every selection


@EXAMPLES
@given(st.sampled_from([RandomSelection(), DistanceSelection(), Oort()]), st.data())
def test_so_many_different_ones_of_the_pool(selection, data):
    """Any pool and any number, also more than there are; Oort with some clients tried."""
    pool = np.array(sorted(data.draw(st.sets(st.integers(0, 19), max_size=12))), dtype=np.int64)
    count, t = data.draw(st.integers(0, 14)), data.draw(st.integers(0, 60))
    memory = selection.start(20)
    if isinstance(selection, Oort):
        for client in data.draw(st.sets(st.integers(0, 19))):
            memory["utility"][client], memory["last"][client] = 1.0 + client, 1.0
    seen = look(20, distance=np.arange(20) / 20, seconds=1 + np.arange(20), work=1 + np.arange(20))
    picked = selection.pick(pool, count, t, memory, seen, np.random.default_rng(t)).tolist()
    assert len(picked) == len(set(picked)) == min(count, len(pool))
    assert set(picked) <= set(pool.tolist())
    again = selection.pick(pool, count, t, memory, seen, np.random.default_rng(t)).tolist()
    assert picked == again


def test_only_oort_asks_for_losses():
    assert Oort.needs_start_loss
    assert not RandomSelection.needs_start_loss
    assert not DistanceSelection.needs_start_loss


# --------------------------------------------------------------------------------------------------- random, distance


def test_random_gives_every_pair_alike():
    """Ten pairs of five, 5,000 draws: 500 each, standard deviation 21."""
    draw, pool = np.random.default_rng(0), ids(2, 3, 5, 7, 11)
    picked = Counter(
        tuple(sorted(RandomSelection().pick(pool, 2, 0, {}, look(12), draw).tolist())) for _ in range(5000)
    )
    assert set(picked) == set(combinations(pool.tolist(), 2))
    assert all(abs(count - 500) < 90 for count in picked.values())


def test_distance_by_one_over_epsilon_plus_distance():
    """ε = .5, distances 0, .5, 1.5: weights 2, 1, ½, so 4/7, 2/7, 1/7."""
    seen = look(9, distance=[9, 9, 0.0, 9, 0.5, 9, 9, 9, 1.5])
    pick = DistanceSelection(epsilon=0.5).pick
    found = shares(lambda draw: pick(ids(2, 4, 8), 1, 0, {}, seen, draw), 6000)
    assert found == pytest.approx({2: 4 / 7, 4: 2 / 7, 8: 1 / 7}, abs=0.025)


def test_two_by_distance_are_drawn_one_after_the_other():
    """P(8 is one of two) = p₂·p₈/(1 − p₂) + p₄·p₈/(1 − p₄) + p₈, with p = 4/7, 2/7, 1/7: 4/21 + 2/35 + 1/7 = .390."""
    seen = look(9, distance=[9, 9, 0.0, 9, 0.5, 9, 9, 9, 1.5])
    pick = DistanceSelection(epsilon=0.5).pick
    found = shares(lambda draw: pick(ids(2, 4, 8), 2, 0, {}, seen, draw), 6000)
    assert found[8] == pytest.approx(4 / 21 + 2 / 35 + 1 / 7, abs=0.025)


# -------------------------------------------------------------------------------------------------------------- quotas


@pytest.mark.parametrize(
    ("sizes", "total", "expected"),
    [
        ([10, 10], 6, [3, 3]),
        ([10, 2], 6, [4, 2]),  # three each; the one that the second cannot use goes to the first
        ([5, 9, 1], 9, [3, 5, 1]),
        ([4, 9, 1], 14, [4, 9, 1]),
        ([4, 3], 100, [4, 3]),
        ([10, 0, 10], 6, [3, 0, 3]),  # an empty cluster is none
        ([7] * 10, 3, [1] * 10),  # at least one each
        ([0, 0], 5, [0, 0]),
        ([9, 9, 9], 20, [7, 7, 6]),  # seven each would be one too many
        ([12, 15, 9, 14, 10, 13, 11], 20, [3, 3, 2, 3, 3, 3, 3]),
        ([30, 6, 20, 1], 40, [23, 6, 10, 1]),  # ten each; the thirteen left go to the largest
        ([16, 6, 20, 1], 40, [13, 6, 20, 1]),  # first to the largest, then to the next
    ],
)
def test_quotas_by_hand(sizes, total, expected):
    assert quotas(sizes, total) == expected


@settings(EXAMPLES, max_examples=200)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(1, 60))
def test_quotas_share_out_what_there_is(sizes, total):
    """round(M/K) each, at least one and at most the size; what is unused goes to the largest clusters that have room,
    and what is too much is taken back one by one."""
    found = quotas(sizes, total)
    used = sum(size > 0 for size in sizes)
    share = max(1, round(total / used)) if used else 0
    least = [min(share, size) for size in sizes]
    over = max(0, sum(least) - max(total, used))
    assert all(low - min(over, 1) <= quota <= size for low, quota, size in zip(least, found, sizes, strict=True))
    assert all(quota >= 1 for quota, size in zip(found, sizes, strict=True) if size)
    assert sum(found) == max(used, min(total, sum(sizes)))
    for k, size in enumerate(sizes):
        if found[k] > least[k]:  # it took some of the rest: every larger cluster is full
            assert all(found[j] == sizes[j] for j in range(len(sizes)) if sizes[j] > size)


# ----------------------------------------------------------------------------------------------------- what parts see


def test_a_selection_is_told_distances_times_and_work(script, federate):
    """Work is min(|D|, L·B); the global baseline's centre is the mean of everyone's label shares."""
    held = {0: [0, 0, 0, 1], 1: [0, 1, 2, 3], 2: [3] * 40}
    fed = federate(script({0: held}))
    algorithm = FedAvg(batch_size=5, local_steps=4)
    seen = algorithm.asked_of(algorithm.init(fed), 0, fed)
    everyone = np.arange(3)
    assert seen.work(everyone).tolist() == [4, 4, 20]
    assert seen.seconds(everyone).tolist() == [1, 1, 1]
    points = np.array([[0.75, 0.25, 0, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 0, 1]])
    assert seen.distance(everyone) == pytest.approx(np.abs(points - points.mean(0)).sum(1), abs=1e-6)
    epochs = FedAvg(**COMMON)
    assert epochs.asked_of(epochs.init(fed), 0, fed).work(everyone).tolist() == [4, 4, 40]


def test_fielding_measures_distances_to_the_centre_of_the_cluster(script, federate):
    held = {0: [0, 0, 0, 1], 1: [0, 0, 1, 1], 2: [3, 3, 3, 2], 3: [3, 3, 3, 3]}
    fed = federate(script({0: held}))
    algorithm = Fielding(**COMMON, clusterer=KMeansBySilhouette(2, 2))
    state = algorithm.init(fed)
    assert algorithm.asked_of(state, 0, fed).distance(np.arange(4)) == pytest.approx([0.25] * 4, abs=1e-6)


def test_a_clients_distance_is_that_to_its_own_centre_not_to_the_nearest(script, federate):
    """Three clusters at labels 0, 2 and 3; client 1 is like the first but belongs to the second, as clients of
    StaticClustering may after drift. By hand: |¾ − 0| + |¼ − 0| + |0 − 1| = 2 to its own, ½ to the nearest."""
    held = {0: [0, 0, 0, 0], 1: [0, 0, 0, 1], 2: [2, 2, 2, 2], 3: [2, 2, 2, 3], 4: [3, 3, 3, 3], 5: [3, 3, 1, 1]}
    fed = federate(script({0: held}))
    algorithm = Fielding(**COMMON)
    centres = torch.tensor([[1.0, 0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]])
    state = replace(algorithm.init(fed), labels=torch.tensor([0, 1, 1, 1, 2, 2]), centres=centres)
    found = algorithm.asked_of(state, 0, fed).distance(np.array([5, 1, 3, 0]))
    assert found == pytest.approx([1.0, 2.0, 0.5, 0.0], abs=1e-6)


@dataclass(frozen=True)
class Spy(RandomSelection):
    """Notes what distances it is told of each pool."""

    told: dict = field(default_factory=dict)

    def pick(self, pool, count, t, memory, look, draw):
        self.told[tuple(pool.tolist())] = look.distance(pool)
        return super().pick(pool, count, t, memory, look, draw)


def test_without_reports_a_clusters_centre_is_the_mean_of_its_own_clients(script, federate):
    """Two cohorts of Auxo: shares of labels 0 and 1 in the first, 2 and 3 in the second; each by its own mean, where
    the mean of all four would be (⅜, ⅛, ⅛, ⅜)."""
    held = {0: [0, 0, 0, 0], 1: [0, 0, 1, 1], 2: [3, 3, 3, 3], 3: [2, 2, 3, 3]}
    fed, spy = federate(script({0: held})), Spy()
    algorithm = Auxo(**COMMON, selection=spy, epsilon=0.0)
    state = algorithm.init(fed)
    two = {"models": state.models.repeat(2, 1), "labels": torch.tensor([0, 0, 1, 1])}
    algorithm.pick(replace(state, **two), 0, fed)
    assert set(spy.told) == {(0, 1), (2, 3)}
    for found in spy.told.values():
        assert found == pytest.approx([0.5, 0.5], abs=1e-6)  # |1 − ¾| + |0 − ¼|


@pytest.mark.parametrize("selection", [RandomSelection(), DistanceSelection(), Oort()])
def test_selections_in_clusters_are_repeatable_and_keep_quotas(selection, script, federate):
    """Six of ten clients a round, three a cluster; another round, other clients."""
    runs = []
    for _ in range(2):
        fed = federate(two_kinds(script))
        loop = make_loop(Fielding(**COMMON, participants=6, rounds=4, selection=selection), fed, None, None)
        loop.begin()
        runs.append([[e.client for e in loop.advance()] for _ in range(4)])
    assert runs[0] == runs[1]
    assert all(sum(m < 5 for m in clients) == 3 == sum(m >= 5 for m in clients) for clients in runs[0])
    assert len({tuple(clients) for clients in runs[0]}) > 1
