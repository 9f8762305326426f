"""FedDrift step by step, with softmax regressions whose accuracies are written down, as its public code goes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms import FedDrift
from flcluster.algorithms.drift.feddrift import DriftState, clusters_of, merge_groups
from flcluster.datamodules import LabelSwaps, StreamDigits

EXAMPLES = settings(deadline=None, max_examples=80, database=None)
CLASSES = 4


def knowing(concept, right=CLASSES):
    """A model that names the classes below ``right`` as a concept does, and each other class by the name after."""
    weight = torch.zeros(CLASSES, 6)
    for c in range(CLASSES):
        weight[(c + concept + (c >= right)) % CLASSES, c] = 10.0
    return torch.cat([weight.flatten(), torch.zeros(CLASSES)])


def models(*rows):
    return torch.stack(rows)


def ints(*values):
    return torch.tensor(values, dtype=torch.int64)


def stated(algorithm, fed, rows, **changes):
    """A first state with other models."""
    state = algorithm.init(fed)
    labels = changes.get("assigned", state.assigned)[-1]
    return replace(state, models=rows, alone=torch.full((len(rows),), -1), labels=labels, **changes)


# --------------------------------------------------------------------------------------------------------- clustering


def plain_complete_linkage(scores, cut):
    """Merge the two nearest groups, by the largest distance between their members, while it is at most ``cut``."""
    n = len(scores)
    apart = [
        [max(scores[i][i] - scores[i][j], scores[j][j] - scores[j][i], 0.0) if i != j else 0.0 for j in range(n)]
        for i in range(n)
    ]
    groups = [[i] for i in range(n)]
    while len(groups) > 1:
        pairs = [
            (max(apart[i][j] for i in a for j in b), x, y)
            for x, a in enumerate(groups)
            for y, b in enumerate(groups)
            if x < y
        ]
        least, x, y = min(pairs)
        if least > cut:
            break
        groups = [g for z, g in enumerate(groups) if z not in (x, y)] + [groups[x] + groups[y]]
    return {frozenset(g) for g in groups}


def partition(labels):
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)}


@EXAMPLES
@given(st.integers(2, 6), st.integers(0, 2**32), st.sampled_from([0.05, 0.2, 0.4]))
def test_models_are_clustered_by_complete_linkage(n, seed, cut):
    """The larger of the two falls in accuracy; every model does best at home here, so no two distances are equal."""
    draw = np.random.default_rng(seed)
    scores = draw.uniform(0.3, 0.9, (n, n))
    np.fill_diagonal(scores, draw.uniform(0.9, 1.0, n))
    assert partition(clusters_of(scores, cut)) == plain_complete_linkage(scores.tolist(), cut)


def test_either_fall_keeps_models_apart():
    """Model 0 does as well on both data, model 1 falls by .3 on model 0's: they stay apart at .2 and merge at .3."""
    scores = np.array([[0.75, 0.75], [0.5, 0.8125]])
    assert len(partition(clusters_of(scores, 0.2))) == 2
    assert len(partition(clusters_of(scores, 0.3125))) == 1


def test_doing_better_on_other_data_is_no_distance():
    scores = np.array([[0.5, 0.9], [0.9, 0.5]])
    assert len(partition(clusters_of(scores, 0.01))) == 1


def test_a_chain_is_not_merged_whole():
    """0–1 and 1–2 are near, 0–2 is not: complete linkage keeps one of them out."""
    scores = np.array([[0.9, 0.85, 0.3], [0.86, 0.9, 0.85], [0.3, 0.85, 0.9]])
    assert sorted(map(len, partition(clusters_of(scores, 0.1)))) == [1, 2]


