"""DFedAvgM: heavy-ball steps by hand, Metropolis averages of what was trained, and runs on digits."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from gossip import CLASSES, WIDTH, graph, heavy_ball, rows_of, two_kinds
from replay import gradient

from flcluster.algorithms import DFedAvgM
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.federation.jobs import Job
from flcluster.modules import MLP
from flcluster.seeds import rng
from flcluster.topology.families import Complete, EdgeList

LR = 0.1


def metropolis(adjacency):
    """1/(1 + max(deg_i, deg_l)) on links, the rest on the diagonal."""
    n, degree = len(adjacency), adjacency.sum(1)
    weights = np.zeros((n, n))
    for i in range(n):
        for m in range(n):
            if adjacency[i, m]:
                weights[i, m] = 1 / (1 + max(degree[i], degree[m]))
        weights[i, i] = 1 - weights[i].sum()
    return weights


# ------------------------------------------------------------------------------------------------------------ momentum


@pytest.mark.parametrize("theta", [0.0, 0.5, 0.9])
def test_momentum_is_heavy_ball_and_begins_anew_every_round(theta, script, federate, spied):
    """Full batches, five steps a round: each round starts without momentum from the average of the last."""
    fed = federate(script({0: two_kinds(7)}), lr=LR)
    algorithm = DFedAvgM(local_epochs=5, batch_size=64, momentum=theta, topology=Complete())
    state = algorithm.init(fed)
    log = spied(fed)
    for t in range(3):
        before = rows_of(algorithm, fed)
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        assert [job.client for job, _ in log] == list(range(7))
        for job, row in log:
            assert np.array_equal(job.start.double().numpy(), before[job.client])
            batch = fed.data.shard(job.client, t).train.tensors()
            torch.testing.assert_close(row.double(), heavy_ball(job.start, [batch] * 5, LR, theta), rtol=0, atol=2e-6)


def test_momentum_goes_on_over_batches_and_epochs(script, federate, spied):
    """Mini-batches of four in the order of the client's own generator, for two epochs, at a decayed learning rate."""
    fed = federate(script({0: two_kinds(7)}), lr=LR)
    algorithm = DFedAvgM(local_epochs=2, batch_size=4, momentum=0.8, lr_decay=0.5, topology=Complete())
    state = algorithm.init(fed)
    log = spied(fed)
    algorithm.step(state, 2, fed)
    for job, row in log:
        x, y = fed.data.shard(job.client, 2).train.tensors()
        order, batches = rng(fed.seed, "train", job.client, 2), []
        for _ in range(2):
            shuffled = torch.from_numpy(order.permutation(len(y)))
            batches += [(x[part], y[part]) for part in shuffled.split(4)]
        expected = heavy_ball(job.start, batches, 0.25 * LR, 0.8)
        torch.testing.assert_close(row.double(), expected, rtol=0, atol=2e-6)


def test_a_jobs_momentum_is_its_own(script, federate):
    """It replaces the model's own for one job, and leaves nothing behind for the next."""
    module = MLP(CLASSES, (1, 2, 3), hidden=(), lr=LR, momentum=0.5)
    fed = federate(script({0: two_kinds(7)}), module=module)
    view = fed.data.shard(0, 0).train
    start, batch = fed.init_rows(1)[0], view.tensors()
    for given, used in ((None, 0.5), (0.9, 0.9), (0.0, 0.0), (None, 0.5), (0.9, 0.9)):
        (trained,) = fed.train([Job(0, start, view, 4, 64, momentum=given)])
        torch.testing.assert_close(trained.row.double(), heavy_ball(start, [batch] * 4, LR, used), rtol=0, atol=2e-6)


def test_the_models_own_momentum_does_not_count(script, federate, spied):
    fed = federate(script({0: two_kinds(7)}), module=MLP(CLASSES, (1, 2, 3), hidden=(), lr=LR, momentum=0.3))
    algorithm = DFedAvgM(local_epochs=4, batch_size=64, momentum=0.9, topology=Complete())
    state = algorithm.init(fed)
    log = spied(fed)
    algorithm.step(state, 0, fed)
    for job, row in log:
        batch = fed.data.shard(job.client, 0).train.tensors()
        torch.testing.assert_close(row.double(), heavy_ball(job.start, [batch] * 4, LR, 0.9), rtol=0, atol=2e-6)


@pytest.mark.parametrize(("theta", "units"), [(0.0, 5.0), (0.5, 8.0625), (0.9, 13.1441)])
def test_how_far_five_steps_go_along_one_gradient(theta, units, script, federate):
    """Σ_q (1 − θ^q)/(1 − θ) learning rates for q = 1 … 5: what DFedAvgM's docstring says of its default."""
    assert sum((1 - theta**q) / (1 - theta) for q in range(1, 6)) == pytest.approx(units, abs=5e-5)
    fed = federate(script({0: two_kinds(7)}), lr=1e-4)  # so small that the gradient stays what it is
    start, view = fed.init_rows(1)[0], fed.data.shard(0, 0).train
    (trained,) = fed.train([Job(0, start, view, 5, 64, momentum=theta)])
    ratio = (start - trained.row).double().norm() / gradient(start.double(), *view.tensors()).norm() / 1e-4
    assert float(ratio) == pytest.approx(units, rel=5e-3)


