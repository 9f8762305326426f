"""Rounds of several models: who takes part, what the parts of a method are told, and whole rounds by hand."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms import (
    Auxo,
    DistanceSelection,
    FedAvg,
    FedDrift,
    FedProx,
    FedYogi,
    Fielding,
    Oort,
    QFedAvg,
    RandomSelection,
    Scaffold,
)
from flcluster.algorithms.rounds.selection import quotas
from flcluster.clustering.kmeans import KMeansBySilhouette
from flcluster.engine.run import make_loop
from flcluster.errors import UserError

EXAMPLES = settings(deadline=None, max_examples=200, database=None)
COMMON = {"local_epochs": 1, "batch_size": 8}


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


@EXAMPLES
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


# -------------------------------------------------------------------------------------------------------- whole rounds


def two_kinds(script, each=5, samples=12):
    """Clients with labels 0 and 1, and clients with labels 2 and 3, of different sizes."""
    held = {m: [0] * (samples + m) + [1] * samples for m in range(each)}
    held |= {m: [2] * samples + [3] * (samples + m) for m in range(each, 2 * each)}
    return script({0: held})


def by_hand(rows, weights):
    weights = torch.tensor(weights, dtype=torch.float64)
    return ((weights / weights.sum())[:, None] * torch.stack(rows).double()).sum(0).float()


def test_a_round_trains_each_cluster_from_its_own_model(script, federate, spied):
    """Six participants of ten clients in two clusters: three of each, and their uniform means, cluster by cluster."""
    data = two_kinds(script)
    fed = federate(data)
    algorithm = Fielding(**COMMON, participants=6, clusterer=KMeansBySilhouette(2, 2))
    state = algorithm.init(fed)
    different = state.models + torch.tensor([[0.0], [0.1]])
    state = type(state)(**{**vars(state), "models": different})
    log = spied(fed)
    after, done = algorithm.step(state, 0, fed)
    clients = [job.client for job, _ in log]
    assert clients == sorted(set(clients))
    assert [r.client for r in done.results] == clients
    for k in (0, 1):
        mine = [(job, row) for job, row in log if int(state.labels[job.client]) == k]
        assert len(mine) == 3
        assert all(torch.equal(job.start, different[k]) for job, _ in mine)
        torch.testing.assert_close(after.models[k], by_hand([row for _, row in mine], [1.0] * 3))
    assert torch.equal(state.models, different)


def test_without_participants_given_everyone_trains(script, federate, spied):
    fed = federate(two_kinds(script))
    algorithm = Fielding(**COMMON)
    state = algorithm.init(fed)
    log = spied(fed)
    algorithm.step(state, 0, fed)
    assert [job.client for job, _ in log] == list(range(10))


def test_fedavg_weighs_by_size(script, federate, spied):
    fed = federate(two_kinds(script))
    algorithm = FedAvg(**COMMON)
    state = algorithm.init(fed)
    log = spied(fed)
    after, _ = algorithm.step(state, 0, fed)
    sizes = [len(job.view) for job, _ in log]
    assert len(set(sizes)) > 3
    torch.testing.assert_close(after.models[0], by_hand([row for _, row in log], sizes))


def test_jobs_carry_steps_decay_and_proximal_weight(script, federate, spied):
    fed = federate(two_kinds(script))
    algorithm = FedProx(batch_size=8, local_steps=7, lr_decay=0.5)
    assert algorithm.prox == 0.1
    log = spied(fed)
    algorithm.step(algorithm.init(fed), 3, fed)
    assert {(job.steps, job.batch_size, job.lr_factor, job.prox) for job, _ in log} == {(7, 8, 0.125, 0.1)}


def test_fedyogi_remembers_its_moments_over_rounds(script, federate, spied):
    """Two rounds: the second goes on with the first's m and v, on the mean weighted by size."""
    fed = federate(two_kinds(script))
    algorithm = FedYogi(**COMMON)
    state = algorithm.init(fed)
    m, v, w = 0.0, 1e-8, state.models[0].double()
    log = spied(fed)
    for t in range(2):
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        g = by_hand([row for _, row in log], [len(job.view) for job, _ in log]).double() - w
        m = 0.9 * m + 0.1 * g
        v = v - 0.01 * g**2 * torch.sign(v - g**2)
        w = w + 3e-3 * m / (v.sqrt() + 1e-8)
        torch.testing.assert_close(state.models[0].double(), w, rtol=1e-4, atol=2e-5)
        w = state.models[0].double()