def test_merged_models_are_weighed_by_their_contributions():
    """Steps × clients: model 0 has 3 contributions, model 1 one, model 2 two; −1 counts for nobody."""
    state = DriftState(
        models=torch.tensor([[0.0, 8.0], [4.0, 0.0], [5.0, 5.0]]),
        assigned=torch.tensor([[0, 0, 2, -1], [0, 1, 2, -1]]),
        labels=ints(0, 1, 2, -1),
        best=torch.zeros(4),
        alone=ints(0, 0, 1),
        counts={"merges": 2.0, "drifts": 1.0},
    )
    found = merge_groups(state, [[0, 1], [2]])
    assert found.models.tolist() == [[1.0, 6.0], [5.0, 5.0]]
    assert found.assigned.tolist() == [[0, 0, 1, -1], [0, 0, 1, -1]]
    assert found.labels.tolist() == [0, 0, 1, -1]
    assert found.alone.tolist() == [0, 1]
    assert found.counts == {"merges": 3.0, "drifts": 1.0}


def test_a_model_that_nobody_contributes_to_is_dropped():
    rows = torch.tensor([[1.0], [2.0], [3.0]])
    state = DriftState(rows, ints(2, 0)[None], ints(2, 0), torch.zeros(2), ints(0, 0, 0), {"merges": 0.0})
    found = merge_groups(state, [[0], [2]])
    assert found.models.tolist() == [[1.0], [3.0]]
    assert found.assigned.tolist() == [[1, 0]]


# ---------------------------------------------------------------------------------------------------------------- drift

ALL = [0, 1, 2, 3] * 4


def test_one_model_at_first(script, federate):
    fed = federate(script({0: {0: ALL, 1: ALL, 2: []}}))
    state = FedDrift().init(fed)
    assert torch.equal(state.models, fed.init_rows(1))
    assert state.assigned.tolist() == [[0, 0, -1]]


def steps(script, changes, clients=2, keep=1, **kwargs):
    """Everybody holds all four labels of concept 0 at first; later rounds bring what is given, instead of that."""
    return script({0: {m: (ALL, 0) for m in range(clients)}, **changes}, keep=keep, noise=0.0, **kwargs)


def stepped(algorithm, state, t, fed):
    return algorithm.next_step(state, t, fed)


@pytest.mark.parametrize(("right", "drifts"), [(4, 0), (3, 0), (2, 1), (0, 1)])
def test_drift_is_a_fall_by_more_than_delta(right, drifts, script, federate):
    """δ = .25, the last best accuracy 1. New data in equal parts of four labels, of which the model knows some: falls
    of 0, .25 (not more than δ), .5 and 1."""
    fed = federate(steps(script, {1: {0: (ALL, 0), 1: (ALL, 0)}}))
    algorithm = FedDrift(delta=0.25, merge=0.0)
    state = stated(algorithm, fed, models(knowing(0, right)), best=torch.tensor([1.0, 0.25]))
    after = stepped(algorithm, state, 1, fed)
    assert after.counts["drifts"] == drifts
    assert len(after.models) == 1 + drifts
    assert after.assigned.tolist() == [[0, 0], [drifts, 0]]
    assert after.best.tolist() == [right / 4, right / 4]


def test_the_first_step_has_nothing_to_fall_from(script, federate):
    fed = federate(steps(script, {1: {0: (ALL, 1)}}))
    algorithm = FedDrift(delta=0.1)
    after = stepped(algorithm, stated(algorithm, fed, models(knowing(0))), 1, fed)
    assert len(after.models) == 1
    assert after.best.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("keep", "drifts", "best"), [(2, 0, 20 / 32), (1, 1, 4 / 16)])
def test_a_steps_data_are_all_that_the_client_holds(keep, drifts, best, script, federate):
    """Sixteen samples that the model knows and sixteen of which it knows four: .625 of the two together, or, where the
    old ones have left the window, .25. A fall from 1 by more than δ = .5 is drift."""
    new = ([0] * 4 + [3] * 12, 0)
    old = ([0, 1, 2] * 5 + [0], 0)
    fed = federate(script({0: {0: old}, 1: {0: new}}, keep=keep, noise=0.0))
    algorithm = FedDrift(delta=0.5, merge=0.0)
    state = stated(algorithm, fed, models(knowing(0, right=3)), best=torch.ones(1))
    after = stepped(algorithm, state, 1, fed)
    assert after.counts["drifts"] == drifts
    assert after.best.tolist() == [best]
    assert len(after.models) == 1 + drifts


