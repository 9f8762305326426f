"""Auxo's scores by hand, and what a cohort learns and does not learn, by its public code."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from selections import ids
from sklearn.cluster import KMeans

from flcluster.algorithms import Auxo, Yogi
from flcluster.algorithms.drift.auxo import FEWEST, AuxoState, cohort_of, half_labels, half_sizes, rewards, sides, split

COMMON = {"local_epochs": 1, "batch_size": 8}


def known(n, halves=None, reward=None, trained=None, labels=None, cohorts=1, **more):
    """A state of n clients; the scores of clients that are not given are those of the start."""
    state = AuxoState(
        models=torch.arange(float(cohorts))[:, None].repeat(1, 3),
        labels=torch.zeros(n, dtype=torch.int64) if labels is None else torch.tensor(labels),
        server={},
        memory={},
        reward=torch.ones(n, cohorts) if reward is None else torch.tensor(reward),
        halves=torch.ones(n, cohorts, 2),
        trained=torch.zeros(n, cohorts, dtype=torch.bool) if trained is None else torch.tensor(trained),
        parted=torch.zeros(cohorts, dtype=torch.bool),
        epsilon=0.01,
        splits=cohorts - 1,
    )
    for (client, k), side in (halves or {}).items():
        state.halves[client, k, side] += 1.0
    return replace(state, **more)


# -------------------------------------------------------------------------------------------------------------- halves


def nowhere(n):
    return torch.full((n,), -1)


def test_participants_are_parted_by_two_means_the_first_time():
    draw = torch.Generator().manual_seed(0)
    truth = torch.tensor([0, 1, 1, 0, 1, 0, 0])
    unit = torch.eye(2)[truth] + 0.1 * torch.randn(7, 2, generator=draw)
    side = half_labels(unit, nowhere(7), torch.ones(7, dtype=torch.bool), False, 3).numpy()
    assert set(side) == {0, 1}
    plain = KMeans(2, n_init=10, random_state=0).fit(unit.numpy()).labels_
    assert (side == plain).all() or (side == 1 - plain).all()
    assert len(set(side[truth.numpy() == 0])) == 1


@pytest.mark.parametrize("at", [0.1, 0.35, 0.45, 0.55, 0.95])
def test_later_everyone_takes_the_half_of_the_nearest_that_has_one(at):
    """At 0 the first half, at 1 the second. The label is 0 or 1, so that a ratio of the two passes any test of
    confidence: who stands nearly in the middle gets one too. Those that have one learn nothing."""
    now = torch.tensor([0, 1, -1, -1])
    found = half_labels(torch.tensor([[0.0], [1.0], [at], [1 - at]]), now, now < 0, True, 0)
    assert found.tolist() == [-1, -1, int(at > 0.5), int(at < 0.5)]


def test_where_one_half_alone_is_labelled_a_quarter_takes_it():
    """Of eight participants only the one at 3 has a half; the two nearest to it are itself and the one at 3.4."""
    unit = torch.tensor([[0.0], [1.0], [2.0], [3.0], [3.4], [5.0], [6.0], [7.0]])
    now = nowhere(8)
    now[3] = 1
    assert half_labels(unit, now, now < 0, True, 0).tolist() == [-1, -1, -1, 1, 1, -1, -1, -1]
    assert half_labels(unit[:6], now[:6], now[:6] < 0, True, 0).tolist() == [-1, -1, -1, 1, -1, -1]  # 6 // 4 = 1


def test_without_a_labelled_participant_nothing_is_learnt():
    assert half_labels(torch.randn(8, 2), nowhere(8), torch.ones(8, dtype=torch.bool), True, 0).tolist() == [-1] * 8


def test_a_side_is_the_larger_score_of_a_client_that_fits():
    """Client 1's scores are equal, client 3 has R < 0: neither is known to be in a half."""
    state = known(4, {(0, 0): 0, (2, 0): 1, (3, 0): 1}, reward=[[1.0], [1.0], [0.0], [-0.5]])
    assert sides(state).tolist() == [[0], [-1], [1], [-1]]


