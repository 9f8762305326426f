"""Algorithm 4, the variant of FIELDING that the paper analyses, line by line."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fielding_corners import A, B, C, D

from flcluster.algorithms import FieldingAnalysis, WithReplacement
from flcluster.algorithms.drift.triggers import FixedDelta
from flcluster.algorithms.rounds.selection import Asked
from flcluster.clustering.kcentre import KCentre
from flcluster.errors import UserError
from flcluster.modules import MLP

TWO = KCentre(2)


def nothing(clients):
    raise AssertionError("asked")


def sgd(federate, data, lr=0.1):
    return federate(data, lr=lr, module=MLP(data.num_classes, data.input_shape, hidden=(), optimizer="sgd", lr=lr))


def told_apart(algorithm, fed):
    """The first state, with a different model in each cluster."""
    state = algorithm.init(fed)
    return replace(state, models=state.models + torch.arange(float(len(state.models)))[:, None])


def test_draws_are_independent_and_uniform():
    """Nine draws of three clients: about three each, and as the product of single draws has it, none at (2/3)⁹."""
    draw, pool = np.random.default_rng(0), np.array([2, 5, 7])
    picks = [WithReplacement().pick(pool, 9, 0, {}, Asked(nothing, nothing, nothing), draw) for _ in range(3000)]
    assert {len(picked) for picked in picks} == {9}
    counted = Counter(np.concatenate(picks).tolist())
    assert all(abs(counted[m] / 27000 - 1 / 3) < 0.015 for m in pool.tolist())
    assert np.mean([2 not in picked for picked in picks]) == pytest.approx((2 / 3) ** 9, abs=0.01)
    assert len(WithReplacement().pick(pool[:0], 4, 0, {}, Asked(nothing, nothing, nothing), draw)) == 0


def test_a_round_is_a_step_along_the_mean_gradient_of_those_drawn(script, federate, spied):
    """c ← c − η avg G(c), M/K = 4 draws from each cluster of three and two clients; whole data, so that G is ∇f."""
    data = script({0: {0: A, 1: [*A, 1], 2: [*A, 1, 1], 3: D, 4: [*D, 2]}})
    fed = sgd(federate, data)
    algorithm = FieldingAnalysis(batch_size=16, participants=8, clusterer=TWO)
    state = told_apart(algorithm, fed)
    assert len(state.models) == 2
    log = spied(fed)
    after, done = algorithm.step(state, 0, fed)
    clients = [job.client for job, _ in log]
    assert [result.client for result in done.results] == clients
    assert all(job.steps == 1 for job, _ in log)
    for k in (0, 1):
        drawn = [m for m in clients if int(state.labels[m]) == k]
        assert len(drawn) == 4
        mean = torch.stack([fed.worker.gradient(state.models[k], data.shard(m, 0).train) for m in drawn]).mean(0)
        torch.testing.assert_close(after.models[k], state.models[k] - 0.1 * mean, rtol=1e-5, atol=1e-6)


def test_a_cluster_smaller_than_its_share_draws_clients_again(script, federate, spied):
    """Five draws each from a cluster of one and one of six: the one is drawn five times, with other samples each."""
    data = script({0: {0: A + B, **{m: C + D for m in range(1, 7)}}})
    fed = sgd(federate, data)
    algorithm = FieldingAnalysis(batch_size=3, participants=10, clusterer=TWO)
    state = algorithm.init(fed)
    log = spied(fed)
    after, _ = algorithm.step(state, 0, fed)
    rows = [row for job, row in log if job.client == 0]
    assert len(rows) == 5
    assert len(log) == 10
    assert len({tuple(row.tolist()) for row in rows}) == 5
    torch.testing.assert_close(after.models[state.labels[0]], torch.stack(rows).mean(0))


def test_everyone_is_assigned_to_the_nearest_cluster_at_an_event(script, federate):
    """Client 2 has not drifted, but is in the cluster that is not the nearest to it; client 0's event moves it."""
    fed = sgd(federate, script({0: {0: A, 1: A, 2: A, 3: D, 4: D}, 1: {0: [*A[1:], 1]}}))
    algorithm = FieldingAnalysis(clusterer=TWO, delta_rule=FixedDelta(2.0))
    state = told_apart(algorithm, fed)
    labels = state.labels.clone()
    labels[2] = labels[3]
    after, _ = algorithm.follow(replace(state, labels=labels), 1, fed)
    assert after.labels.tolist() == state.labels.tolist()
    assert torch.equal(after.models, state.models)  # no re-clustering: the average of equal models


def test_re_clustering_averages_the_models_of_clients_and_keeps_k(script, federate):
    """0 and 1 stay nearest to A, 2 and 3 to D, but 0 and 2 now hold mostly C, 1 and 3 mostly B: pairs of a cluster are
    1.25 apart, across .75 (0 and 2, 1 and 3) or 2. Both new models are means of the two old ones."""
    after = {0: A[:3] + C[:5], 1: A[:3] + B[:5], 2: D[:3] + C[:5], 3: D[:3] + B[:5]}
    fed = sgd(federate, script({0: {0: A, 1: A, 2: D, 3: D}, 1: after}))
    algorithm = FieldingAnalysis(clusterer=TWO, delta_rule=FixedDelta(0.5))
    state = told_apart(algorithm, fed)
    new, _ = algorithm.follow(state, 1, fed)
    assert new.counts["reclusterings"] == 1
    assert new.labels[0] == new.labels[2] != new.labels[1] == new.labels[3]
    torch.testing.assert_close(new.models, state.models.mean(0).expand(2, -1))
    assert new.delta == 0.5


def test_the_threshold_and_the_number_of_clusters_are_given():
    algorithm = FieldingAnalysis()
    assert algorithm.delta_rule.update(0.1, True, True) == algorithm.delta_rule.initial
    assert isinstance(algorithm.clusterer, KCentre)
    assert isinstance(algorithm.selection, WithReplacement)
    assert algorithm.server.by == "uniform"
    assert algorithm.title == "FieldingAnalysis"


def test_what_would_be_another_algorithm_is_refused(script, federate):
    with pytest.raises(UserError, match="local_steps"):
        FieldingAnalysis(local_steps=20)
    with pytest.raises(UserError, match="local_steps"):
        FieldingAnalysis(local_steps=None)
    data = script({0: {0: A, 1: D}})
    adam = MLP(data.num_classes, data.input_shape, hidden=(), optimizer="adam")
    with pytest.raises(UserError, match="optimizer sgd"):
        FieldingAnalysis().init(federate(data, module=adam))


def test_nesterov_in_one_group_of_parameters_is_enough_to_be_refused():
    one, two = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    groups = [{"params": [one], "nesterov": True, "momentum": 0.9}, {"params": [two]}]
    fed = SimpleNamespace(optimizer=torch.optim.SGD(groups, lr=0.1))
    with pytest.raises(UserError, match="Nesterov"):
        FieldingAnalysis().init(fed)