def test_qfedavg_takes_losses_at_the_received_model(script, federate, spied):
    """w − Σ f δ / Σ (‖δ‖² + L f), δ = L (w − w_k), L one over the decayed learning rate; f on all training data."""
    fed = federate(two_kinds(script), lr=0.2)
    algorithm = QFedAvg(**COMMON, lr_decay=0.5)
    state = algorithm.init(fed)
    log = spied(fed)
    after, done = algorithm.step(state, 1, fed)
    w, L = state.models[0].double(), 1 / (0.2 * 0.5)
    top, bottom = torch.zeros_like(w), 0.0
    for job, row in log:
        f = fed.loss(state.models[0], fed.data.shard(job.client, 1).train)
        delta = L * (w - row.double())
        top, bottom = top + f * delta, bottom + float(delta @ delta) + L * f
    torch.testing.assert_close(after.models[0].double(), w - top / bottom, rtol=1e-5, atol=1e-6)
    assert [done.cost(i) for i in range(10)] == [(1, 1, 1)] * 10  # looking at the losses costs


def test_a_cluster_without_data_this_round_keeps_its_model(script, federate):
    """Both clients of the second kind hold nothing from round 1 on."""
    held = {0: [0] * 10, 1: [0] * 9, 2: [3] * 10, 3: [3] * 9}
    fed = federate(script({0: held, 1: {2: [], 3: []}}))
    algorithm = Fielding(**COMMON)
    state = algorithm.init(fed)
    assert len(state.models) == 2
    after, done = algorithm.step(state, 1, fed)
    k = int(state.labels[2])
    assert sorted(r.client for r in done.results) == [0, 1]
    assert torch.equal(after.models[k], state.models[k])
    assert not torch.equal(after.models[1 - k], state.models[1 - k])


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


# ------------------------------------------------------------------------------------------------- FedProx's sign


@pytest.mark.parametrize(("sign", "factor"), [("towards", -1.0), ("away", 1.0)])
def test_the_proximal_term_pushes_towards_the_received_model_or_away(sign, factor, script, federate):
    """w₁ = w₀ − η g(w₀); w₂ = w₁ − η g(w₁) ∓ η μ (w₁ − w₀): FedScale's code has + where FedProx has −."""
    data = script({0: {0: [0, 1, 2, 3] * 2}})
    fed = federate(data, lr=0.1)
    algorithm = FedAvg(batch_size=8, local_steps=2, prox=0.5, fedprox_sign=sign)
    state = algorithm.init(fed)
    start, found = state.models[0], algorithm.step(state, 0, fed)[0].models[0]
    view = data.shard(0, 0).train
    first = start - 0.1 * fed.worker.gradient(start, view)
    second = first - 0.1 * fed.worker.gradient(first, view) + factor * 0.1 * 0.5 * (first - start)
    torch.testing.assert_close(found, second, rtol=1e-5, atol=1e-6)


def test_the_wrong_sign_is_named_and_needs_a_term():
    assert FedProx().fedprox_sign == "towards"
    assert FedProx().title == "FedProx"
    assert FedProx(fedprox_sign="away").title == "FedProx (prox away)"
    assert Fielding(prox=0.1, fedprox_sign="away").title == "Fielding (prox away)"
    assert FedDrift(prox=0.1, fedprox_sign="away").title == "FedDrift (prox away)"
    with pytest.raises(UserError, match="prox"):
        FedAvg(fedprox_sign="away")
    with pytest.raises(UserError, match="SCAFFOLD"):  # whose title would not say so
        Scaffold(prox=0.1, fedprox_sign="away")