def test_every_unseen_participant_of_a_parted_cohort_is_labelled():
    """One cohort, two labelled participants and four others: all six have a half afterwards, scored 1, 2; R stays."""
    state = known(7, {(0, 0): 0, (1, 0): 1}, parted=torch.tensor([True]), trained=[[m < 2] for m in range(7)])
    angle = torch.tensor([0.0, 3.0, 0.5, 1.2, 1.8, 2.5])
    updates = torch.stack([angle.cos(), angle.sin()], 1)
    updates = updates - updates.mean(0) + 3.0
    after = Auxo(**COMMON).scored(state, 0, np.arange(6), updates, seed=0)
    assert (sides(after)[:6] >= 0).all()
    assert sides(after)[:2].tolist() == [[0], [1]]
    assert after.halves[:6, 0].sort(1).values.tolist() == [[1.0, 2.0]] * 6
    assert after.halves[6, 0].tolist() == [1.0, 1.0]
    assert after.trained.flatten().tolist() == [True] * 6 + [False]
    assert torch.equal(after.reward, torch.ones(7, 1))


def test_half_sizes_count_labelled_members():
    """Of cohort 0: clients 0, 1 in the first half, 2 in the second, 3 without a label; 4 is labelled but elsewhere."""
    state = known(6, {(0, 0): 0, (1, 0): 0, (2, 0): 1, (4, 0): 1, (5, 1): 1}, cohorts=2, labels=[0, 0, 0, 0, 1, 1])
    assert half_sizes(state).tolist() == [[2, 1], [0, 1]]


# ------------------------------------------------------------------------------------------------------------- rewards


def test_rewards_by_hand():
    """Known: the first two of four, at 0 and 2, centroid 1. Distances 1, 1, 3, 5: mean 2.5, sd √2.75 = 1.6583.

    R0 = 5, slope 5/4.1583: 5 − 1.2024·d = 3.7976, 3.7976, 1.3928, −1.0120, halved since half of them are known.
    """
    centred = torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [1.0, 5.0]])
    found = rewards(centred, torch.tensor([True, True, False, False]), 5.0)
    slope = 5 / (2.5 + np.sqrt(2.75))
    assert found.tolist() == pytest.approx([(5 - slope * d) / 2 for d in (1, 1, 3, 5)], rel=1e-5)
    assert found[0] == pytest.approx(1.8988, abs=1e-3)


@pytest.mark.parametrize(("trained", "learnt"), [(1, False), (2, True)])
def test_fewer_than_two_known_no_reward(trained, learnt):
    """Of five participants of a cohort, one of two, so many have trained there; not parted yet, nothing is learnt."""
    state = known(5, cohorts=2, reward=[[2.0, 1.0]] * 5, trained=[[m < trained, False] for m in range(5)])
    after = Auxo(**COMMON).scored(state, 0, np.arange(5), torch.randn(5, 3), seed=0)
    assert bool((after.reward[:, 0] != 2.0).any()) == learnt
    assert after.trained[:, 0].tolist() == [True] * (5 if learnt else trained) + [False] * (
        0 if learnt else 5 - trained
    )
    assert after.parted.tolist() == [learnt, False]


def test_a_later_cohort_is_parted_by_those_it_knows():
    """Three of six are known, one of them far off: they are parted, the three others (as far off) are not labelled."""
    state = known(6, cohorts=2, reward=[[2.0, 1.0]] * 6, trained=[[m < 3, False] for m in range(6)])
    updates = torch.tensor([[1.0, 0.0], [1.1, 0.0], [-9.0, 1.0], [-9.0, 1.1], [8.0, -1.0], [7.9, -1.1]])
    after = Auxo(**COMMON, base_reward=0.0).scored(state, 0, np.arange(6), updates, seed=0)
    found = sides(after)[:, 0].tolist()
    assert found[3:] == [-1, -1, -1]
    assert found[0] == found[1] != found[2]
    assert found[2] >= 0


def test_clients_that_are_all_alike_get_the_whole_reward():
    found = rewards(torch.ones(4, 3), torch.ones(4, dtype=torch.bool), 5.0)
    assert found.tolist() == [5.0] * 4


