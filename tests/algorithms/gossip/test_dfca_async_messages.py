"""DFCA without a barrier: what messages weigh, and that none is lost unless a link or a client fails."""

import numpy as np
import pytest
from async_events import CLOSE, COMMON, SOON, trained_rows
from gossip import rows_of, scatter, two_kinds

from flcluster.algorithms import AsyncDFCA
from flcluster.topology.families import Complete, Ring


def test_the_counter_begins_anew_with_each_training(script, federate, spied):
    """With equal paces, every message of the only neighbour has half the weight, in every round."""
    fed = federate(script({0: two_kinds(2, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=1, spread=0.0, latency=SOON, topology=Complete())
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log, previous = spied(fed), None
    for t in range(4):
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        a, b = (row for _, row in trained_rows(log))
        expected = [a, b] if previous is None else [(a + previous[1]) / 2, (b + previous[0]) / 2]
        np.testing.assert_allclose(rows_of(algorithm, fed), expected, **CLOSE)
        previous = a, b


def test_messages_that_never_arrive_change_nothing(script, federate, spied):
    """A latency beyond the end of the run: everything sent is under way, nobody hears anything."""
    fed = federate(script({0: two_kinds(4, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=2, latency=1e12, topology=Complete())
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    expected, log = rows_of(algorithm, fed), spied(fed)
    for t in range(3):
        log.clear()
        state, done = algorithm.step(state, t, fed)
        for (client, row), label in zip(trained_rows(log), done.cohort.labels, strict=True):
            expected[client * 2 + label] = row
        np.testing.assert_array_equal(rows_of(algorithm, fed), expected)
    assert (state.messages, len(state.mail), state.lost) == (36, 36, 0)


def test_failed_links_lose_every_message(script, federate, spied):
    """link_failure = 1: all that is sent is lost, and the rows are those of training alone."""
    fed = federate(script({0: two_kinds(5, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=2, topology=Complete(link_failure=1.0))
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    expected, log = rows_of(algorithm, fed), spied(fed)
    for t in range(4):
        log.clear()
        state, done = algorithm.step(state, t, fed)
        for (client, row), label in zip(trained_rows(log), done.cohort.labels, strict=True):
            expected[client * 2 + label] = row
        np.testing.assert_array_equal(rows_of(algorithm, fed), expected)
        assert sum(done.downloads) == 0
    assert len(state.mail) == 0
    assert state.messages == state.lost == 4 * 5 * 4
    assert algorithm.measures(state, 3, fed)["messages"] == 80


@pytest.mark.parametrize("latency", [0.0, 1.5])
@pytest.mark.parametrize(("failure", "dropout"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.4), (0.3, 0.3)])
def test_no_message_disappears(latency, failure, dropout, script, federate):
    """Sent = taken in + lost + still under way, after every round."""
    fed = federate(script({0: two_kinds(6, 3)}))
    topology = Ring(reach=2, link_failure=failure, node_dropout=dropout)
    algorithm = AsyncDFCA(**COMMON, num_clusters=2, latency=latency, topology=topology)
    state, taken, sent = algorithm.init(fed), 0, 0
    scatter(algorithm, fed)
    for t in range(8):
        state, done = algorithm.step(state, t, fed)
        taken, sent = taken + sum(done.downloads), sent + sum(done.uploads)
        assert state.messages == sent
        assert state.messages == taken + state.lost + len(state.mail)
        assert np.isfinite(rows_of(algorithm, fed)).all()
    assert taken > 0
    assert (state.lost > 0) == (failure + dropout > 0)


def test_about_as_many_messages_fail_as_should(script, federate):
    fed = federate(script({0: two_kinds(10, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=1, topology=Complete(link_failure=0.3))
    state = algorithm.init(fed)
    for t in range(5):
        state, _ = algorithm.step(state, t, fed)
    assert state.messages == 450
    assert 135 - 40 < state.lost < 135 + 40  # 450 · 0.3, ± 4 standard deviations


def test_nobody_is_ever_online(script, federate, spied):
    """The run goes on all the same: no training, no message, models as they were."""
    fed = federate(script({0: two_kinds(4, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=2, topology=Complete(node_dropout=1.0))
    state = algorithm.init(fed)
    before, log = rows_of(algorithm, fed), spied(fed)
    for t in range(3):
        state, done = algorithm.step(state, t, fed)
        assert (log, done.results) == ([], [])
    assert (state.messages, len(state.mail)) == (0, 0)
    assert np.array_equal(rows_of(algorithm, fed), before)


def test_a_failed_training_is_not_sent(script, federate, broken):
    """Its client keeps the model it had, and no NaN reaches anybody."""
    fed = federate(script({0: two_kinds(4, 3)}))
    broken(fed, 1)
    algorithm = AsyncDFCA(**COMMON, num_clusters=1, spread=0.0, latency=SOON, topology=Complete(link_failure=0.0))
    state = algorithm.init(fed)
    start = rows_of(algorithm, fed)[1]
    state, done = algorithm.step(state, 0, fed)
    assert list(done.uploads) == [3, 0, 3, 3]
    assert state.messages == 9
    assert np.array_equal(rows_of(algorithm, fed)[1], start)
    for t in range(1, 4):
        state, _ = algorithm.step(state, t, fed)
        assert np.isfinite(rows_of(algorithm, fed)).all()
