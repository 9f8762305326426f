"""FIELDING's ablations: who re-clusters, who moves, and who is heard."""

import pytest
import torch
from fielding_corners import COMMON, A, B, C, D, Noting

from flcluster.algorithms import AlwaysRecluster, Fielding, MoveIndividuals, SelectedOnly, StaticClustering


def driven(algorithm, fed, rounds):
    state = algorithm.init(fed)
    for t in range(rounds):
        state, _ = algorithm.step(state, t, fed)
    return state


def all_change(script):
    """Eight clients; at rounds 1 and 3 half of them go round the corners, at 2 the data repeat."""
    corners = [A, B, C, D]
    return script(
        {
            0: {m: corners[m % 2] for m in range(8)},
            1: {m: corners[2 + m % 2] for m in range(0, 8, 2)},
            3: {m: corners[(m // 2) % 4] for m in range(8)},
        },
        also={2: [0, 1]},
    )


@pytest.mark.parametrize(
    ("kind", "reclusterings"), [(AlwaysRecluster, 2), (MoveIndividuals, 0), (StaticClustering, 0), (Fielding, 1)]
)
def test_how_often_everyone_is_re_clustered(kind, reclusterings, script, federate):
    """Always: at both events. Never: not at all. Selective: at 1 those who change (all the A's, to C) are still alike,
    and so a pair is beyond Δ only at 3."""
    fed = federate(all_change(script))
    algorithm = kind(**COMMON, clusterer=Noting())
    state = driven(algorithm, fed, 5)
    assert algorithm.gauges(state)["reclusterings"] == reclusterings
    assert algorithm.recluster == {AlwaysRecluster: "always", Fielding: "selective"}.get(kind, "never")


def test_static_clustering_never_moves(script, federate):
    fed = federate(all_change(script))
    algorithm = StaticClustering(**COMMON, clusterer=Noting())
    state = driven(algorithm, fed, 5)
    assert state.labels.tolist() == [0, 1] * 4
    assert algorithm.gauges(state)["moved"] == 0
    assert len(algorithm.clusterer.asked) == 1


def test_moving_alone_never_makes_a_cluster(script, federate):
    fed = federate(all_change(script))
    algorithm = MoveIndividuals(**COMMON, clusterer=Noting())
    state = algorithm.init(fed)
    for t in range(5):
        before = len(state.models)
        state, _ = algorithm.step(state, t, fed)
        assert len(state.models) <= before
    assert len(algorithm.clusterer.asked) == 1


def test_selected_only_hears_of_participants_after_they_have_trained(script, federate, spied):
    """All clients change at round 1; only some a round take part, trained where they were, and are known from then."""
    story = {0: {m: [A, B][m % 2] for m in range(16)}, 1: {m: [C, D][m % 2] for m in range(16)}}
    fed = federate(script(story))
    algorithm = SelectedOnly(**COMMON, participants=4, clusterer=Noting())
    state = algorithm.init(fed)
    state, _ = algorithm.step(state, 0, fed)  # nothing new
    assert state.labels.tolist() == [0, 1] * 8
    heard = set()
    for t in range(1, 4):
        log, before = spied(fed), state
        state, done = algorithm.step(state, t, fed)
        here = {r.client for r in done.results}
        assert all(torch.equal(job.start, before.models[before.labels[job.client]]) for job, _ in log)
        heard |= here
        for m in range(16):
            now = fed.data.pieces(m, t if m in heard else 0)[0][1][0]
            assert state.reports[m].argmax() == now
    assert 4 < len(heard) < 16
    assert algorithm.gauges(state)["reclusterings"] > 0


def test_selected_only_lets_late_clients_register(script, federate):
    """A client that comes later reports on registration like everyone else, or it could never be selected."""
    fed = federate(script({0: {0: A, 1: A, 2: B, 3: B}, 1: {4: B}}))
    algorithm = SelectedOnly(**COMMON, clusterer=Noting())
    state = algorithm.init(fed)
    for t in range(4):
        state, done = algorithm.step(state, t, fed)
    assert state.labels[4] == state.labels[2]
    assert 4 in [r.client for r in done.results]