def test_titles_tell_momenta_apart():
    """The default has the plain name, which stands in the paper's table."""
    assert DFedAvgM().momentum == 0.9
    assert DFedAvgM().title == DFedAvgM(momentum=0.9).title == "DFedAvgM"
    assert [DFedAvgM(momentum=theta).title for theta in (0.0, 0.5)] == ["DFedAvgM (θ = 0)", "DFedAvgM (θ = 0.5)"]


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_another_optimiser_is_refused(name, script, federate):
    fed = federate(script({0: two_kinds(7)}), module=MLP(CLASSES, (1, 2, 3), hidden=(), optimizer=name, lr=0.01))
    algorithm = DFedAvgM(local_epochs=1, batch_size=8, topology=Complete())
    with pytest.raises(UserError, match=r"(?is)momentum.*adam"):
        algorithm.step(algorithm.init(fed), 0, fed)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 2.0])
def test_momenta_that_cannot_be_are_refused(momentum):
    with pytest.raises(UserError, match="momentum"):
        DFedAvgM(momentum=momentum)


# ----------------------------------------------------------------------------------------------------------- averaging


def test_rows_are_metropolis_averages_of_what_was_trained(script, federate, spied, tmp_path):
    """The mean over all clients is what training left: the weights are doubly stochastic on an irregular graph."""
    fed = federate(script({0: two_kinds(7)}))
    topology, adjacency = graph(tmp_path, 7, 0.4, 1)
    assert len(set(adjacency.sum(1).tolist())) > 2
    algorithm = DFedAvgM(local_epochs=2, batch_size=8, topology=topology, initialisation="local")
    state = algorithm.init(fed)
    assert len(np.unique(rows_of(algorithm, fed), axis=0)) == 7
    log = spied(fed)
    for t in range(3):
        log.clear()
        before = state.messages
        state, done = algorithm.step(state, t, fed)
        trained = np.stack([row.double().numpy() for _, row in log])
        np.testing.assert_allclose(rows_of(algorithm, fed), metropolis(adjacency) @ trained, rtol=0, atol=1e-6)
        np.testing.assert_allclose(rows_of(algorithm, fed).mean(0), trained.mean(0), rtol=0, atol=1e-6)
        assert state.messages - before == adjacency.sum()
        assert list(done.uploads) == list(done.downloads) == adjacency.sum(1).tolist()
        assert all(torch.equal(done.row(i), algorithm.models(fed)[i]) for i in range(7))
    assert state.isolated == (adjacency.sum(1) == 0).sum()


def test_a_path_by_hand(script, federate, spied, tmp_path):
    """0–1–2: the ends keep 2/3 and take 1/3 of the middle, which takes a third of each."""
    (tmp_path / "path.txt").write_text("0 1\n1 2\n")
    fed = federate(script({0: two_kinds(3)}))
    algorithm = DFedAvgM(local_epochs=1, batch_size=8, topology=EdgeList(path=str(tmp_path / "path.txt")))
    state = algorithm.init(fed)
    log = spied(fed)
    algorithm.step(state, 0, fed)
    a, b, c = (row.double().numpy() for _, row in log)
    expected = np.stack([(2 * a + b) / 3, (a + b + c) / 3, (b + 2 * c) / 3])
    np.testing.assert_allclose(rows_of(algorithm, fed), expected, rtol=0, atol=1e-6)


def test_who_does_not_take_part_keeps_its_model(script, federate, spied, tmp_path):
    """Degrees are counted among the participants of the round."""
    fed = federate(script({0: two_kinds(7)}))
    topology, adjacency = graph(tmp_path, 7, 0.6, 1)
    algorithm = DFedAvgM(local_epochs=1, batch_size=8, participants=4, topology=topology, initialisation="local")
    state = algorithm.init(fed)
    log, met = spied(fed), set()
    for t in range(4):
        before, sent = rows_of(algorithm, fed), state.messages
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        clients = [job.client for job, _ in log]
        assert len(clients) == 4
        inside = np.isin(np.arange(7), clients)
        links = adjacency & inside[:, None] & inside[None]
        half = before.copy()
        for job, row in log:
            half[job.client] = row.double().numpy()
        np.testing.assert_allclose(rows_of(algorithm, fed), metropolis(links) @ half, rtol=0, atol=1e-6)
        assert np.array_equal(rows_of(algorithm, fed)[~inside], before[~inside])
        assert state.messages - sent == links.sum()
        met.add(tuple(clients))
    assert len(met) > 1


