"""Clients that never take part in training: no method asks them, and both kinds of accuracy are told apart."""

import csv
import inspect
import math
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import pytest
import torch

from flcluster import algorithms
from flcluster.algorithms import CDFL, DFCA, IFCA, FedAvg, FedBuff, Local
from flcluster.algorithms.rounds.selection import Selection
from flcluster.cli import main
from flcluster.data import Shard, View
from flcluster.datamodules import SkewedDigits
from flcluster.devices.profiles import Devices, Profile
from flcluster.devices.schedule import (
    DeviceArrivals,
    PermutationArrivals,
    PoissonArrivals,
    RoundRobinArrivals,
    UniformArrivals,
)
from flcluster.engine.run import make_loop
from flcluster.federation.worker import Worker
from flcluster.modules import MLP
from flcluster.protocol.rounds import RoundAlgorithm
from flcluster.topology.families import Complete

STAYS, DROPOUTS, MONOPOLY = [0, 2, 3, 5], [1, 4], 9
NAMES = ("acc_global", "acc_local", "acc_global_dropouts", "acc_local_dropouts")
COMMON = {"local_epochs": 1, "batch_size": 16}


def digits(**kwargs):
    given = {"num_clients": 6, "dropouts": DROPOUTS, "monopoly_classes": [MONOPOLY], "limit": 300, "test_share": 0.3}
    return SkewedDigits(**{**given, "proxy_size": 30, **kwargs})


@pytest.fixture(scope="module")
def skewed():
    """Six clients, two of which dropped out and alone hold nines. Nothing changes it."""
    return digits()


@pytest.fixture
def begun(federation):
    """Begin a run of a method on some data."""

    def make(algorithm, data, look_ahead=None):
        module = MLP(data.num_classes, data.input_shape, hidden=[16], lr=0.1)
        loop = make_loop(algorithm, federation(data, module), look_ahead, None)
        loop.begin()
        return loop

    return make


@pytest.fixture
def trained(monkeypatch):
    """Record what is trained, from now on."""
    log, train = [], Worker.train

    def recording(self, job, observe=None):
        log.append(job)
        return train(self, job, observe)

    monkeypatch.setattr(Worker, "train", recording)
    return log


def right(fed, row, view):
    """A model's share of right predictions, by a module of its own."""
    module = MLP(10, (1, 8, 8), hidden=[16])
    module.load_state_dict(fed.layout.state_dict(row))
    x, y = view.tensors()
    with torch.no_grad():
        return float((module.eval()(x).argmax(1) == y).double().mean())


def by_hand(fed, row_of):
    """The four numbers: means over clients that stay and over dropouts, each with its model on two test sets."""
    found = {}
    for group, clients in (("", STAYS), ("_dropouts", DROPOUTS)):
        rows = {m: row_of(m) for m in clients}
        known = [m for m in clients if rows[m] is not None]
        own = [right(fed, rows[m], fed.data.shard(m).test) for m in known if len(fed.data.shard(m).test)]
        everywhere = [right(fed, rows[m], fed.data.global_test()) for m in known]
        found[f"acc_global{group}"] = np.mean(everywhere) if everywhere else math.nan
        found[f"acc_local{group}"] = np.mean(own) if own else math.nan
    return found


def both_of(loop):
    found = loop.gauges()
    return {name: found[name] for name in NAMES}


# --------------------------------------------------------------------------------------------------------- the data say


def test_data_know_who_stays(skewed, blobs):
    assert list(skewed.dropouts) == DROPOUTS
    assert skewed.participants.tolist() == STAYS
    assert (list(blobs(num_clients=4).dropouts), blobs(num_clients=4).participants.tolist()) == ([], [0, 1, 2, 3])
    assert blobs().global_test() is None
    labels = torch.bincount(skewed.global_test().tensors()[1], minlength=10)
    assert len(set(labels.tolist())) == 1


# ----------------------------------------------------------------------------------------------------- both accuracies


@pytest.mark.parametrize("measure", ["participants", "all"])
def test_one_model_for_everyone(measure, begun, skewed):
    """FedAvg, from the first model on: on all classes alike the same for all, on their own data not."""
    loop = begun(FedAvg(**COMMON, rounds=4, measure=measure), skewed)
    for t in range(5):
        found = both_of(loop)
        assert found == pytest.approx(by_hand(loop.fed, lambda m: loop.state.models[0]), abs=1e-9)
        assert found["acc_global"] == pytest.approx(found["acc_global_dropouts"])
        assert ("client_acc" in loop.gauges()) == (measure == "all")
        if t < 4:
            loop.advance()
    assert found["acc_local"] > 0.3 > found["acc_local_dropouts"] + 0.05  # nobody taught nines


