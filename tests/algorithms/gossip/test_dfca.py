"""DFCA: whole rounds replayed in NumPy, with links that fail, clients that drop out and training that fails."""

import numpy as np
import pytest
import torch
from dfca_rounds import COMMON, people, play
from gossip import CLASSES, PIXELS, WIDTH, graph, rows_of, scatter
from lightning import LightningModule
from replay import mean_loss, right
from torch import nn
from torch.nn import functional as F

from flcluster.algorithms import DFCA
from flcluster.topology.families import Complete, EdgeList, ErdosRenyi, Ring

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
        chosen.append(right(rows[i * 2 + losses.index(min(losses))], test))
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