def test_a_clients_best_model_is_that_of_all_it_holds(script, federate):
    """Of concept 0 it holds sixteen samples, then four of concept 1 come: model 0 is right on .8 of them, model 1 on
    .2. By the newest alone it would be model 1."""
    fed = federate(script({0: {0: (ALL, 0)}, 1: {0: ([0, 1, 2, 3], 1)}}, keep=2, noise=0.0))
    algorithm = FedDrift(delta=0.25)
    state = stated(algorithm, fed, models(knowing(0), knowing(1)), best=torch.ones(1))
    after = stepped(algorithm, state, 1, fed)
    assert after.best.tolist() == [pytest.approx(0.8)]
    assert after.labels.tolist() == algorithm.served(after, 1, fed).labels.tolist() == [0]
    assert after.counts["drifts"] == 0


def test_a_client_whose_data_stay_chooses_again_too(script, federate):
    """Data of client 0 change, those of client 1 do not: it has found no model that knows its concept so far."""
    fed = federate(script({0: {0: (ALL, 0), 1: (ALL, 1)}, 1: {0: (ALL, 0)}}, noise=0.0))
    algorithm = FedDrift(delta=0.25, merge=0.0)
    state = stated(algorithm, fed, models(knowing(0), knowing(1)), best=torch.tensor([1.0, 0.0]))
    after = stepped(algorithm, replace(state, labels=ints(0, 0)), 1, fed)
    assert after.labels.tolist() == [0, 1]
    assert after.assigned.tolist() == [[0, 0], [0, 1]]
    assert after.best.tolist() == [1.0, 1.0]


def test_clients_choose_the_best_model_and_a_new_one_begins_as_the_best(script, federate):
    """Model 0 knows concept 0, model 1 concept 1 but for label 3. Clients 0 and 1 turn to concept 1, client 2 not."""
    fed = federate(steps(script, {1: {0: (ALL, 1), 1: ([0, 0, 3, 3], 1), 2: (ALL, 0)}}, clients=3))
    algorithm = FedDrift(delta=0.25, merge=0.0)
    rows = models(knowing(0), knowing(1, right=3))
    state = stated(algorithm, fed, rows, best=torch.ones(3), assigned=ints(0, 0, 1)[None])
    after = stepped(algorithm, state, 1, fed)
    # client 0: .75 with model 1, a fall of .25; client 1: .5 with model 1, a fall of .5; client 2: 1 with model 0
    assert after.best.tolist() == [0.75, 0.5, 1.0]
    assert after.counts["drifts"] == 1
    new = int(after.assigned[1, 1])
    assert after.assigned[1].tolist() == [1, new, 0]
    assert new == 2
    assert torch.equal(after.models[new], rows[1])
    assert after.assigned[0].tolist() == [0, 0, 1]


def test_a_new_model_is_isolated_for_one_step(script, federate):
    """Client 0 drifts at step 1 and gets a copy of model 0; at step 2 others may use what has become of it."""
    fed = federate(steps(script, {1: {0: (ALL, 1)}, 2: {0: (ALL, 1), 1: (ALL, 1)}}, clients=3))
    algorithm = FedDrift(delta=0.25)
    state = stepped(algorithm, stated(algorithm, fed, models(knowing(0)), best=torch.ones(3)), 1, fed)
    assert torch.equal(state.models, models(knowing(0), knowing(0)))
    assert state.assigned.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert state.labels.tolist() == [1, 0, 0]
    state = replace(state, models=models(knowing(0), knowing(1)))  # what training made of the copy
    later = stepped(algorithm, state, 2, fed)
    assert later.assigned[2].tolist() == [1, 1, 0]
    assert later.labels.tolist() == [1, 1, 0]  # client 1 finds the model that client 0 began
    assert later.counts["drifts"] == 1
    assert len(later.models) == 2  # each is wrong on the other's data


