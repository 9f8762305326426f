"""DFCA: whole rounds replayed in NumPy (assignment by loss, Eq. 7 over the graph), beginnings, runs on digits."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F

from flcluster.algorithms import DFCA, IFCA, AsyncDFCA
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.topology.families import Complete, EdgeList, ErdosRenyi, Ring

CLASSES, PIXELS, WIDTH = 4, 6, 28
COMMON = {"local_epochs": 2, "batch_size": 8}
CLOSE = {"rtol": 0, "atol": 1e-6}


# ------------------------------------------------------------------------------------------------- written in the test


def mean_loss(row, view):
    """Softmax regression in float64: the row is the weights, then the biases."""
    x, y = view.tensors()
    x, y, row = x.double().numpy().reshape(len(y), -1), y.numpy(), np.asarray(row, dtype=np.float64)
    assert row.size == WIDTH
    logits = x @ row[: PIXELS * CLASSES].reshape(CLASSES, PIXELS).T + row[PIXELS * CLASSES :]
    top = logits.max(1, keepdims=True)
    return float((np.log(np.exp(logits - top).sum(1)) + top[:, 0] - logits[np.arange(len(y)), y]).mean())


def accuracy(row, view):
    x, y = view.tensors()
    weights, biases = row[: PIXELS * CLASSES].reshape(CLASSES, PIXELS), row[PIXELS * CLASSES :]
    return float(((x.double().numpy().reshape(len(y), -1) @ weights.T + biases).argmax(1) == y.numpy()).mean())


def rows_of(algorithm, fed):
    table = algorithm.models(fed)
    return np.stack([table[i].double().numpy() for i in range(len(table))])


def scatter(algorithm, fed, seed=0, scale=0.5):
    """Give every client random models of its own, so that choices differ."""
    table, draw = algorithm.models(fed), np.random.default_rng(seed)
    for i in range(len(table)):
        table[i] = torch.tensor(scale * draw.normal(size=table.width), dtype=torch.float32)


def eq7(rows, k, adjacency, labels, clients):
    """Average model j of every participant with the neighbours that trained j; ``labels`` are the senders'."""
    out = rows.copy()
    for i in clients:
        for j in range(k):
            heard = [m for m, label in labels.items() if adjacency[i, m] and label == j]
            out[i * k + j] = (rows[i * k + j] + sum(rows[m * k + j] for m in heard)) / (1 + len(heard))
    return out


def assigned(rows, k, clients, t, fed, loss=mean_loss):
    """The first of the models with the smallest loss on a client's training data of round t."""
    found = {}
    for i in clients:
        losses = [loss(rows[i * k + j], fed.data.shard(i, t).train) for j in range(k)]
        found[i] = losses.index(min(losses))
    return found


def between(adjacency, clients):
    inside = np.isin(np.arange(len(adjacency)), list(clients))
    return np.asarray(adjacency, dtype=bool) & inside[:, None] & inside[None]


def graph(tmp_path, n, p, seed):
    """A random graph as a file, and as a matrix."""
    draw = np.random.default_rng(seed)
    upper = np.triu(draw.random((n, n)) < p, 1)
    if not upper.any():
        return ErdosRenyi(p=0.0), upper
    path = tmp_path / f"graph{n}_{p}_{seed}.txt"
    path.write_text("\n".join(f"{i} {j}" for i, j in zip(*np.nonzero(upper), strict=True)) + "\n")
    return EdgeList(path=str(path)), upper | upper.T


def people(script, n=9, more=None):
    """Clients of different sizes; the odd ones call the classes by other names, and all change at round 1."""
    first = {m: ([0, 1, 2, 3] * 2 + [m % 4] * (m + 1), m % 2) for m in range(n)}
    later = {m: ([m % 4, (m + 1) % 4] * 6, 1 - m % 2) for m in range(n)}
    return script({0: first, 1: later, **(more or {})})


