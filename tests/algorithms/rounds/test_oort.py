"""Oort's scores, picks and pacer, written down from its public code."""

import math

import numpy as np
import pytest
import torch
from by_hand import two_kinds
from selections import ids, look, shares

from flcluster.algorithms import FedAvg, Oort

# --------------------------------------------------------------------------------------------------------- oort: score


def tried(utility, last, percentile=100.0):
    """Everybody has been tried; at the 100th percentile nobody is slow."""
    return {
        "utility": torch.tensor(utility, dtype=torch.float64),
        "last": torch.tensor(last, dtype=torch.float64),
        "gained": torch.zeros(0, dtype=torch.float64),
        "percentile": torch.tensor(percentile, dtype=torch.float64),
    }


def test_oort_score_by_hand():
    """(U − .999·min)/(max − .999·min) + √(.1 ln t / last), in the tenth round.

    The largest utility occurs twice of eleven, so that the .9 quantile (the tenth smallest) is the maximum.
    """
    utility, last = [*range(1, 11), 10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 1]
    scores = Oort().scores(np.arange(11), 9, tried(utility, last), look(11))
    for u, at, score in zip(utility, last, scores, strict=True):
        assert score == pytest.approx((u - 0.999) / (10 - 0.999) + math.sqrt(0.1 * math.log(10) / at), rel=1e-9)


def test_oort_counts_larger_utilities_as_the_clip():
    """1 to 10 and 50: the .9 quantile of eleven is the tenth smallest, 10; beyond it nobody is told apart."""
    utility = [*range(1, 11), 50]
    scores = Oort().scores(np.arange(11), 0, tried(utility, [1] * 11), look(11))
    assert scores[10] == pytest.approx(scores[9], rel=1e-12)
    assert scores[9] > scores[8]


def test_oort_divides_by_the_range_of_the_utilities():
    """1 to 10 and 50, the clip at 10: (min(U, 10) − .999)/(50 − .999), the range being that of the reported utilities.

    In FedScale's get_norm the range is taken from the largest reward, not from the clip; ln 1 = 0 in the first round.
    """
    utility = [*range(1, 11), 50]
    scores = Oort().scores(np.arange(11), 0, tried(utility, [1] * 11), look(11))
    expected = [(min(u, 10) - 0.999) / (50 - 0.999) for u in utility]
    assert scores.tolist() == pytest.approx(expected, rel=1e-9)


def test_oort_discounts_slow_clients():
    """Durations 1 to 11: the 30th percentile is 4; slower ones ×(4/t)², those up to 4 as they are."""
    seconds = np.arange(1.0, 12.0)
    memory = tried([5.0] * 11, [2] * 11, percentile=30.0)
    plain = Oort().scores(np.arange(11), 7, memory, look(11))
    scores = Oort().scores(np.arange(11), 7, memory, look(11, seconds=seconds))
    expected = [s * (1.0 if t <= 4 else (4 / t) ** 2) for s, t in zip(plain, seconds, strict=True)]
    assert scores.tolist() == pytest.approx(expected, rel=1e-12)


def test_oort_prefers_a_duration_of_all_clients_not_of_the_pool():
    """Durations 1 to 10: the 30th percentile is the fourth of ten, 4. The pool is the slow half, 6 to 10: all slow."""
    seconds, pool = np.arange(1.0, 11.0), np.arange(5, 10)
    memory = tried([5.0] * 10, [2] * 10, percentile=30.0)
    plain = Oort().scores(pool, 7, memory, look(10))
    scores = Oort().scores(pool, 7, memory, look(10, seconds=seconds))
    assert scores.tolist() == pytest.approx([s * (4 / t) ** 2 for s, t in zip(plain, range(6, 11), strict=True)])


def test_oort_at_the_hundredth_percentile_finds_nobody_slow():
    """Also not in a pool of a client slower than any other; at the 99th of three, the last of them, neither."""
    seconds = [1.0, 2.0, 50.0]
    for percentile in (99.0, 100.0):
        memory = tried([5.0] * 3, [2] * 3, percentile=percentile)
        assert Oort().discount(ids(2), memory, look(3, seconds=seconds)).tolist() == [1.0]
    assert Oort().discount(ids(2), tried([5.0] * 3, [2] * 3, 50.0), look(3, seconds=seconds)).tolist() == [0.04**2]


def test_oort_with_equal_utilities_is_finite():
    scores = Oort().scores(np.arange(3), 4, tried([0.0] * 3, [1, 2, 3]), look(3))
    assert np.isfinite(scores).all()


# -------------------------------------------------------------------------------------------------------- oort: picking


@pytest.mark.parametrize(("t", "explored"), [(0, 9), (10, 7), (20, 6), (55, 3), (500, 3)])
def test_oort_explores_less_and_less(t, explored):
    """max(.3, .9·.98ᵗ) of ten: 9, 7.4, 6.0, then the floor (.9·.98⁵⁵ = .296)."""
    memory = tried([*([1.0] * 50), *([math.nan] * 50)], [1.0] * 50 + [0.0] * 50)
    picked = Oort().pick(np.arange(100), 10, t, memory, look(100), np.random.default_rng(3))
    assert (picked >= 50).sum() == explored


