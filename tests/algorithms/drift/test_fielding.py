"""FIELDING's coordinator, step by step on data written down here: registration, drift events, Δ and reports."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from fielding_corners import COMMON, A, B, C, D, Noting, Together, groups, told_apart

from flcluster.algorithms import AlwaysRecluster, Fielding, MoveIndividuals, StaticClustering, Yogi
from flcluster.algorithms.drift.triggers import FixedDelta, HoldOnSingle
from flcluster.clustering.kmeans import Clusterer, Clustering, KMeansBySilhouette, centres_of
from flcluster.errors import UserError

# -------------------------------------------------------------------------------------------------------- registration


def test_clients_register_once_and_all_models_begin_as_one(script, federate):
    fed, clusterer = federate(script({0: {0: A, 1: A, 2: B, 3: B, 4: C}})), Noting()
    algorithm = Fielding(**COMMON, clusterer=clusterer)
    state = algorithm.init(fed)
    assert len(clusterer.asked) == 1
    points, event = clusterer.asked[0]
    assert event == 0
    assert points.tolist() == np.eye(4)[[0, 0, 1, 1, 2]].tolist()
    assert state.labels.tolist() == [0, 0, 1, 1, 2]
    assert torch.equal(state.models, fed.init_rows(1).expand(3, -1))
    assert state.reports.tolist() == points.tolist()
    assert state.centres.tolist() == np.eye(4)[:3].tolist()
    gauges = algorithm.gauges(state)
    assert (gauges["reclusterings"], gauges["moved"], gauges["max_distance"]) == (0, 0, 0)
    assert gauges["delta"] == 0.1
    later, _ = algorithm.follow(state, 1, fed)  # nothing changed
    assert later.labels is state.labels
    assert len(clusterer.asked) == 1


def test_the_number_of_clusters_is_found(script, federate):
    """Three well-separated kinds of four clients each, no two alike: by silhouette, K = 3."""
    held = {m: [m % 3] * 30 + [(m + 1) % 3] * (1 + m // 3) + [3] * (m % 5) for m in range(12)}
    fed = federate(script({0: held}))
    state = Fielding(**COMMON).init(fed)
    assert groups(state.labels) == {frozenset(range(k, 12, 3)) for k in range(3)}


def test_one_cluster_if_everyone_holds_the_same(script, federate):
    state = Fielding(**COMMON).init(federate(script({0: dict.fromkeys(range(5), A)})))
    assert len(state.models) == 1
    assert state.labels.tolist() == [0] * 5


def test_nobody_with_data_is_an_error(script, federate):
    with pytest.raises(UserError, match="round 0"):
        Fielding(**COMMON).init(federate(script({0: {0: [], 1: []}})))


# -------------------------------------------------------------------------------------------------------- drift events


def test_drifted_clients_move_to_the_nearest_centre_and_nobody_else_does(script, federate):
    """(a), (b): client 1 becomes a B, client 3 nearly so but stays nearer to A; Δ = 2 never re-clusters everyone."""
    near_a = [0] * 5 + [1] * 3
    fed = federate(script({0: {0: A, 1: A, 2: B, 3: A, 4: C}, 1: {1: B, 3: near_a}}))
    clusterer = Noting()
    algorithm = Fielding(**COMMON, clusterer=clusterer, delta_rule=FixedDelta(2.0))
    before = told_apart(algorithm, fed)
    state, seconds = algorithm.follow(before, 1, fed)
    assert seconds == 0
    assert state.labels.tolist() == [0, 1, 1, 0, 2]
    expected = [[(1 + 5 / 8) / 2, 3 / 16, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    torch.testing.assert_close(state.centres, torch.tensor(expected))
    assert torch.equal(state.models, before.models)
    assert algorithm.gauges(state)["moved"] == 1
    assert algorithm.gauges(state)["reclusterings"] == 0
    assert len(clusterer.asked) == 1
    assert before.labels.tolist() == [0, 0, 1, 0, 2]  # the state before is as it was


def test_a_cluster_that_loses_everyone_is_dropped(script, federate):
    fed = federate(script({0: {0: A, 1: B, 2: C, 3: B}, 1: {1: C, 3: C}}))
    algorithm = MoveIndividuals(**COMMON, clusterer=Noting(), server=Yogi())
    before = told_apart(algorithm, fed)
    before = replace(before, server={name: before.models * 10 for name in ("m", "v")})
    state, _ = algorithm.follow(before, 1, fed)
    assert state.labels.tolist() == [0, 1, 1, 1]
    assert torch.equal(state.models, before.models[[0, 2]])
    assert torch.equal(state.centres, before.centres[[0, 2]])
    assert torch.equal(state.server["m"], before.server["m"][[0, 2]])
    assert algorithm.gauges(state)["moved"] == 2


def test_the_trigger_looks_at_pairs_after_the_move(script, federate):
    """Where the mover was, it would be 2 away from its neighbour; where it goes, all are alike: no re-clustering."""
    fed = federate(script({0: {0: A, 1: A, 2: B, 3: B}, 1: {1: B}}))
    clusterer = Noting()
    algorithm = Fielding(**COMMON, clusterer=clusterer)
    state, _ = algorithm.follow(told_apart(algorithm, fed), 1, fed)
    assert state.labels.tolist() == [0, 1, 1, 1]
    assert len(clusterer.asked) == 1
    assert not state.fired
    assert algorithm.gauges(state)["max_distance"] == 0


def test_a_pair_beyond_delta_re_clusters_everyone(script, federate):
    """(c): client 3 turns from B to C, which is no cluster yet. All five reports are clustered anew, in client order.

    After its move to the first of the equally near clusters, client 3 is of cluster 0; so the model of its new
    cluster is cluster 0's. The old models are 1 and 2.
    """
    fed = federate(script({0: {0: A, 1: A, 2: B, 3: B, 4: A}, 4: {3: C}}))
    clusterer = Noting()
    algorithm = Fielding(**COMMON, clusterer=clusterer)
    state, _ = algorithm.follow(told_apart(algorithm, fed), 4, fed)
    assert len(clusterer.asked) == 2
    points, event = clusterer.asked[1]
    assert event == 4
    assert points.tolist() == np.eye(4)[[0, 0, 1, 2, 0]].tolist()
    assert state.fired
    assert groups(state.labels) == {frozenset({0, 1, 4}), frozenset({2}), frozenset({3})}
    assert state.models[state.labels, 0].tolist() == [1, 1, 2, 1, 1]
    assert state.centres[state.labels].tolist() == state.reports.tolist()
    assert algorithm.gauges(state)["reclusterings"] == 1
    assert algorithm.gauges(state)["moved"] == 1


def test_what_a_client_used_is_taken_after_its_move(script, federate):
    """Two clusters, models 1 and 2. Client 1 moves from A to B, client 4 drifts half-way and makes the trigger fire.

    After the move clients 1, 2, 3 use model 2 and 0, 4 model 1 (4 is as near to A as to B and takes the first). The
    clustering then puts 0 alone and the others together: ((1 → 2) + 2 + 2 + 1)/4 = 1.75; with 1's old model it would
    be 1.5.
    """

    @dataclass(frozen=True)
    class Alone(Clusterer):
        def cluster(self, points, distance, seed, event):
            labels = np.array([0, 1, 1, 1, 1] if event else [0, 0, 1, 1, 0])
            return Clustering(labels, centres_of(points, labels, 2))

    fed = federate(script({0: {0: A, 1: A, 2: B, 3: B, 4: A}, 1: {1: B, 4: C}}))
    algorithm = Fielding(**COMMON, clusterer=Alone())
    state, _ = algorithm.follow(told_apart(algorithm, fed), 1, fed)
    assert state.labels.tolist() == [0, 1, 1, 1, 1]
    assert state.models[:, 0].tolist() == [1.0, 1.75]


def test_against_a_plain_version_on_random_histograms(script, federate):
    """Ten events of random drift, with real clustering: labels, centres, Δ and models as Algorithm 2 has them."""
    random = np.random.default_rng(5)
    clients, events = 14, 10

    def held():
        kind = random.integers(4)
        return sorted(random.choice(4, 10, p=0.1 + 0.6 * np.eye(4)[kind]).tolist())

    story = {0: {m: held() for m in range(clients)}}
    for t in range(1, 2 * events, 2):
        story[t] = {int(m): held() for m in random.choice(clients, 4, replace=False)}
    data = script(story)
    fed, clusterer = federate(data), KMeansBySilhouette(2, 4, n_init=3)
    algorithm = Fielding(**COMMON, clusterer=clusterer)
    state = told_apart(algorithm, fed)
    points = np.array([np.bincount(story[0][m], minlength=4) / 10 for m in range(clients)], dtype=np.float32)
    labels, centres = state.labels.numpy().copy(), state.centres.numpy().astype(np.float64)
    models, delta, fired_before, count, sometimes = state.models[:, 0].numpy().astype(np.float64), 0.1, False, 0, set()
    for t in range(1, 2 * events):
        state, _ = algorithm.follow(state, t, fed)
        if t in story:
            for m, what in story[t].items():
                points[m] = np.bincount(what, minlength=4) / 10
            changed = [m for m in story[t] if story[t][m] != data.pieces(m, t - 1)[-1][1]]
            target = {m: int(np.abs(points[m] - centres).sum(1).round(6).argmin()) for m in changed}
            for m, k in target.items():
                labels[m] = k
            apart = np.abs(points[:, None] - points).sum(2)
            fired = bool((apart[labels[:, None] == labels] > delta + 1e-6).any())
            used = models[labels]
            if fired:
                labels = clusterer.cluster(points, algorithm.metric, fed.seed, t).labels
                models = np.array([used[labels == k].mean() for k in range(labels.max() + 1)])
                count += 1
            else:
                models, labels = models[np.unique(labels)], np.unique(labels, return_inverse=True)[1]
            centres = np.array([points[labels == k].mean(0) for k in range(labels.max() + 1)])
            delta = 2 * delta if fired and fired_before else max(0.1, delta - 0.1)
            fired_before = fired
            sometimes.add(fired)
        assert state.labels.tolist() == labels.tolist()
        np.testing.assert_allclose(state.centres.numpy(), centres, atol=1e-6)
        np.testing.assert_allclose(state.models[:, 0].numpy(), models, rtol=1e-5)
        gauges = algorithm.gauges(state)
        assert (gauges["delta"], gauges["reclusterings"]) == (pytest.approx(delta), count)
    assert sometimes == {True, False}


# -------------------------------------------------------------------------------------------------------------- delta


def drifting(script, rounds, **extra):
    """Client 0 is at another corner at each of some rounds, 2 away from the other A's or (every fourth) back at A."""
    corners = [B, C, D, A]
    return script({0: {0: A, 1: A, 2: A}} | {t: {0: corners[i % 4]} for i, t in enumerate(rounds)}, **extra)