def play(algorithm, state, t, fed, log, adjacency, clients, k, silent=(), loss=mean_loss):
    """Run round t and replay it: who trains what from where, and every row afterwards."""
    before = rows_of(algorithm, fed)
    log.clear()
    after, done = algorithm.step(state, t, fed)
    labels = assigned(before, k, clients, t, fed, loss)
    assert [job.client for job, _ in log] == sorted(clients) == [r.client for r in done.results]
    half = before.copy()
    for job, row in log:
        place = job.client * k + labels[job.client]
        assert np.array_equal(job.start.double().numpy(), before[place])
        assert not np.array_equal(row.double().numpy(), before[place])
        if job.client not in silent:
            half[place] = row.double().numpy()
    sent = {i: j for i, j in labels.items() if i not in silent}
    links = between(adjacency, clients)
    np.testing.assert_allclose(rows_of(algorithm, fed), eq7(half, k, links, sent, clients), **CLOSE)
    idle = [i * k + j for i in range(fed.data.num_clients) if i not in clients for j in range(k)]
    assert np.array_equal(rows_of(algorithm, fed)[idle], before[idle])
    assert list(done.cohort.labels) == [labels[i] for i in sorted(clients)]
    assert [int(after.labels[i]) for i in sorted(clients)] == [labels[i] for i in sorted(clients)]
    used = links[sorted(clients)][:, sorted(sent)]
    assert after.messages - state.messages == used.sum()
    assert list(done.downloads) == used.sum(1).tolist()
    uploads = {i: int(links[i].sum()) if i in sent else 0 for i in sorted(clients)}
    assert list(done.uploads) == list(uploads.values())
    return after, done, labels


# -------------------------------------------------------------------------------------------------------- whole rounds


@pytest.mark.parametrize("aggregation", ["batch", "sequential"])
@pytest.mark.parametrize(("k", "p", "seed"), [(2, 0.4, 0), (3, 0.25, 1), (1, 0.4, 2), (4, 0.0, 3)])
def test_a_round_is_assignment_training_and_eq7(aggregation, k, p, seed, script, federate, spied, tmp_path):
    """Two rounds, the second on other data: only the assigned model is trained, and all N·k rows are as Eq. 7 says."""
    fed = federate(people(script))
    topology, adjacency = graph(tmp_path, 9, p, seed)
    algorithm = DFCA(**COMMON, num_clusters=k, topology=topology, aggregation=aggregation)
    state = algorithm.init(fed)
    scatter(algorithm, fed, seed)
    log = spied(fed)
    seen = set()
    for t in range(2):
        state, done, labels = play(algorithm, state, t, fed, log, adjacency, range(9), k)
        assert all(job.cycle == t for job, _ in log)
        assert [done.cost(i)[2] for i in range(9)] == [k] * 9
        for i in range(9):
            assert torch.equal(done.row(i), algorithm.models(fed)[i * k + labels[i]])
        seen |= set(labels.values())
    assert len(seen) == k  # the models differ, so different clients choose different ones
    assert state.messages == 2 * adjacency.sum()
    assert state.isolated == (adjacency.sum(1) == 0).sum()


def test_jobs_carry_the_local_budget(script, federate, spied):
    fed = federate(people(script))
    algorithm = DFCA(batch_size=5, local_steps=7, lr_decay=0.5, prox=0.2, num_clusters=2, topology=Ring())
    state = algorithm.init(fed)
    log = spied(fed)
    algorithm.step(state, 3, fed)
    assert {(job.steps, job.batch_size, job.lr_factor, job.prox, job.momentum) for job, _ in log} == {
        (7, 5, 0.125, 0.2, None)
    }


def test_equal_models_are_a_tie_for_the_first(script, federate, spied):
    """k equal copies: everyone trains model 0, and the others stay as they are."""
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=3, topology=Complete())
    state = algorithm.init(fed)
    table, row = algorithm.models(fed), algorithm.models(fed)[0]
    for i in range(len(table)):
        table[i] = row
    log = spied(fed)
    state, _, labels = play(algorithm, state, 0, fed, log, 1 - np.eye(9), range(9), 3)
    assert set(labels.values()) == {0}
    assert all(torch.equal(table[i], row) for i in range(len(table)) if i % 3)
    assert not any(torch.equal(table[i], row) for i in range(0, len(table), 3))