def test_a_new_model_is_not_merged_while_it_is_isolated(script, federate):
    """Client 0 is made to drift by a best accuracy that no model can reach. What training makes of its model knows
    label 3 too, which model 0 does not and client 1 does not hold: on client 0's data model 0 falls by .25, up to δ."""
    some = ([0, 1, 2] * 4, 0)
    fed = federate(script({0: {0: (ALL, 0), 1: some}, 1: {0: (ALL, 0)}, 2: {0: (ALL, 0)}}, noise=0.0))
    algorithm = FedDrift(delta=0.25)
    state = stated(algorithm, fed, models(knowing(0, right=3)), best=torch.tensor([2.0, 1.0]))
    state = stepped(algorithm, state, 1, fed)
    assert (len(state.models), state.counts["merges"]) == (2, 0)
    state = replace(state, models=models(knowing(0, right=3), knowing(0)))
    state = stepped(algorithm, state, 2, fed)
    assert (len(state.models), state.counts["merges"]) == (1, 1)
    # contributions: client 0 at steps 1 and 2 against itself at step 0 and client 1 at three steps
    torch.testing.assert_close(state.models[0], (4 * knowing(0, right=3) + 2 * knowing(0)) / 6)


def test_longer_isolation(script, federate):
    """W = 2: at the next step client 0 stays with its own model, whatever it does, and nobody else looks at it."""
    fed = federate(steps(script, {1: {0: (ALL, 1)}, 2: {0: (ALL, 0), 1: (ALL, 1)}, 3: {0: (ALL, 0)}}))
    algorithm = FedDrift(delta=0.25, isolation=2)
    state = stepped(algorithm, stated(algorithm, fed, models(knowing(0)), best=torch.ones(2)), 1, fed)
    state = replace(state, models=models(knowing(0), knowing(1)))
    state = stepped(algorithm, state, 2, fed)
    assert state.assigned[2].tolist() == [1, 2]  # client 1 cannot see model 1, and begins its own
    assert state.best[0] == 0.0  # as at step 1: an isolated client is not measured
    state = stepped(algorithm, state, 3, fed)
    assert state.assigned[3, 0] == 0


@pytest.mark.parametrize(("cut", "count"), [(0.5, 1), (0.25, 1), (0.2, 2), (None, 1)])
def test_models_merge_up_to_the_cut(cut, count, script, federate):
    """Model 0 does not know label 3, which its own data lack: on model 1's data it falls by .25. δ′ is δ if not given.

    Both clients' data belonged to model 1 before: it has three contributions now, model 0 one.
    """
    some = [0, 1, 2] * 4
    data = script({0: {0: (ALL, 0), 1: (ALL, 0)}, 1: {0: (ALL, 0), 1: (some, 0)}}, noise=0.0)
    fed, rows = federate(data), models(knowing(0, right=3), knowing(0))
    algorithm = FedDrift(delta=0.25, merge=cut)
    state = stated(algorithm, fed, rows, best=torch.ones(2), assigned=ints(1, 1)[None])
    after = stepped(algorithm, state, 1, fed)
    assert len(after.models) == count
    assert after.counts["merges"] == 2 - count
    if count == 1:
        torch.testing.assert_close(after.models[0], 0.25 * rows[0] + 0.75 * rows[1])
        assert after.assigned.tolist() == [[0, 0], [0, 0]]
    else:
        assert torch.equal(after.models, rows)
        assert after.assigned.tolist() == [[1, 1], [1, 0]]


def test_merging_looks_at_all_that_clients_hold(script, federate):
    """Client 0 holds old samples of label 3, which model 0 does not know, and new ones that it does: on all of them it
    falls by .5, more than δ′. By the newest alone the two models do alike."""
    data = script({0: {0: ([3] * 4, 0), 1: ([0] * 4, 0)}, 1: {0: ([0, 1, 2, 0], 0)}}, keep=2, noise=0.0)
    fed, rows = federate(data), models(knowing(0, right=3), knowing(0))
    algorithm = FedDrift(delta=0.25)
    state = stated(algorithm, fed, rows, best=torch.ones(2), assigned=ints(1, 0)[None])
    after = stepped(algorithm, state, 1, fed)
    assert torch.equal(after.models, rows)
    assert after.labels.tolist() == [1, 0]