def test_each_its_own_model(begun, skewed):
    """IFCA with three models: a dropout too is served the one with the smallest loss on its training data."""
    loop = begun(IFCA(**COMMON, rounds=3, num_clusters=3), skewed)
    for _ in range(3):
        loop.advance()

    def best(m):
        losses = [loop.fed.loss(row, skewed.shard(m).train) for row in loop.state.models]
        return loop.state.models[losses.index(min(losses))]

    assert both_of(loop) == pytest.approx(by_hand(loop.fed, best), abs=1e-9)


def test_a_client_without_test_data_counts_on_the_global_test_only(begun):
    data = digits()
    shard = data.shard

    def held(client, cycle=0):
        found = shard(client, cycle)
        return Shard(found.train, View(((found.test.parts[0][0], torch.arange(0)),)), found.mixture)

    data.shard = lambda client, cycle=0: held(client) if client in (0, 1, 4) else shard(client, cycle)
    loop = begun(FedAvg(**COMMON, rounds=1), data)
    loop.advance()
    found = both_of(loop)
    assert found == pytest.approx(by_hand(loop.fed, lambda m: loop.state.models[0]), abs=1e-9, nan_ok=True)
    assert math.isnan(found["acc_local_dropouts"])


@pytest.mark.parametrize("look_ahead", [1, 8])
def test_clients_that_hold_a_model_of_uploads(look_ahead, begun, skewed):
    """FedBuff: who has uploaded has a reply, however many were trained ahead; dropouts never have a model."""
    loop = begun(FedBuff(**COMMON, cycles=3, pretrain_epochs=1, buffer_size=2), skewed, look_ahead)
    uploaded = set()
    for _ in range(loop.total):
        uploaded |= {exchange.client for exchange in loop.advance()}
        starts = loop.fed.table("start")
        rows = {m: starts[m] for m in uploaded}
        expected = by_hand(loop.fed, rows.get)
        assert both_of(loop) == pytest.approx(expected, abs=1e-9, nan_ok=True)
        assert math.isnan(expected["acc_global_dropouts"])
    assert not any(m in starts for m in DROPOUTS)


def test_without_dropouts_there_is_nothing_to_tell_of_them(begun):
    loop = begun(FedAvg(**COMMON, rounds=1), digits(dropouts=[], monopoly_classes=[]))
    loop.advance()
    found = both_of(loop)
    assert math.isnan(found["acc_global_dropouts"])
    assert math.isnan(found["acc_local_dropouts"])
    views = [loop.fed.data.shard(m).test for m in range(6)]
    own = [right(loop.fed, loop.state.models[0], view) for view in views if len(view)]
    assert found["acc_local"] == pytest.approx(np.mean(own))


# ------------------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize("algorithm", [FedAvg(), FedAvg(measure="all"), FedBuff(), Local(), DFCA(topology=Complete())])
def test_columns_are_there_wherever_the_data_have_a_global_test(algorithm, federation, skewed, blobs):
    module = MLP(10, (1, 8, 8), hidden=[16])
    assert set(NAMES) <= set(make_loop(algorithm, federation(skewed, module), None, None).extra_metrics)
    assert not set(NAMES) & set(make_loop(algorithm, federation(blobs()), None, None).extra_metrics)


def test_data_without_a_global_test_measure_nothing_of_it(federation, blobs):
    for algorithm in (FedAvg(**COMMON, rounds=1), FedAvg(**COMMON, rounds=1, measure="all"), Local(**COMMON)):
        loop = make_loop(algorithm, federation(blobs()), None, None)
        loop.begin()
        loop.advance()
        assert not set(NAMES) & set(loop.gauges())


ENGINE = [
    "--engine.progress",
    "false",
    "--engine.pictures",
    "false",
    "--engine.table",
    "false",
    "--engine.threads",
    "1",
]
DIGITS = ["--data", "SkewedDigits", "--data.num_clients", "6", "--data.limit", "300", "--data.dropouts", "[1,4]"]
METHODS = {"FedAvg": ["--algorithm.rounds", "2"], "FedBuff": ["--algorithm.cycles", "2"]}


def run(method, *data):
    """Run a method on the command line and return the rows of its metrics."""
    flags = ["--model", "MLP", "--model.hidden", "[16]", "--algorithm", method, *METHODS[method]]
    local = ["--algorithm.local_epochs", "1", "--algorithm.batch_size", "16"]
    if method == "FedBuff":
        local += ["--algorithm.pretrain_epochs", "1", "--data.proxy_size", "30"]
    assert main(["fit", *ENGINE, *data, *flags, *local, "--run_dir", method]) == 0
    with open(Path(method, "metrics.csv")) as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("method", METHODS)