@pytest.mark.parametrize("aggregation", ["batch", "sequential"])
def test_who_does_not_take_part_neither_trains_nor_sends_nor_averages(aggregation, script, federate, spied, tmp_path):
    fed = federate(people(script, 12))
    topology, adjacency = graph(tmp_path, 12, 0.6, 5)
    algorithm = DFCA(**COMMON, num_clusters=2, participants=5, topology=topology, aggregation=aggregation)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log, met = spied(fed), []
    for t in range(4):
        clients = algorithm.select(t, fed).clients
        assert len(clients) == 5
        before = state.labels.clone()
        state, _, _ = play(algorithm, state, t, fed, log, adjacency, clients, 2)
        idle = [i for i in range(12) if i not in clients]
        assert torch.equal(state.labels[idle], before[idle])
        met.append(tuple(clients))
    assert len(set(met)) > 1


# ---------------------------------------------------------------------------------------------------- idle neighbours


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


# -------------------------------------------------------------------------------------------------- links and dropouts


def test_clients_that_drop_out_do_nothing(script, federate, spied):
    fed = federate(people(script, 10))
    topology = Complete(node_dropout=0.4)
    algorithm = DFCA(**COMMON, num_clusters=2, topology=topology)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log, counts = spied(fed), []
    for t in range(4):
        clients = np.flatnonzero(topology.online(10, t, fed.seed)).tolist()
        state, _, _ = play(algorithm, state, t, fed, log, 1 - np.eye(10), clients, 2)
        counts.append(len(clients))
    assert min(counts) < 10
    assert max(counts) > 1


def test_a_round_that_everyone_missed(script, federate, spied):
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=2, topology=Complete(node_dropout=1.0))
    state = algorithm.init(fed)
    before, log = rows_of(algorithm, fed), spied(fed)
    state, done = algorithm.step(state, 0, fed)
    assert (log, done.results, state.messages) == ([], [], 0)
    assert np.array_equal(rows_of(algorithm, fed), before)


def test_links_that_fail_carry_nothing(script, federate, spied):
    fed = federate(people(script))
    topology = Complete(link_failure=0.6)
    algorithm = DFCA(**COMMON, num_clusters=2, topology=topology)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log, sent = spied(fed), []
    for t in range(3):
        adjacency = topology.links(9, t, fed.seed).toarray()
        state, _, _ = play(algorithm, state, t, fed, log, adjacency, range(9), 2)
        sent.append(state.messages)
    assert 0 < sent[0] < 72
    assert len({sent[0], sent[1] - sent[0], sent[2] - sent[1]}) > 1


def test_without_any_link_clients_train_alone(script, federate, spied):
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=2, topology=Complete(link_failure=1.0))
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log = spied(fed)
    state, _, _ = play(algorithm, state, 0, fed, log, np.zeros((9, 9)), range(9), 2)
    assert (state.messages, state.isolated) == (0, 9)


def test_a_client_without_data_has_no_part(script, federate, spied):
    """Client 2 holds nothing at round 2: it neither trains nor sends nor averages, and is served no model."""
    fed = federate(people(script, 5, {2: {2: []}}))
    algorithm = DFCA(**COMMON, num_clusters=2, topology=Complete(), measure="all", ifca_style=True)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log = spied(fed)
    state, _, _ = play(algorithm, state, 2, fed, log, 1 - np.eye(5), [0, 1, 3, 4], 2)
    served = algorithm.served(state, 2, fed)
    assert int(served.labels[2]) == -1
    assert served.model_of is not None
    assert int(served.model_of[2]) == -1
    rows, chosen = rows_of(algorithm, fed), []
    for i in (0, 1, 3, 4):
        test = fed.data.shard(i, 2).test
        losses = [mean_loss(rows[i * 2 + j], test) for j in range(2)]
        chosen.append(accuracy(rows[i * 2 + losses.index(min(losses))], test))
    assert algorithm.measures(state, 2, fed)["ifca_style_acc"] == pytest.approx(np.mean(chosen), abs=1e-6)


