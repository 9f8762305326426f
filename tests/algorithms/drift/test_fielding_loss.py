"""FIELDING's clients that track their training loss: who asks for re-clustering, and what that does."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from flcluster.algorithms import Fielding, LossTriggeredFielding
from flcluster.algorithms.drift.fielding_loss import watched
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.protocol import Cohort, Round

COMMON = {"local_epochs": 1, "batch_size": 8}
ALL = [0, 1, 2, 3] * 4


@pytest.fixture
def told(result):
    """Make what a round's participants tell: losses by client."""

    def make(**losses):
        return [replace(result(int(name[1:]), [0.0]), loss=loss) for name, loss in losses.items()]

    return make


def test_a_rise_is_more_than_the_threshold_above_the_last_loss(told):
    """Rise .25: client 0 by .5 has one, client 1 by .25 has not, client 2 fell, client 3 has nothing to compare."""
    last = torch.tensor([1.0, 1.0, 1.0, math.nan, 7.0])
    new, risen = watched(last, told(c3=9.0, c0=1.5, c1=1.25, c2=0.5), 0.25)
    assert risen.tolist() == [0]
    assert new.tolist() == [1.5, 1.25, 0.5, 9.0, 7.0]
    assert last[0] == 1.0


def test_models_that_are_not_finite_or_not_trained_tell_nothing(told, result):
    broken = replace(result(0, [math.nan]), loss=9.0)
    idle = replace(result(1, [0.0]), loss=9.0, steps=0)
    new, risen = watched(torch.ones(2), [broken, idle], 0.0)
    assert (new.tolist(), risen.tolist()) == ([1.0, 1.0], [])


def stated(algorithm, fed, losses):
    state = algorithm.init(fed)
    return replace(state, losses=torch.tensor(losses, dtype=torch.float64))


def test_one_client_whose_loss_rose_has_all_re_clustered(script, federate, told):
    """Clients 0 and 1 hold label 0, clients 2 and 3 label 3; no pair of a cluster is apart, so that nothing else would
    re-cluster. Nobody's report changes, models are those of before, and Δ adapts as after any event."""
    fed = federate(script({0: {0: [0] * 8, 1: [0] * 8, 2: [3] * 8, 3: [3] * 8}}))
    algorithm = LossTriggeredFielding(**COMMON, rise=0.25)
    state = stated(algorithm, fed, [1.0, 1.0, 1.0, math.nan])
    calm, _ = algorithm.learn(state, 4, Round(Cohort([]), told(c0=1.2, c3=5.0), state.models), fed)
    assert calm.counts["reclusterings"] == calm.counts["requests"] == 0
    assert calm.losses.tolist() == [1.2, 1.0, 1.0, 5.0]
    after, _ = algorithm.learn(calm, 5, Round(Cohort([]), told(c0=2.0, c3=5.1), state.models), fed)
    assert after.counts["reclusterings"] == after.counts["requests"] == 1
    assert after.fired
    assert after.losses.isnan().all()  # the new clusters explain what comes
    assert torch.equal(after.reports, state.reports)
    assert sorted(after.models[after.labels].unique(dim=0).tolist()) == sorted(state.models.unique(dim=0).tolist())
    again = algorithm.event(replace(after, losses=torch.zeros(4, dtype=torch.float64)), np.array([0]), 6, fed)
    assert not again.fired  # not asked for, and no pair is apart
    assert again.losses.isnan().tolist() == [True, False, False, False]


def test_never_re_clustering_wins(script, federate, told):
    fed = federate(script({0: {0: [0] * 8, 1: [0] * 8, 2: [3] * 8, 3: [3] * 8}}))
    algorithm = LossTriggeredFielding(**COMMON, recluster="never")
    state = stated(algorithm, fed, [1.0] * 4)
    after, _ = algorithm.learn(state, 5, Round(Cohort([]), told(c0=9.0), state.models), fed)
    assert (after.counts["reclusterings"], after.counts["requests"]) == (0, 1)


def test_who_asks_reports_what_it_holds_now(script, federate, told):
    """Its data changed at round 1, which was not looked at: the report is that of the request, and nothing pends."""
    fed = federate(script({0: {0: [0] * 8, 1: [0] * 8, 2: [3] * 8}, 1: {0: [1] * 8}}))
    algorithm = LossTriggeredFielding(**COMMON)
    state = stated(algorithm, fed, [1.0] * 3)
    state.pending[0] = True
    after, _ = algorithm.learn(state, 1, Round(Cohort([]), told(c0=9.0), state.models), fed)
    assert after.reports[0].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert not after.pending.any()
    assert after.counts["report_bytes"] == state.counts["report_bytes"] + 4 * 4


def swapped_names(script):
    """All labels in equal parts, always; from round 6 on clients 0 to 2 call each class by the name of the next."""
    return script({0: dict.fromkeys(range(6), (ALL, 0)), 6: dict.fromkeys(range(3), (ALL, 1))})


@pytest.mark.parametrize(("kind", "least"), [(LossTriggeredFielding, 1), (Fielding, 0)])
def test_hidden_concept_drift_is_seen_by_losses_alone(kind, least, script, federate):
    """Label histograms stay; the losses of the clients that changed jump."""
    fed = federate(swapped_names(script), lr=0.5)
    loop = make_loop(kind(local_epochs=3, batch_size=8, rounds=10, measure="all"), fed, None, None)
    loop.begin()
    found = []
    for _ in range(10):
        loop.advance()
        found.append(loop.gauges()["reclusterings"])
    assert found[5] == 0
    assert (found[6] >= 1) == bool(least)


def test_a_visible_change_is_no_rise(script, federate):
    """At round 6 client 0 changes to other labels and says so: its loss rises, and nobody asks."""
    data = script({0: dict.fromkeys(range(4), (ALL, 0)), 6: {0: ([1] * 16, 2)}})
    fed = federate(data, lr=0.5)
    loop = make_loop(LossTriggeredFielding(local_epochs=3, batch_size=8, rounds=8, measure="all"), fed, None, None)
    loop.begin()
    for _ in range(8):
        loop.advance()
    assert loop.gauges()["requests"] == 0


def test_its_name_and_its_threshold():
    assert LossTriggeredFielding().title == "LossTriggeredFielding"
    with pytest.raises(UserError, match="rise"):
        LossTriggeredFielding(rise=-0.1)
