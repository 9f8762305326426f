"""DFCA where neighbours that do not take part are heard with what they trained last."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from dfca_rounds import COMMON, assigned, eq7, people
from gossip import CLOSE, WIDTH, graph, rows_of, scatter

from flcluster.algorithms import DFCA, AsyncDFCA
from flcluster.errors import UserError
from flcluster.topology.families import Complete, EdgeList


@pytest.mark.parametrize("aggregation", ["batch", "sequential"])
@pytest.mark.parametrize("failures", [{}, {"node_dropout": 0.3, "link_failure": 0.2}])
def test_idle_neighbours_count_with_their_last_assignment(aggregation, failures, script, federate, spied, tmp_path):
    """N_ij of Algorithm 1 then has all neighbours with c(m) = j that are online. Who does not take part sends what it
    holds of the cluster that it trained last, and keeps all its models; who never trained is in no N_ij."""
    n, k = 12, 2
    fed = federate(people(script, n))
    topology, _ = graph(tmp_path, n, 0.6, 5)
    topology = replace(topology, **failures)
    algorithm = DFCA(
        **COMMON, num_clusters=k, participants=4, topology=topology, aggregation=aggregation, idle_neighbours=True
    )
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log, last, idle_heard, never = spied(fed), {}, 0, 0
    for t in range(6):
        before = rows_of(algorithm, fed)
        log.clear()
        after, done = algorithm.step(state, t, fed)
        clients = [job.client for job, _ in log]
        assert len(clients) == 4
        now = assigned(before, k, clients, t, fed)
        half = before.copy()
        for job, row in log:
            half[job.client * k + now[job.client]] = row.double().numpy()
        links = topology.links(n, t, fed.seed).toarray().astype(bool)  # those of clients that are offline are down
        senders = {**last, **now}
        np.testing.assert_allclose(rows_of(algorithm, fed), eq7(half, k, links, senders, clients), **CLOSE)
        heard = [[m for m in senders if links[i, m]] for i in clients]
        assert list(done.downloads) == [len(each) for each in heard]
        assert list(done.uploads) == [int(links[i][clients].sum()) for i in clients]
        assert after.messages - state.messages == sum(done.downloads)
        idle_heard += sum(m not in clients for each in heard for m in each)
        never += sum(links[i, m] for i in clients for m in range(n) if m not in senders)
        state, last = after, senders
        assert state.labels.tolist() == [last.get(m, -1) for m in range(n)]
    assert idle_heard > 10
    assert never > 3


def test_idle_neighbours_by_hand(script, federate, spied, tmp_path):
    """A path 0–1–2 where one client a round takes part: it averages with its neighbours, who have trained before."""
    (tmp_path / "path.txt").write_text("0 1\n1 2\n")
    fed = federate(people(script, 3))
    common = {**COMMON, "num_clusters": 1, "participants": 1, "topology": EdgeList(path=str(tmp_path / "path.txt"))}
    algorithm = DFCA(**common, idle_neighbours=True)
    state = algorithm.init(fed)
    log = spied(fed)
    state = replace(state, labels=torch.tensor([0, 0, -1]))  # the last one never trained
    scatter(algorithm, fed)
    a, b, c = rows_of(algorithm, fed)
    algorithm.step(state, 0, fed)
    ((job, row),) = log
    trained = row.double().numpy()
    expected = {0: [(trained + b) / 2, b, c], 1: [a, (trained + a) / 2, c], 2: [a, b, (trained + b) / 2]}[job.client]
    np.testing.assert_allclose(rows_of(algorithm, fed), np.stack(expected), **CLOSE)


def test_idle_neighbours_that_could_not_take_part_are_not_heard(script, federate):
    """Client 2 holds nothing at round 2, and client 3's device is offline: both have trained before and say nothing."""

    class Away(DFCA):
        def available(self, t, fed):
            return np.setdiff1d(super().available(t, fed), [3])

    fed = federate(people(script, 6, {2: {2: []}}))
    algorithm = Away(**COMMON, num_clusters=2, topology=Complete(), participants=1, idle_neighbours=True)
    state = replace(algorithm.init(fed), labels=torch.zeros(6, dtype=torch.int64))
    assert algorithm.step(state, 2, fed)[1].downloads == [3]


def test_idle_neighbours_change_nothing_where_everyone_takes_part(script, federate, tmp_path):
    topology, _ = graph(tmp_path, 9, 0.4, 5)
    ends = []
    for idle in (False, True):
        fed = federate(people(script))
        algorithm = DFCA(**COMMON, num_clusters=2, topology=topology, idle_neighbours=idle)
        state = algorithm.init(fed)
        for t in range(3):
            state, _ = algorithm.step(state, t, fed)
        ends.append((rows_of(algorithm, fed), state.messages))
    assert np.array_equal(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


def test_simulated_devices_count_idle_neighbours_as_downloads(script, federate, given_devices):
    """All 8 others have trained before: a participant hears them all, and sends to the two that take part with it."""
    fed = federate(people(script))
    ms, kbps = np.linspace(1, 9, 9), np.linspace(30, 5, 9)
    common = {**COMMON, "num_clusters": 2, "topology": Complete(), "devices": given_devices(ms, kbps)}
    algorithm = DFCA(**common, participants=3, idle_neighbours=True)
    state = replace(algorithm.init(fed), labels=torch.zeros(9, dtype=torch.int64))
    _, done = algorithm.step(state, 0, fed)
    clients = [result.client for result in done.results]
    seconds = (3 * 2 + 2) * fed.data.sizes(0) * ms / 1000 + (8 + 2) * 4 * WIDTH * 8 / 1000 / kbps
    assert len(clients) == 3
    assert list(done.downloads) == [8] * 3
    assert done.cohort.seconds == pytest.approx(seconds[clients].max())


def test_titles_tell_the_two_readings_apart():
    assert DFCA().title == "DFCA-GI"
    assert DFCA(idle_neighbours=True).title == "DFCA-GI (idle neighbours)"
    assert DFCA(idle_neighbours=True, initialisation="local").title == "DFCA-LI (idle neighbours)"
    assert AsyncDFCA().title == "AsyncDFCA-GI"
    with pytest.raises(UserError, match="idle_neighbours"):
        AsyncDFCA(idle_neighbours=True)