# ------------------------------------------------------------------------------------------------- training that failed


@pytest.mark.parametrize("aggregation", ["batch", "sequential"])
def test_a_failed_training_is_not_sent(aggregation, script, federate, spied, broken, tmp_path):
    """Its client goes on with the model it had, and takes in what its neighbours sent."""
    fed = federate(people(script))
    broken(fed, 1, 6)
    topology, adjacency = graph(tmp_path, 9, 0.6, 7)
    algorithm = DFCA(**COMMON, num_clusters=2, topology=topology, aggregation=aggregation)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log = spied(fed)
    state, done, _ = play(algorithm, state, 0, fed, log, adjacency, range(9), 2, silent=(1, 6))
    assert np.isfinite(rows_of(algorithm, fed)).all()
    assert [r.finite for r in done.results] == [i not in (1, 6) for i in range(9)]


def test_a_learning_rate_far_too_large_changes_nothing(script, federate, spied):
    fed = federate(people(script), hidden=(8,), lr=1e30)
    algorithm = DFCA(**COMMON, num_clusters=2, topology=Complete())
    state = algorithm.init(fed)
    before, log = rows_of(algorithm, fed), spied(fed)
    state, done = algorithm.step(state, 0, fed)
    assert not any(torch.isfinite(row).all() for _, row in log)
    assert np.array_equal(rows_of(algorithm, fed), before)
    assert state.messages == 0
    assert sum(done.uploads) == sum(done.downloads) == 0


# ------------------------------------------------------------------------------------------------------------ BatchNorm


class Normed(LightningModule):
    """A small network with running statistics."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(PIXELS, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.first(x.flatten(1)))))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_running_statistics_are_averaged_like_parameters(script, federate, spied, tmp_path):
    fed = federate(people(script), module=Normed())
    assert fed.layout.size == fed.layout.num_parameters + 10

    def loss(row, view):
        row = torch.tensor(row)
        state = {name: v.double() if v.is_floating_point() else v for name, v in fed.layout.state_dict(row).items()}
        x, y = view.tensors()
        x = F.linear(x.double().flatten(1), state["first.weight"], state["first.bias"])
        x = (x - state["norm.running_mean"]) / (state["norm.running_var"] + 1e-5).sqrt()
        x = torch.relu(x * state["norm.weight"] + state["norm.bias"])
        return float(F.cross_entropy(F.linear(x, state["head.weight"], state["head.bias"]), y))

    topology, adjacency = graph(tmp_path, 9, 0.5, 8)
    algorithm = DFCA(**COMMON, num_clusters=2, topology=topology, initialisation="local")
    state = algorithm.init(fed)
    log = spied(fed)
    for t in range(2):
        state, _, _ = play(algorithm, state, t, fed, log, adjacency, range(9), 2, loss=loss)
        assert not any(torch.equal(row[-10:], job.start[-10:]) for job, row in log)
    rows = rows_of(algorithm, fed)
    assert (rows[:, -5:] > 0).all()  # variances
    parameters = rows.reshape(9, 2, -1)[:, :, : fed.layout.num_parameters]
    expected = ((parameters - parameters.mean(0)) ** 2).sum(2).mean()
    assert algorithm.measures(state, 1, fed)["disagreement"] == pytest.approx(expected, rel=1e-4)


# ----------------------------------------------------------------------------------------------------------- beginnings


def test_global_initialisation_is_the_same_for_all(script, federate):
    """k different models, the same for every client, and the same that IFCA's server begins with."""
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=3)
    state = algorithm.init(fed)
    rows = rows_of(algorithm, fed).reshape(9, 3, -1)
    assert (rows == rows[:1]).all()
    assert len(np.unique(rows[0], axis=0)) == 3
    assert np.array_equal(rows[0], IFCA(**COMMON, num_clusters=3).init(fed).models.double().numpy())
    assert state.labels.tolist() == [-1] * 9
    assert (state.messages, algorithm.title) == (0, "DFCA-GI")
    assert algorithm.measures(state, 0, fed)["disagreement"] == pytest.approx(0, abs=1e-9)


