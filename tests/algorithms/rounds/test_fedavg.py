"""FedAvg and FedProx: averages, whole rounds by hand, in clusters too, and the sign of the proximal term."""

import pytest
import torch
from by_hand import COMMON, close, combine, rows, two_kinds, weighted_mean

from flcluster.algorithms import Average, FedAvg, FedDrift, FedProx, Fielding, Scaffold
from flcluster.clustering.kmeans import KMeansBySilhouette
from flcluster.errors import UserError


def test_average_by_size_and_uniform(result):
    """Cluster 0: (1·(1, 2) + 3·(3, 6))/4 = (2.5, 5), or ((1, 2) + (3, 6))/2 = (2, 4); nobody trains cluster 2."""
    old = rows([0, 0], [0, 0], [7, 8])
    trained = [result(0, [1, 2], 1), result(1, [10, 20], 5), result(2, [3, 6], 3)]
    by_size, memory = combine(Average(), trained, [0, 1, 0], old)
    close(by_size, [[2.5, 5], [10, 20], [7, 8]])
    close(combine(Average("uniform"), trained, [0, 1, 0], old)[0], [[2, 4], [10, 20], [7, 8]])
    assert Average().by == "size"
    assert memory == {}
    close(old, [[0, 0], [0, 0], [7, 8]])


# -------------------------------------------------------------------------------------------------------- whole rounds


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
        torch.testing.assert_close(after.models[k], weighted_mean([row for _, row in mine], [1.0] * 3))
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
    torch.testing.assert_close(after.models[0], weighted_mean([row for _, row in log], sizes))


def test_jobs_carry_steps_decay_and_proximal_weight(script, federate, spied):
    fed = federate(two_kinds(script))
    algorithm = FedProx(batch_size=8, local_steps=7, lr_decay=0.5)
    assert algorithm.prox == 0.1
    log = spied(fed)
    algorithm.step(algorithm.init(fed), 3, fed)
    assert {(job.steps, job.batch_size, job.lr_factor, job.prox) for job, _ in log} == {(7, 8, 0.125, 0.1)}


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