def test_rewards_accumulate_and_a_negative_one_resets_the_halves():
    """Six participants of cohort 1 at 0, 0, 0, 0, 1 and 9 (before centring); all known: trained there, R > 1."""
    algorithm = Auxo(**COMMON)
    clients = ids(0, 2, 3, 5, 6, 7)
    state = known(
        8,
        {(m, 1): m % 2 for m in clients},
        cohorts=2,
        reward=[[0.5, 4.0]] * 8,
        trained=[[False, True]] * 8,
        parted=torch.tensor([False, True]),
    )
    updates = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 9.0])[:, None]
    after = algorithm.scored(state, 1, clients, updates, seed=0)
    expected = rewards(updates - updates.mean(), torch.ones(6, dtype=torch.bool), 5.0)
    assert float(expected[5]) < 0 < float(expected[4])
    torch.testing.assert_close(after.reward[clients, 1], 4.0 + expected)
    assert after.halves[7, 1].tolist() == [1, 1]
    for m in clients[:-1]:
        assert torch.equal(after.halves[m, 1], state.halves[m, 1])
    assert after.reward[:, 0].tolist() == [0.5] * 8
    for other in (1, 4):
        assert after.reward[other].tolist() == [0.5, 4.0]
        assert torch.equal(after.halves[other], state.halves[other])


def test_known_members_have_trained_before_and_a_reward_above_one():
    """Client 0 never trained there, client 1 has R = 1: only 2 and 3 make the centroid, and the share known is ½."""
    algorithm, clients = Auxo(**COMMON), ids(0, 1, 2, 3)
    state = known(
        4,
        {(2, 0): 0, (3, 0): 1},
        cohorts=2,
        reward=[[3.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 0.0]],
        trained=[[False, False], [True, False], [True, False], [True, False]],
        parted=torch.tensor([True, True]),
    )
    updates = torch.tensor([[7.0], [5.0], [1.0], [3.0]])
    after = algorithm.scored(state, 0, clients, updates, seed=0)
    apart = np.array([5.0, 3.0, 1.0, 1.0])
    expected = (5 - 5 * apart / (apart.mean() + apart.std())) / 2
    assert (after.reward[:, 0] - state.reward[:, 0]).tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert after.trained[:, 0].all()


def test_halves_are_found_on_features_of_length_one():
    """Two directions, lengths from .01 to 100, around a common mean update: direction decides, not length."""
    lengths = torch.tensor([0.01, 100.0, 3.0, 0.5, 20.0, 7.0, 1.0, 0.2])
    side = torch.tensor([1.0, -1.0] * 4)
    updates = torch.stack([side * lengths, torch.zeros(8)], 1)
    updates = updates - updates.mean(0)
    after = Auxo(**COMMON).scored(known(8), 0, np.arange(8), updates + 5.0, seed=0)
    signs = torch.sign(updates[:, 0])
    first = (after.halves[:, 0, 0] - after.halves[:, 0, 1]) * signs
    assert after.halves[:, 0].sort(1).values.tolist() == [[1.0, 2.0]] * 8  # +1 for the side, the other stays
    assert abs(int(first.sum())) == 8
    assert after.parted.tolist() == [True]


# --------------------------------------------------------------------------------------------------------------- split


def test_clients_choose_the_largest_reward_and_who_never_trained_stays():
    state = known(
        3,
        cohorts=2,
        reward=[[1.0, 2.0], [5.0, 2.0], [0.0, 9.0]],
        trained=[[True, False], [False, True], [False, False]],
        labels=[0, 1, 0],
    )
    assert cohort_of(state).tolist() == [1, 0, 0]