def test_columns_of_a_run(method):
    """Also where only participants are measured; the fields are empty where nobody has a model."""
    rows = run(method, *DIGITS)
    assert set(NAMES) <= set(rows[0])
    assert all(0 <= float(rows[-1][name]) <= 1 for name in NAMES[:2])
    assert [bool(rows[-1][name]) for name in NAMES[2:]] == [method == "FedAvg"] * 2
    with open(Path(method, "clients.csv")) as file:
        assert not {int(row["client"]) for row in csv.DictReader(file)} & set(DROPOUTS)


def test_no_columns_without_a_global_test():
    rows = run("FedAvg", "--data", "RotatedDigits", "--data.num_clients", "3", "--data.samples", "[20,30]")
    assert not set(NAMES) & set(rows[0])


# ----------------------------------------------------------------------------------------------------- who takes part


ARRIVALS = [UniformArrivals(), PoissonArrivals(), PermutationArrivals(), RoundRobinArrivals(), DeviceArrivals()]


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=lambda a: type(a).__name__)
def test_uploads_come_from_those_who_stay(arrivals, begun, skewed):
    """As many cycles each as asked for, of four clients."""
    loop = begun(FedBuff(**COMMON, cycles=25, pretrain_epochs=0, arrivals=arrivals), skewed)
    assert (loop.total, loop.session) == (100, 4)
    assert set(loop.schedule.clients.tolist()) == set(STAYS)


@pytest.mark.parametrize("make", [FedBuff, CDFL, Local])
def test_nobody_else_trains_for_an_upload(make, begun, trained, skewed):
    loop = begun(make(**COMMON, cycles=3, pretrain_epochs=1), skewed)
    trained.clear()  # pre-training is the server's
    exchanges = [e for _ in range(loop.total) for e in loop.advance()]
    assert [job.client for job in trained] == [e.client for e in exchanges]
    assert {e.client for e in exchanges} <= set(STAYS)
    assert len(exchanges) == 12


ALONE = {"LocalRounds"}
"""Clients that have dropped out can still train alone."""
ROUNDS = [
    name
    for name in algorithms.__all__
    if inspect.isclass(getattr(algorithms, name)) and issubclass(getattr(algorithms, name), RoundAlgorithm)
]


@pytest.mark.parametrize("method", sorted(set(ROUNDS) - ALONE))
def test_no_method_in_rounds_trains_on_what_dropouts_hold(method, begun, trained, skewed):
    """Nor does its server: from the beginning to the last round, after which some make models for everyone."""
    kind = getattr(algorithms, method)
    known = {f.name for f in fields(kind)}
    wanted = {"num_clusters": 2, "topology": Complete()}
    loop = begun(kind(**COMMON, rounds=3, **{k: v for k, v in wanted.items() if k in known}), skewed)
    clients = [e.client for _ in range(2) for e in loop.advance()]
    assert clients
    assert set(clients) <= set(STAYS)
    ((source, _),) = skewed.shard(0).train.parts
    theirs = torch.cat([index for m in DROPOUTS for _, index in skewed.shard(m).train.parts])
    for job in trained:
        read = [index for held, index in job.view.parts if held is source]
        assert not any(torch.isin(index, theirs).any() for index in read), (job.purpose, job.client)


@pytest.mark.parametrize(("asked", "wanted"), [({}, 4), ({"participation": 0.5}, 2), ({"participants": 3}, 3)])
def test_a_share_is_of_those_who_stay(asked, wanted, begun, skewed):
    loop, met = begun(FedAvg(**COMMON, rounds=5, **asked), skewed), set()
    for _ in range(5):
        clients = [e.client for e in loop.advance()]
        assert len(clients) == wanted
        met |= set(clients)
    assert met == set(STAYS)


class Given(Devices):
    def profile(self, clients, seed):
        assert clients == 6  # dropouts have devices too
        return Profile(np.full(6, 5.0), np.full(6, 10.0))


@dataclass(frozen=True)
class Listening(Selection):
    """Takes the first of the pool, and notes it."""

    pools: list = field(default_factory=list)

    def pick(self, pool, count, t, memory, look, draw):
        self.pools.append(pool.tolist())
        return pool[:count]


def test_a_selection_is_not_even_shown_dropouts(begun, skewed):
    selection = Listening()
    loop = begun(FedAvg(**COMMON, rounds=2, participants=2, selection=selection, devices=Given()), skewed)
    loop.advance()
    loop.advance()
    assert selection.pools == [STAYS, STAYS]


def test_clients_alone_train_though_they_dropped_out(begun, trained, skewed):
    loop = begun(algorithms.LocalRounds(**COMMON, rounds=1), skewed)
    assert [e.client for e in loop.advance()] == list(range(6))
    assert [job.client for job in trained] == list(range(6))