def test_a_client_without_data_contributes_nothing_to_a_step(script, federate):
    """Client 1 holds nothing at step 1. The models merge: model 0 has client 0 at both steps, model 1 has clients 1 and
    2 at step 0 and client 2 at step 1."""
    some = ([0, 1, 2] * 4, 0)
    fed = federate(script({0: {0: some, 1: (ALL, 0), 2: (ALL, 0)}, 1: {1: []}}, noise=0.0))
    algorithm, rows = FedDrift(delta=0.25), models(knowing(0, right=3), knowing(0))
    state = stated(algorithm, fed, rows, best=torch.ones(3), assigned=ints(0, 1, 1)[None])
    after = stepped(algorithm, state, 1, fed)
    torch.testing.assert_close(after.models, (2 * rows[0] + 3 * rows[1])[None] / 5)
    assert after.assigned.tolist() == [[0, 0, 0], [0, -1, 0]]
    assert after.labels.tolist() == [0, 0, 0]  # it keeps the model it had


def test_the_cap_on_models_leaves_a_client_with_its_best(script, federate):
    fed = federate(steps(script, {1: {0: (ALL, 1), 1: (ALL, 1)}}))
    algorithm = FedDrift(delta=0.1, max_models=2)
    after = stepped(algorithm, stated(algorithm, fed, models(knowing(0)), best=torch.ones(2)), 1, fed)
    assert len(after.models) == 2
    assert after.assigned[1].tolist() == [1, 0]


def test_every_evaluation_is_counted_once(script, federate):
    """One of two clients takes part: that it tries all models is told with its training, of the other as reports."""
    fed = federate(steps(script, {1: {1: ([0] * 4, 0)}}))
    algorithm = FedDrift(delta=0.25, participants=1, local_epochs=1, batch_size=8)
    state = stated(algorithm, fed, models(knowing(0), knowing(1)), best=torch.ones(2))
    after, done = algorithm.step(state, 1, fed)
    (client,), tried = done.cohort.clients, len(after.models)
    assert tried > 1
    assert done.cost(0) == (1, tried, tried)
    other = int(fed.data.sizes(1)[1 - client])
    assert (after.counts["report_compute"], after.counts["report_bytes"]) == (
        tried * other,
        tried * fed.layout.row_bytes,
    )
    calm, _ = algorithm.step(after, 5, fed)  # nothing changed: nobody tries anything
    assert calm.counts == after.counts


# ------------------------------------------------------------------------------------------------------------- training