def test_local_initialisation_differs_everywhere(script, federate):
    found = []
    for seed in (11, 11, 12):
        fed = federate(people(script), seed=seed)
        algorithm = DFCA(**COMMON, num_clusters=3, initialisation="local")
        algorithm.init(fed)
        found.append(rows_of(algorithm, fed))
        assert len(np.unique(found[-1], axis=0)) == 27
        assert len(np.unique(found[-1].round(3)[:, :4], axis=0)) == 27  # not by rounding alone
    assert np.array_equal(found[0], found[1])
    assert not (found[0] == found[2]).any()
    assert algorithm.title == "DFCA-LI"


def test_the_data_say_how_many_models(script, federate):
    data = people(script)
    data.num_clusters = 3
    fed = federate(data)
    algorithm = DFCA(**COMMON)
    algorithm.init(fed)
    assert len(algorithm.models(fed)) == 27


def test_first_models_that_attract(script, federate):
    """Global initialisation may insist that every model attracts some clients."""
    failing = 0
    for seed in range(5):
        fed = federate(people(script, 8), seed=seed)
        algorithm = DFCA(**COMMON, num_clusters=2, min_share=0.25)
        algorithm.init(fed)
        rows = rows_of(algorithm, fed)
        assert (rows.reshape(8, 2, -1) == rows[:2]).all()
        assert np.bincount(list(assigned(rows, 2, range(8), 0, fed).values()), minlength=2).min() >= 2
        plain = np.tile(fed.init_rows(2).double().numpy(), (8, 1))
        failing += np.bincount(list(assigned(plain, 2, range(8), 0, fed).values()), minlength=2).min() < 2
    assert failing > 0