def test_failed_links_and_clients_that_drop_out(script, federate, spied):
    fed = federate(script({0: two_kinds(7)}))
    topology = Complete(link_failure=0.4, node_dropout=0.3)
    algorithm = DFedAvgM(local_epochs=1, batch_size=8, topology=topology, initialisation="local")
    state = algorithm.init(fed)
    log = spied(fed)
    for t in range(4):
        half = rows_of(algorithm, fed)
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        assert [job.client for job, _ in log] == np.flatnonzero(topology.online(7, t, fed.seed)).tolist()
        for job, row in log:
            half[job.client] = row.double().numpy()
        links = topology.links(7, t, fed.seed).toarray()
        np.testing.assert_allclose(rows_of(algorithm, fed), metropolis(links) @ half, rtol=0, atol=1e-6)


def test_a_failed_training_spreads_no_further(script, federate, broken):
    """Its client goes on with a finite model, nobody gets a NaN, and nothing is counted as sent by it."""
    fed = federate(script({0: two_kinds(7)}))
    broken(fed, 3)
    algorithm = DFedAvgM(local_epochs=1, batch_size=8, topology=Complete())
    state, done = algorithm.step(algorithm.init(fed), 0, fed)
    rows = rows_of(algorithm, fed)
    assert np.isfinite(rows).all()
    assert done.uploads[3] == 0
    assert state.messages == sum(done.uploads) == sum(done.downloads)


# ------------------------------------------------------------------------------------------------------- what is shown


def test_everyone_is_served_its_own_model(script, federate):
    """There are no clusters: one label for all, each its own row."""
    fed = federate(script({0: two_kinds(7)}))
    algorithm = DFedAvgM(local_epochs=1, batch_size=8, topology=Complete(link_failure=0.5), measure="all")
    state = algorithm.init(fed)
    first = rows_of(algorithm, fed)
    assert (first == first[0]).all()
    state, done = algorithm.step(state, 0, fed)
    served = algorithm.served(state, 0, fed)
    assert set(served.labels.tolist()) == {0}
    for i in range(7):
        assert torch.equal(served.models[int(served.model_of[i])], algorithm.models(fed)[i])
    rows = rows_of(algorithm, fed)
    shown = algorithm.measures(state, 0, fed)
    assert shown["disagreement"] == pytest.approx(((rows - rows.mean(0)) ** 2).sum(1).mean(), rel=1e-4)
    assert shown["disagreement"] > 0
    assert shown["messages"] == state.messages == sum(done.uploads)


def test_bytes_go_to_every_neighbour(script, federate, tmp_path):
    fed = federate(script({0: two_kinds(7)}))
    topology, adjacency = graph(tmp_path, 7, 0.4, 1)
    loop = make_loop(DFedAvgM(local_epochs=2, batch_size=8, topology=topology), fed, None, None)
    loop.begin()
    exchanges = loop.advance()
    expected = (4 * WIDTH * adjacency.sum(1)).tolist()
    assert [e.uploaded for e in exchanges] == [e.downloaded for e in exchanges] == expected
    assert all(type(e.uploaded) is int and type(e.downloaded) is int for e in exchanges)
    assert [e.client_compute for e in exchanges] == (3 * 2 * fed.data.sizes(0)).tolist()


# ------------------------------------------------------------------------------------------------------ runs on digits


def test_a_run_on_digits_learns(tiny_run):
    flags = ["--algorithm", "DFedAvgM", "--algorithm.local_epochs", "3", "--algorithm.batch_size", "10"]
    flags += ["--algorithm.measure", "all", "--algorithm.rounds", "8", "--algorithm.topology", "Ring"]
    tiny_run(
        "a",
        "--data.main_share",
        "[1.0,1.0]",
        "--model.lr",
        "0.02",
        *flags,
        "--data.num_clusters",
        "1",
        "--data.samples",
        "[60,80]",
    )
    with open("a/metrics.csv") as file:
        accuracies = [float(row["client_acc"]) for row in csv.DictReader(file)]
    assert accuracies[0] < 0.3
    assert accuracies[-1] > 0.75


def test_a_run_resumes_bit_for_bit(tiny_run):
    flags = ["--algorithm", "DFedAvgM", "--algorithm.local_epochs", "1", "--algorithm.batch_size", "16"]
    flags += ["--algorithm.rounds", "6", "--algorithm.participation", "0.7", "--engine.memory_gb", "0"]
    flags += ["--algorithm.topology", "Complete", "--algorithm.topology.link_failure", "0.3"]
    tiny_run("whole", "--data.main_share", "[1.0,1.0]", "--model.lr", "0.02", *flags)
    tiny_run("cut", "--data.main_share", "[1.0,1.0]", "--model.lr", "0.02", *flags, "--engine.max_updates", "2")
    tiny_run("cut", "--ckpt_path", "last", "--engine.max_updates", "null", new=False)
    for name in ("metrics.csv", "clients.csv"):
        assert Path("cut", name).read_text() == Path("whole", name).read_text()


def test_where_a_clients_own_model_lies(script, federate):
    fed = federate(script({0: two_kinds(3)}))
    algorithm = DFedAvgM(topology=Complete())
    state = algorithm.init(fed)
    table, place = algorithm.own_row(state, 2)
    algorithm.models(fed)[2] = torch.full((WIDTH,), 7.0)
    assert fed.table(table)[place].tolist() == [7.0] * WIDTH