def test_oort_fills_up_from_the_other_kind():
    new = tried([math.nan] * 8, [0.0] * 8)
    assert len(Oort().pick(np.arange(8), 5, 400, new, look(8), np.random.default_rng(0))) == 5
    old = tried([1.0] * 7 + [math.nan], [1.0] * 7 + [0.0])
    picked = Oort().pick(np.arange(8), 5, 0, old, look(8), np.random.default_rng(0))
    assert len(picked) == 5
    assert 7 in picked


def test_oort_exploits_by_score():
    """Nothing explored; utilities 2, 2, 2, 1 in the first round: scores 1, 1, 1 and .001/1.001, below the cut-off."""
    oort = Oort(exploration=0.0, floor=0.0)
    memory = tried([2.0, 2.0, 2.0, 1.0], [1.0] * 4)
    found = shares(lambda draw: oort.pick(np.arange(4), 1, 0, memory, look(4), draw), 3000)
    assert set(found) == {0, 1, 2}
    assert all(abs(share - 1 / 3) < 0.03 for share in found.values())


def test_oort_cut_off():
    """Scores 1, .5 and .02 (a slow client): two wanted, so all from .05·.5 = .025 on may be drawn, the third never.

    With the 50th percentile of durations 1, 1, 10 preferred, 1 s, the third client's score is a hundredth.
    """
    oort, seen = Oort(exploration=0.0, floor=0.0, cut_off=0.05), look(3, seconds=[1.0, 1.0, 10.0])
    memory = tried([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], percentile=50.0)
    scores = oort.scores(np.arange(3), 0, memory, seen)
    assert scores[2] < 0.05 * scores[1]
    draw = np.random.default_rng(0)
    for _ in range(300):
        assert set(oort.pick(np.arange(3), 2, 0, memory, seen, draw).tolist()) == {0, 1}
    everyone = Oort(exploration=0.0, floor=0.0, cut_off=0.0)
    assert 2 in set(np.concatenate([everyone.pick(np.arange(3), 2, 0, memory, seen, draw) for _ in range(300)]))


def test_oort_explores_by_how_much_there_is_to_train_on():
    """Work 6, 3, 1: one is drawn with 60, 30, 10 %."""
    memory, seen = Oort().start(3), look(3, work=[6.0, 3.0, 1.0])
    found = shares(lambda draw: Oort().pick(np.arange(3), 1, 0, memory, seen, draw), 4000)
    assert found == pytest.approx({0: 0.6, 1: 0.3, 2: 0.1}, abs=0.03)


def test_oort_discounts_slow_clients_that_were_never_tried():
    """Work 6, 6 and 6; 1, 1 and 2 s. The 30th percentile of three is the first, 1 s: the third counts a quarter."""
    memory, seen = Oort().start(3), look(3, work=[6.0] * 3, seconds=[1.0, 1.0, 2.0])
    found = shares(lambda draw: Oort().pick(np.arange(3), 1, 0, memory, seen, draw), 4000)
    assert found == pytest.approx({0: 4 / 9, 1: 4 / 9, 2: 1 / 9}, abs=0.03)


def test_oort_takes_slow_untried_clients_into_the_window_last():
    """One to explore of forty, all with as much to train on: five may be drawn, the five that are not slow."""
    seconds = np.where(np.arange(40) % 8 == 3, 1.0, 9.0)
    memory = {**Oort().start(40), "percentile": torch.tensor(10.0, dtype=torch.float64)}
    draw, picked = np.random.default_rng(0), set()
    for _ in range(300):
        picked |= set(Oort().pick(np.arange(40), 1, 0, memory, look(40, seconds=seconds), draw).tolist())
    assert picked == {3, 11, 19, 27, 35}


def test_oort_explores_within_a_window_of_five_times_the_number():
    """Two to explore of forty: only the ten with the most to train on may be drawn (FedScale's sample_window = 5)."""
    oort, seen = Oort(), look(40, work=np.arange(40) % 20 + 1.0)  # 1 to 20, each twice
    draw, picked = np.random.default_rng(0), set()
    for _ in range(300):
        picked |= set(oort.pick(np.arange(40), 2, 0, oort.start(40), seen, draw).tolist())
    assert {int(client) % 20 + 1 for client in picked} == {16, 17, 18, 19, 20}


# ------------------------------------------------------------------------------------------------------- oort: learning


def reports(result, clients, square):
    return [result(c, [0.0], start_square=s, start_loss=math.sqrt(s)) for c, s in zip(clients, square, strict=True)]