@pytest.mark.parametrize("wrong", [{"num_clusters": 0}, {"min_share": -0.5}, {"rounds": 0}, {"participation": 0.0}])
def test_wrong_settings_name_their_key(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        DFCA(**wrong)


# --------------------------------------------------------------------------------------------------- beside the server


def test_on_a_complete_graph_members_have_ifcas_models(script, federate):
    """Who trained model j has the mean over all who did: IFCA's new model. Who did not counts its old copy once more.

    So while the clusters stay as they are, the members' models are IFCA's, round after round.
    """
    held = {m: ([0, 1, 2, 3] * (3 + m % 3), 2 * (m % 2)) for m in range(8)}
    dfca, ifca = DFCA(**COMMON, num_clusters=2, topology=Complete()), IFCA(**COMMON, num_clusters=2)
    for seed in range(20):  # a beginning that divides them as the data do
        left, right = federate(script({0: held}), seed=seed), federate(script({0: held}), seed=seed)
        state, server = dfca.init(left), ifca.init(right)
        labels = assigned(rows_of(dfca, left), 2, range(8), 0, left)
        if len({(i % 2, j) for i, j in labels.items()}) == 2 and len(set(labels.values())) == 2:
            break
    else:
        pytest.fail("no such beginning")
    for t in range(4):
        old = rows_of(dfca, left)
        state, mine = dfca.step(state, t, left)
        server, theirs = ifca.step(server, t, right)
        assert mine.cohort.labels == theirs.cohort.labels == list(labels.values())
        rows, models = rows_of(dfca, left), server.models.double().numpy()
        for i in range(8):
            for j in range(2):
                size = sum(label == j for label in labels.values())
                new = models[j] if labels[i] == j else (old[i * 2 + j] + size * models[j]) / (size + 1)
                np.testing.assert_allclose(rows[i * 2 + j], new, rtol=0, atol=5e-6)


def test_a_model_that_nobody_trains_stays_as_with_ifca(script, federate):
    """Everyone prefers model 0: model 1 is IFCA's unchanged one at every client."""
    fed = federate(people(script))
    dfca = DFCA(**COMMON, num_clusters=2, topology=Complete())
    state = dfca.init(fed)
    table = dfca.models(fed)
    bad = torch.full((WIDTH,), 0.0)
    bad[-1] = 50.0  # always says class 3
    for i in range(9):
        table[2 * i + 1] = bad
    dfca.step(state, 0, fed)
    assert all(torch.equal(table[2 * i + 1], bad) for i in range(9))


def test_one_model_on_a_complete_graph_is_averaging_by_a_server(script, federate):
    """k = 1: every row is the plain mean, round after round, and IFCA's with one model."""
    left, right = federate(people(script)), federate(people(script))
    dfca, ifca = DFCA(**COMMON, num_clusters=1, topology=Complete()), IFCA(**COMMON, num_clusters=1)
    state, server = dfca.init(left), ifca.init(right)
    for t in range(3):
        state, _ = dfca.step(state, t, left)
        server, _ = ifca.step(server, t, right)
        expected = np.tile(server.models.double().numpy(), (9, 1))
        np.testing.assert_allclose(rows_of(dfca, left), expected, rtol=0, atol=5e-6)


# -------------------------------------------------------------------------------------------------- names do not matter


class Renamed:
    """A script's clients under other numbers."""

    def __init__(self, script, held, names):
        class Data(script):
            def view(self, split, client, piece):
                return super().view(split, names.index(client), piece)

        self.data = Data({0: {names[m]: what for m, what in held.items()}})


@pytest.mark.parametrize("aggregation", ["batch", "sequential"])
@pytest.mark.parametrize("seed", [0, 1])
def test_other_numbers_for_the_clients_give_the_same_models(aggregation, seed, script, federate, tmp_path):
    """A permuted graph and permuted data permute all rows, up to rounding (full batches: no order of samples)."""
    n, k = 8, 2
    held = {m: ([0, 1, 2, 3] * 2 + [m % 4] * m, m % 2) for m in range(n)}
    names = np.random.default_rng(seed).permutation(n).tolist()
    draw = np.random.default_rng(seed)
    edges = [(i, j) for i in range(n) for j in range(i) if draw.random() < 0.4]
    results, labels = [], []
    for order in (list(range(n)), names):
        path = tmp_path / f"{order[0]}_{order[1]}_{seed}.txt"
        path.write_text("\n".join(f"{order[i]} {order[j]}" for i, j in edges) + "\n")
        fed = federate(Renamed(script, held, order).data)
        algorithm = DFCA(
            local_epochs=3, batch_size=64, num_clusters=k, topology=EdgeList(path=str(path)), aggregation=aggregation
        )
        state = algorithm.init(fed)
        table, start = algorithm.models(fed), np.random.default_rng(9).normal(size=(n, k, WIDTH))
        for m in range(n):
            for j in range(k):
                table[order[m] * k + j] = torch.tensor(start[m, j], dtype=torch.float32)
        for t in range(3):
            state, _ = algorithm.step(state, t, fed)
        results.append(rows_of(algorithm, fed).reshape(n, k, -1)[order])
        labels.append(state.labels[order].tolist())
        assert state.messages == 3 * 2 * len(edges)
    assert labels[0] == labels[1]
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-5)
    assert not np.allclose(results[0], start, atol=0.01)


def test_batch_and_sequential_end_alike(script, federate):
    """Three rounds with mini-batches: the same to rounding."""
    ends = []
    for aggregation in ("batch", "sequential"):
        fed = federate(people(script, 14))
        algorithm = DFCA(**COMMON, num_clusters=3, topology=ErdosRenyi(p=0.3), aggregation=aggregation)
        state = algorithm.init(fed)
        scatter(algorithm, fed)
        for t in range(3):
            state, _ = algorithm.step(state, t, fed)
        ends.append((rows_of(algorithm, fed), state.labels.tolist(), state.messages))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=0, atol=3e-6)
    assert ends[0][1:] == ends[1][1:]