def test_delta_grows_after_two_events_in_a_row_and_falls_otherwise(script, federate):
    """Events at 1, 2, 3, 4, 6, of which 4 (back at A) finds everyone alike: fired, fired, fired, not, fired.

    Printed rule from .1: single trigger max(.1, 0) = .1; two in a row .2; .4; none: .3; single: .2. The clustering at
    the start is no event. Rounds without an event (5) change nothing.
    """
    fed = federate(drifting(script, [1, 2, 3, 4, 6], also={5: [1]}))
    algorithm = Fielding(**COMMON, clusterer=Together())
    state, deltas, fired = algorithm.init(fed), [], []
    for t in range(7):
        state, _ = algorithm.follow(state, t, fed)
        deltas.append(round(algorithm.gauges(state)["delta"], 6))
        fired.append(state.fired)
    assert deltas == [0.1, 0.1, 0.2, 0.4, 0.3, 0.3, 0.2]
    assert fired == [False, True, True, True, False, False, True]
    assert algorithm.gauges(state)["reclusterings"] == 4


def test_an_update_without_an_event_does_not_part_two_in_a_row(script, federate):
    """Events at 1 and 6 are consecutive events though rounds, and an unchanged report at 3, lie between."""
    fed = federate(drifting(script, [1, 6], also={3: [1, 2]}))
    algorithm = Fielding(**COMMON, clusterer=Together(), delta_rule=HoldOnSingle())
    state = algorithm.init(fed)
    for t in range(7):
        state, _ = algorithm.follow(state, t, fed)
    assert algorithm.gauges(state)["delta"] == pytest.approx(0.2)