def test_oort_utility_is_samples_times_root_mean_square_loss(result):
    """n √(mean loss²): 20·√4 = 40 and 5·√.25 = 2.5, tried in round 7 (the eighth)."""
    seen = look(4, work=[20.0, 9.0, 5.0, 9.0])
    before = Oort().start(4)
    memory = Oort().learn(before, 7, reports(result, [0, 2], [4.0, 0.25]), seen)
    assert memory["utility"][[0, 2]].tolist() == [40.0, 2.5]
    assert memory["utility"][[1, 3]].isnan().all()
    assert memory["last"].tolist() == [8.0, 0.0, 8.0, 0.0]
    assert before["utility"].isnan().all()
    later = Oort().learn(memory, 9, reports(result, [2], [1.0]), seen)
    assert later["utility"][[0, 2]].tolist() == [40.0, 5.0]
    assert later["last"].tolist() == [8.0, 0.0, 10.0, 0.0]


def percentiles(result, gained, rounds):
    """The preferred percentile after each round, when the only client, tried before, gains ``gained(t)`` in round t."""
    oort, seen = Oort(), look(1)
    memory, found = tried([1.0], [1.0], percentile=30.0), []
    for t in range(rounds):
        memory = oort.learn(memory, t, reports(result, [0], [gained(t) ** 2]), seen)
        found.append(float(memory["percentile"]))
    return found


def test_oort_paces_up_while_utility_is_flat(result):
    """Every 20 rounds, from the fortieth on: 30 → 35 → 40; at 100 it ends."""
    found = percentiles(result, lambda t: 1.0, 65)
    assert found == [30.0] * 39 + [35.0] * 20 + [40.0] * 6
    assert percentiles(result, lambda t: 1.0, 20 * 17)[-1] == 100.0


def test_oort_paces_down_after_a_jump(result):
    """Utility 1 in the first window, 7 in the second (a change of six times), 70 in the third (of nine times)."""
    found = percentiles(result, lambda t: [1.0, 7.0, 70.0][t // 20], 60)
    assert found == [30.0] * 39 + [25.0] * 20 + [20.0]


def test_oort_keeps_its_pace_in_between(result):
    """A change of 50 % is neither flat nor a jump; one of 10 % is flat, one of 11 % not."""
    assert percentiles(result, lambda t: 1.0 if t < 20 else 1.5, 40)[-1] == 30.0
    assert percentiles(result, lambda t: 1.0 if t < 20 else 1.0999, 40)[-1] == 35.0
    assert percentiles(result, lambda t: 1.0 if t < 20 else 0.89, 40)[-1] == 30.0


def test_oorts_pacer_looks_at_the_mean_of_those_exploited(result):
    """Client 0 and 2 were tried before and gain 4 and 8, client 1 is new and gains 100: the round counts as 6. Where
    nobody was exploited it counts as nothing."""
    memory = tried([1.0, math.nan, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0])
    memory = Oort().learn(memory, 3, reports(result, [0, 1, 2], [16.0, 1e4, 64.0]), look(4))
    assert memory["gained"].tolist() == [6.0]
    memory = Oort().learn(memory, 4, reports(result, [1], [9.0]), look(4))  # tried by now
    assert memory["gained"].tolist() == [6.0, 3.0]
    assert Oort().learn(Oort().start(4), 0, reports(result, [1], [9.0]), look(4))["gained"].tolist() == [0.0]


def test_oorts_pacer_is_blind_to_how_many_were_exploited(result):
    """Twice as many clients with the same utility in the second window: flat."""
    oort, memory = Oort(), tried([1.0] * 4, [1.0] * 4, percentile=30.0)
    for t in range(40):
        memory = oort.learn(
            memory, t, reports(result, range(2 if t < 20 else 4), [1.0] * (2 if t < 20 else 4)), look(4)
        )
    assert float(memory["percentile"]) == 35.0


def test_oorts_defaults_are_fedscales():
    oort = Oort()
    assert (oort.exploration, oort.decay, oort.floor, oort.clip) == (0.9, 0.98, 0.3, 0.9)
    assert (oort.preferred, oort.pace, oort.window, oort.penalty, oort.cut_off) == (30.0, 5.0, 20, 2.0, 0.05)


# ----------------------------------------------------------------------------------------------------- what parts see


def test_oort_learns_what_a_round_showed(script, federate):
    """n·√(mean loss²) of the received model, over the whole run: who is tried once is known from then on."""
    fed = federate(two_kinds(script))
    algorithm = FedAvg(batch_size=4, local_steps=2, participants=4, selection=Oort())
    state = algorithm.init(fed)
    before, (state, done) = state.models[0], algorithm.step(state, 0, fed)
    utility = state.memory["utility"]
    clients = [r.client for r in done.results]
    assert len(clients) == 4
    assert sorted(torch.nonzero(~utility.isnan()).flatten().tolist()) == clients
    for m in clients:
        losses = fed.per_sample(before[None], fed.data.shard(m, 0).train)[0, 0].double()
        assert float(utility[m]) == pytest.approx(8 * math.sqrt(float(losses.square().mean())), rel=1e-5)