# ------------------------------------------------------------------------------------------------------- what is shown


def test_everyone_is_served_its_own_model(script, federate):
    """Every client chooses among its own models by its training loss, whether it took part or not."""
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=3, topology=Ring(), participants=4, measure="all", ifca_style=True)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    state, _ = algorithm.step(state, 0, fed)
    rows, served = rows_of(algorithm, fed), algorithm.served(state, 0, fed)
    labels = assigned(rows, 3, range(9), 0, fed)
    assert served.labels.tolist() == list(labels.values())
    own = served.labels if served.model_of is None else served.model_of
    for i in range(9):
        assert np.array_equal(served.models[int(own[i])].double().numpy(), rows[i * 3 + labels[i]])
    shown = algorithm.measures(state, 0, fed)
    cubes = rows.reshape(9, 3, -1)
    assert shown["disagreement"] == pytest.approx(((cubes - cubes.mean(0)) ** 2).sum(2).mean(), rel=1e-4)
    assert (shown["messages"], shown["isolated"]) == (state.messages, state.isolated)
    chosen = []
    for i in range(9):
        test = fed.data.shard(i, 0).test
        losses = [mean_loss(rows[i * 3 + j], test) for j in range(3)]
        chosen.append(accuracy(rows[i * 3 + losses.index(min(losses))], test))
    assert shown["ifca_style_acc"] == pytest.approx(np.mean(chosen), abs=1e-6)
    assert {"disagreement", "messages", "isolated", "ifca_style_acc"} <= set(algorithm.extra_metrics)
    assert "ifca_style_acc" not in DFCA(num_clusters=3).extra_metrics


def test_a_clients_own_row_is_its_own(script, federate):
    """Also for a client that never trained, whose last cluster is none."""
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=3, topology=Ring(), participants=3)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    for _ in range(2):
        for i in range(9):
            name, row = algorithm.own_row(state, i)
            assert 3 * i <= row < 3 * i + 3
            if int(state.labels[i]) >= 0:
                assert row == 3 * i + int(state.labels[i])
            assert torch.equal(fed.bank.tables[name][row], algorithm.models(fed)[row])
        state, _ = algorithm.step(state, 0, fed)


def test_bytes_are_models_to_and_from_every_neighbour(script, federate, tmp_path):
    """Whole numbers of bytes: each participant sends one model to, and gets one from, every neighbour."""
    fed = federate(people(script))
    topology, adjacency = graph(tmp_path, 9, 0.4, 5)
    loop = make_loop(DFCA(**COMMON, num_clusters=2, topology=topology, rounds=2), fed, None, None)
    loop.begin()
    exchanges = loop.advance()
    degree = adjacency.sum(1)
    assert len(set(degree.tolist())) > 2
    assert [e.uploaded for e in exchanges] == (4 * WIDTH * degree).tolist()
    assert [e.downloaded for e in exchanges] == (4 * WIDTH * degree).tolist()
    assert [e.label for e in exchanges] == loop.state.labels.tolist()
    assert all(type(e.uploaded) is int and type(e.downloaded) is int for e in exchanges)
    assert [e.client_compute for e in exchanges] == ((3 * 2 + 2) * fed.data.sizes(0)).tolist()


def test_simulated_devices_count_every_neighbour(script, federate, given_devices, tmp_path):
    """k forward passes and three per epoch, a model up and one down for each neighbour; the slowest sets the time."""
    fed = federate(people(script))
    topology, adjacency = graph(tmp_path, 9, 0.4, 5)
    ms, kbps = np.linspace(1, 9, 9), np.linspace(30, 5, 9)
    devices = given_devices(ms, kbps)
    algorithm = DFCA(**COMMON, num_clusters=2, topology=topology, devices=devices)
    _, done = algorithm.step(algorithm.init(fed), 0, fed)
    compute = (3 * 2 + 2) * fed.data.sizes(0) * ms / 1000
    transfer = 2 * adjacency.sum(1) * 4 * WIDTH * 8 / 1000 / kbps
    assert len(done.results) == 9
    assert done.cohort.seconds == pytest.approx((compute + transfer).max())