def test_a_pair_at_delta_is_not_beyond_it(script, federate):
    """Client 0 moves by exactly Δ = .5 in L1: a quarter of eight samples changes the label."""
    fed = federate(script({0: {0: A, 1: A}, 1: {0: [0] * 6 + [1] * 2}, 2: {0: [0] * 5 + [1] * 3}}))
    algorithm = Fielding(**COMMON, clusterer=Together(), delta_rule=FixedDelta(0.5))
    state, _ = algorithm.follow(algorithm.init(fed), 1, fed)
    assert not state.fired
    state, _ = algorithm.follow(state, 2, fed)
    assert state.fired


# ------------------------------------------------------------------------------------------- reports that are not there


def test_equal_reports_make_no_event(script, federate):
    """The same labels in other samples, at a round that the data call a change; Δ and everything else stay."""
    fed = federate(script({0: {0: A, 1: A, 2: B}, 1: {0: [0] * 16, 1: A}}, also={2: [0, 2]}))
    clusterer = Noting()
    algorithm = AlwaysRecluster(**COMMON, clusterer=clusterer)
    state = told_apart(algorithm, fed)
    for t in (1, 2):
        after, _ = algorithm.follow(state, t, fed)
        for name in ("models", "labels", "centres", "reports"):
            assert torch.equal(getattr(after, name), getattr(state, name))
        assert (after.delta, after.fired) == (state.delta, state.fired)
    assert len(clusterer.asked) == 1