def test_a_split_by_hand():
    """Cohort 1 of two splits: its second half becomes cohort 2, with a copy of the model of cohort 1 and of what the
    server remembers of it. Client 5 has never trained, client 4 is of cohort 0. R grows by 1 for a client's half."""
    halves = {(0, 1): 0, (1, 1): 0, (2, 1): 1, (3, 1): 1, (4, 0): 0}
    state = known(
        6,
        halves,
        cohorts=2,
        reward=[[1.0, 5.0]] * 4 + [[5.0, 1.0], [1.0, 1.0]],
        trained=[[False, True]] * 4 + [[True, False], [False, False]],
        labels=[1, 1, 1, 1, 0, 1],
        parted=torch.tensor([True, True]),
        server={"m": torch.tensor([[1.0] * 3, [2.0] * 3])},
    )
    after = split(state, 1, 1.0, np.random.default_rng(0))
    assert after.models.tolist() == [[0.0] * 3, [1.0] * 3, [1.0] * 3]
    assert after.server["m"].tolist() == [[1.0] * 3, [2.0] * 3, [2.0] * 3]
    assert after.labels[:5].tolist() == [1, 1, 2, 2, 0]
    assert after.labels[5] in (0, 1, 2)
    assert after.splits == state.splits + 1
    assert after.reward.tolist() == [*[[1, 6, 5]] * 2, *[[1, 5, 6]] * 2, [5, 1, 1], [1, 1, 1]]
    assert after.trained.tolist() == [
        *[[False, True, False]] * 2,
        *[[False, False, True]] * 2,
        [True, False, False],
        [False, False, False],
    ]
    assert after.halves[:, 1:].eq(1.0).all()
    assert torch.equal(after.halves[:, 0], state.halves[:, 0])
    assert after.parted.tolist() == [True, False, False]
    assert torch.equal(state.models, torch.tensor([[0.0] * 3, [1.0] * 3]))  # a copy: the parent's stays


def test_who_never_trained_chooses_at_random_after_a_split():
    """Of 300 such clients about a third go to each of three cohorts."""
    state = known(304, {(0, 0): 0, (1, 0): 1}, cohorts=2, labels=[0] * 304)
    state.trained[:2, 0] = True
    counts = torch.bincount(split(state, 0, 1.0, np.random.default_rng(4)).labels[2:], minlength=3)
    assert all(70 < int(n) < 130 for n in counts)


def halved(n, first, second, cohorts=1, **more):
    """Cohort 0 has so many known clients in its halves."""
    given = {(m, 0): 0 for m in range(first)} | {(first + m, 0): 1 for m in range(second)}
    return known(n, given, cohorts=cohorts, **more)


class Fed:
    """As much of a federation as a split needs."""

    seed = 0

    def __init__(self, clients):
        self.data = type("Data", (), {"num_clients": clients, "participants": range(clients)})


@pytest.mark.parametrize(
    ("first", "second", "cohorts", "splits"),
    [
        (6, 6, 1, True),  # more than .05·100 = 5 known in each half
        (5, 40, 1, False),  # not more than 5
        (6, 40, 1, True),  # unbalanced: no matter the first time
        (6, 40, 2, False),  # later the ratio must lie between .5 and 2
        (5, 5, 2, True),  # 5 > 5·.9
        (4, 5, 2, False),
        (5, 9, 3, True),  # 5/9 = .56, and 5 > 5·.81
        (5, 10, 3, False),  # .5 does not lie between .5 and 2
    ],
)
def test_when_a_cohort_splits(first, second, cohorts, splits):
    state = halved(100, first, second, cohorts)
    assert Auxo().maybe_split(state, 3, Fed(100)).splits == state.splits + splits


@pytest.mark.parametrize(
    ("options", "least"),
    [({"participants": 30}, 30), ({"participation": 0.4}, 40), ({"participants": 30, "min_cohort": 25}, 25)],
)
def test_a_cohort_must_be_large_enough_to_split(options, least):
    """As many clients as a round trains, of 100, or a number given; the others are in the second cohort."""
    for members in (least - 1, least):
        state = halved(100, 8, 8, cohorts=2, labels=[0] * members + [1] * (100 - members))
        found = Auxo(**options).maybe_split(state, 3, Fed(100))
        assert found.splits == state.splits + (members == least)


def test_limits_of_splitting():
    state = halved(100, 20, 20)
    assert len(Auxo(max_clusters=1).maybe_split(state, 3, Fed(100)).models) == 1
    assert len(Auxo().maybe_split(state, 499, Fed(100)).models) == 2
    assert len(Auxo().maybe_split(state, 501, Fed(100)).models) == 1  # stops after round 500