def test_the_graph_is_left_behind_and_can_be_read_back(script, federate, tmp_path):
    fed = federate(people(script))
    topology = ErdosRenyi(p=0.4)
    algorithm = DFCA(**COMMON, num_clusters=2, topology=topology)
    files = algorithm.files(algorithm.init(fed), 5, fed)
    path = tmp_path / "edges.csv"
    path.write_text(files["edges.csv"])
    assert files["edges.csv"].splitlines()[0] == "round,source,target"
    assert np.array_equal(EdgeList(path=str(path)).edges(9, 0, 1), topology.edges(9, 0, fed.seed))


# ------------------------------------------------------------------------------------------------------ runs on digits


def column(folder, name):
    with open(Path(folder, "metrics.csv")) as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def kept(folder):
    return Path(folder, "metrics.csv").read_text(), Path(folder, "clients.csv").read_text()


METHODS = {
    "gi": ["--algorithm", "DFCA"],
    "li": ["--algorithm", "DFCA", "--algorithm.initialisation", "local", "--algorithm.aggregation", "sequential"],
    "ifca": ["--algorithm", "IFCA", "--algorithm.min_share", "0.3"],
}
GRAPH = ["--algorithm.topology", "ErdosRenyi", "--algorithm.topology.p", "0.6", "--algorithm.topology.redraw", "2"]


@pytest.mark.parametrize("method", METHODS)
def test_runs_on_digits_learn(method, tiny_run):
    """From a tenth of guessing to most digits right, and the two rotations find their models."""
    flags = [*METHODS[method], "--algorithm.local_epochs", "3", "--algorithm.batch_size", "10"]
    flags += ["--algorithm.measure", "all", "--algorithm.rounds", "8", "--algorithm.ifca_style", "true"]
    flags += [] if method == "ifca" else ["--algorithm.topology", "Complete"]
    data = ["--data.num_clients", "8", "--data.samples", "[60,80]", "--seed_everything", "1"]
    summary = tiny_run("a", "--data.main_share", "[1.0,1.0]", *flags, *data)
    accuracies = column("a", "client_acc")
    assert accuracies[0] < 0.3
    assert accuracies[-1] > 0.75
    assert summary["client_acc"] == pytest.approx(accuracies[-1])
    assert column("a", "ifca_style_acc")[-1] > 0.6
    if method != "ifca":
        assert column("a", "messages") == [56 * t for t in range(9)]
        assert column("a", "upload_bytes")[-1] == column("a", "download_bytes")[-1] == 8 * 56 * 4 * (64 * 16 + 16 + 170)
        assert Path("a/edges.csv").exists()


@pytest.mark.parametrize(("method", "memory"), [("gi", "0"), ("li", "1"), ("ifca", "1")])
def test_runs_resume_bit_for_bit(method, memory, tiny_run):
    """In memory and in files, with a graph that changes, links that fail, clients that drop out and some that rest."""
    flags = [*METHODS[method], "--algorithm.local_epochs", "1", "--algorithm.batch_size", "16"]
    flags += ["--algorithm.rounds", "7", "--algorithm.participation", "0.7", "--engine.memory_gb", memory]
    if method == "ifca":
        flags += ["--algorithm.min_share", "0"]
    else:
        flags += [*GRAPH, "--algorithm.topology.link_failure", "0.2", "--algorithm.topology.node_dropout", "0.2"]
    tiny_run("whole", "--data.main_share", "[1.0,1.0]", *flags)
    tiny_run("cut", "--data.main_share", "[1.0,1.0]", *flags, "--engine.max_updates", "3")
    tiny_run("cut", "--ckpt_path", "last", "--engine.max_updates", "null", new=False)
    assert kept("cut") == kept("whole")
    assert Path("cut/bank/models.rows").exists() == (memory == "0" and method != "ifca")
