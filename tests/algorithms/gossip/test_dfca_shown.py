"""What DFCA serves, counts and leaves behind, and its runs on digits."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from dfca_rounds import COMMON, assigned, people
from gossip import WIDTH, graph, rows_of, scatter
from replay import mean_loss, right

from flcluster.algorithms import DFCA
from flcluster.engine.run import make_loop
from flcluster.topology.families import EdgeList, ErdosRenyi, Ring

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
        chosen.append(right(rows[i * 3 + losses.index(min(losses))], test))
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