def test_splits_at_given_rounds():
    """Too few are known for a split of its own; at the given round it comes in any case."""
    state = halved(100, 2, 1)
    assert len(Auxo(split_rounds=[50, 100]).maybe_split(state, 49, Fed(100)).models) == 1
    assert len(Auxo(split_rounds=[50, 100]).maybe_split(state, 50, Fed(100)).models) == 2


def test_the_public_codes_defaults():
    auxo = Auxo()
    assert (auxo.tail, auxo.base_reward, auxo.half_reward, auxo.min_cohort) == (0.1, 5.0, 1.0, None)
    assert (auxo.epsilon, auxo.epsilon_decay, auxo.known_share) == (0.01, 0.99, 0.05)
    assert (auxo.balance, auxo.until, FEWEST) == ((0.5, 2.0), 500, 5)


# -------------------------------------------------------------------------------------------------------------- rounds


def two_kinds(script, clients):
    return script({0: {m: [0] * 12 + [1] * 4 if m % 2 else [2] * 12 + [3] * 4 for m in range(clients)}})


def test_only_participants_are_learnt_of(script, federate):
    fed = federate(two_kinds(script, 16))
    algorithm = Auxo(**COMMON, participants=6, max_clusters=1)
    state = algorithm.init(fed)
    assert state.labels.tolist() == [0] * 16
    assert state.reward.eq(1.0).all() and state.halves.eq(1.0).all()
    seen = set()
    for t in range(2):
        state, done = algorithm.step(state, t, fed)
        seen |= {r.client for r in done.results}
        others = [m for m in range(16) if m not in seen]
        assert state.halves[others].eq(1.0).all()
        assert not state.trained[others].any()
        assert state.trained[sorted(seen)].all()
        assert (sides(state)[sorted(seen)] >= 0).all()
        assert state.reward.eq(1.0).all()  # one cohort: nothing to choose between
    assert 6 < len(seen) < 16
    assert state.epsilon == pytest.approx(0.01 * 0.99**2)


def test_fewer_than_five_participants_teach_nothing(script, federate):
    fed = federate(two_kinds(script, 12))
    for participants, learnt in ((4, False), (5, True)):
        algorithm = Auxo(**COMMON, participants=participants, max_clusters=1)
        state, done = algorithm.step(algorithm.init(fed), 0, fed)
        assert len(done.results) == participants
        assert bool((sides(state) >= 0).any()) == learnt


def test_the_feature_is_the_last_tenth_of_the_change(script, federate, monkeypatch, spied):
    """Of 28 parameters the last three of received − trained, in the order of the participants."""
    fed = federate(script({0: {m: [0, 1, 2, 3] * 3 for m in range(6)}}))
    seen = []

    def scored(self, state, k, clients, updates, seed):
        seen.append((clients, updates))
        return state

    monkeypatch.setattr(Auxo, "scored", scored)
    algorithm = Auxo(**COMMON)
    state = algorithm.init(fed)
    log = spied(fed)
    algorithm.step(state, 0, fed)
    ((clients, updates),) = seen
    assert fed.layout.num_parameters == 4 * 6 + 4
    assert clients.tolist() == list(range(6))
    torch.testing.assert_close(updates, torch.stack([state.models[0] - row for _, row in log])[:, -3:])


def test_two_kinds_are_told_apart(script, federate):
    """Everybody takes part: parted and split in the first round, everyone with their own kind."""
    fed = federate(two_kinds(script, 12), hidden=(8,))
    algorithm = Auxo(**COMMON, server=Yogi(), epsilon=0.0, max_clusters=2)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    assert algorithm.gauges(state)["splits"] == 1
    assert state.labels.tolist() in ([0, 1] * 6, [1, 0] * 6)
    assert torch.equal(state.models[0], state.models[1])
    before, (state, done) = state, algorithm.step(state, 1, fed)
    assert done.cohort.labels == before.labels.tolist()
    assert not torch.equal(state.models[0], state.models[1])
    assert state.server["m"].shape == state.models.shape