def test_each_model_is_trained_on_all_data_that_belong_to_it(script, federate, spied):
    """All that client 0 holds, old and new, belongs to model 1; that of the others to model 0, weighted by size."""
    fed = federate(steps(script, {3: {0: ([0, 1], 1), 1: ([2] * 6, 0)}}, clients=3, keep=2))
    algorithm = FedDrift(local_epochs=1, batch_size=8)
    rows = models(knowing(0), knowing(1))
    state = stated(algorithm, fed, rows, assigned=torch.tensor([[0, 0, 0], [1, 0, 0]]))
    log = spied(fed)
    after, done = algorithm.step(state, 4, fed)  # no new data
    found = [(job.client, next(k for k in (0, 1) if torch.equal(job.start, rows[k])), len(job.view)) for job, _ in log]
    assert sorted(found) == [(0, 1, 18), (1, 0, 22), (2, 0, 16)]
    row_of = {job.client: row for job, row in log}
    expected = (22 * row_of[1].double() + 16 * row_of[2].double()) / 38
    torch.testing.assert_close(after.models[0].double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(after.models[1], row_of[0])
    assert algorithm.served(after, 4, fed).labels.tolist() == [1, 0, 0]
    assert done.cohort.labels == [1, 0, 0]


def test_data_seen_in_a_new_way_are_new_data(federate):
    """Labels swapped at round 5: a step begins, and accuracies are those on what clients hold as they see it then."""
    data = StreamDigits(num_clients=6, static=True, shift=LabelSwaps(share=0.5, at=[5]))
    data.setup()
    fed = federate(data)
    changed = data.drifted(5)
    assert 0 < len(changed) < 6
    algorithm = FedDrift(delta=0.25, local_steps=1, batch_size=8)
    row = 5 * fed.init_rows(1)
    before = [fed.accuracy(row[0], data.shard(m, 0).train) for m in range(6)]
    now = [fed.accuracy(row[0], data.shard(m, 5).train) for m in range(6)]
    assert any(before[m] != now[m] for m in changed)
    best = torch.tensor([2.0 if m in changed else 0.0 for m in range(6)])  # a fall for those alone
    after = stepped(algorithm, stated(algorithm, fed, row, best=best), 5, fed)
    assert after.best.tolist() == pytest.approx(now)
    assert (after.labels > 0).nonzero().flatten().tolist() == changed.tolist()
    assert after.counts["drifts"] == len(changed)


def test_models_without_data_give_way_at_the_cap(script, federate):
    """Two models are the most; the data of model 1 have left the window when client 0 drifts again."""
    data = script({0: {0: (ALL, 0), 1: (ALL, 0)}, 1: {0: (ALL, 1)}, 2: {0: (ALL, 0), 1: (ALL, 0)}}, keep=1, noise=0.0)
    fed, algorithm = federate(data), FedDrift(delta=0.25, max_models=2, merge=0.0)
    state = stepped(algorithm, stated(algorithm, fed, models(knowing(0)), best=torch.ones(2)), 1, fed)
    state = replace(state, models=models(knowing(0), knowing(1)))
    after = stepped(algorithm, state, 2, fed)
    assert after.labels.tolist() == [0, 0]
    assert torch.equal(after.models, models(knowing(0)))


def test_time_grows_with_what_a_client_trains_and_tries(script, federate, given_devices):
    """One client, devices of 1 ms a sample and 1 kbps: one model to train; at a step all three come down."""
    fed = federate(steps(script, {3: {0: ([0, 1], 1)}}, clients=1, keep=2))
    algorithm = FedDrift(local_epochs=1, batch_size=8, devices=given_devices([1.0], [1.0]))
    rows = models(knowing(0), knowing(1), knowing(2))
    state = stated(algorithm, fed, rows, assigned=torch.tensor([[0], [1]]))
    _, done = algorithm.step(state, 4, fed)
    wire = fed.layout.row_bytes * 8 / 1000
    assert done.cohort.seconds == pytest.approx(3 * 18 / 1000 + (1 + 1) * wire)
    cohort = algorithm.select(4, fed, downloads=3, forwards=3)
    assert cohort.seconds == pytest.approx((3 * 18 + 3 * 18) / 1000 + (3 + 1) * wire)


def test_a_round_with_new_data_begins_with_a_step(script, federate):
    fed = federate(steps(script, {2: {0: (ALL, 1)}}))
    algorithm = FedDrift(local_epochs=1, batch_size=8, delta=0.25)
    state = stated(algorithm, fed, models(knowing(0)), best=torch.ones(2))
    state, _ = algorithm.step(state, 1, fed)
    assert len(state.assigned) == 1
    state, _ = algorithm.step(state, 2, fed)
    assert len(state.assigned) == 2
    assert len(state.models) == 2
    assert algorithm.gauges(state)["drifts"] == 1


def test_two_concepts_end_up_with_two_models(script, federate):
    """Six clients; at round 4 half of them turn to concept 2, at 8 and 12 more of the same comes."""
    change = {m: (ALL, 2) for m in range(3)} | {m: (ALL, 0) for m in range(3, 6)}
    same = dict.fromkeys(range(6), (ALL, 0))
    data = script({0: same, 2: same, 4: change, 8: change, 12: change}, keep=2)
    fed = federate(data, lr=0.5)
    algorithm = FedDrift(local_epochs=5, batch_size=8, delta=0.3)
    state = algorithm.init(fed)
    for t in range(16):
        state, _ = algorithm.step(state, t, fed)
    labels = algorithm.served(state, 15, fed).labels
    assert len(set(labels[:3])) == len(set(labels[3:])) == 1
    assert labels[0] != labels[3]
    assert fed.client_accuracies(state.models, labels, 15).min() > 0.9