def test_an_empty_window_keeps_the_last_report(script, federate):
    """Client 1 loses everything at 1 and comes back as it was at 3; at 5 it comes back otherwise."""
    fed = federate(script({0: {0: A, 1: A, 2: B}, 1: {1: []}, 3: {1: A}, 4: {1: []}, 5: {1: B}}))
    clusterer = Noting()
    algorithm = AlwaysRecluster(**COMMON, clusterer=clusterer)
    state = told_apart(algorithm, fed)
    for t in range(1, 5):
        state, _ = algorithm.follow(state, t, fed)
        assert state.labels.tolist() == [0, 0, 1]
        assert state.reports[1].tolist() == [1, 0, 0, 0]
        assert len(clusterer.asked) == 1
    state, _ = algorithm.follow(state, 5, fed)
    assert state.labels.tolist() == [0, 1, 1]
    assert len(clusterer.asked) == 2


@pytest.mark.parametrize("kind", [Fielding, StaticClustering, MoveIndividuals])
def test_a_client_that_appears_later_joins_the_nearest(kind, script, federate):
    """Client 3 holds nothing until round 2, and then is a B."""
    fed = federate(script({0: {0: A, 1: A, 2: B}, 2: {3: [1] * 7 + [0]}}))
    algorithm = kind(**COMMON, clusterer=Noting(), **({"delta_rule": FixedDelta(2.0)} if kind is Fielding else {}))
    state = told_apart(algorithm, fed)
    assert state.labels.tolist() == [0, 0, 1, -1]
    assert state.reports[3].isnan().all()
    assert algorithm.served(state, 0, fed).labels.tolist()[:3] == [0, 0, 1]
    state, done = algorithm.step(state, 0, fed)
    assert [r.client for r in done.results] == [0, 1, 2]
    state, done = algorithm.step(state, 2, fed)
    assert state.labels.tolist() == [0, 0, 1, 1]
    assert [r.client for r in done.results] == [0, 1, 2, 3]
    torch.testing.assert_close(state.centres[1], torch.tensor([1 / 16, 15 / 16, 0, 0]))
