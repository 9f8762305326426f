"""Round methods through the loop, against weighted means written down plainly."""

import math

import pytest
import torch
from lightning import LightningModule
from torch import nn

from flcluster.algorithms import IFCA, FedAvg
from flcluster.engine.loops.rounds import RoundLoop
from flcluster.engine.run import make_loop
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation

SEED = 11
COMMON = {"local_epochs": 2, "batch_size": 16, "rounds": 3}


def make(federation, algorithm, **kwargs):
    loop = make_loop(algorithm, federation(seed=SEED, **kwargs), None, None)
    assert isinstance(loop, RoundLoop)
    loop.begin()
    return loop


def locally(plain, module, data, client, t, lr=0.1):
    return plain.train(
        module,
        lambda m: torch.optim.SGD(m.parameters(), lr),
        data.shard(client, t).train,
        seed=SEED,
        client=client,
        cycle=t,
        epochs=2,
    )[0]


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_fedavg_is_the_weighted_mean(federation, blobs, mlp, plain):
    """w ← Σ n_m v_m / Σ n_m, three rounds, with a decaying learning rate."""
    data, model = blobs(), plain.first_model(SEED, mlp)
    loop = make(federation, FedAvg(**COMMON, lr_decay=0.5))
    close(loop.state.models[0], plain.vector(model))
    for t in range(3):
        trained = [locally(plain, model, data, m, t, lr=0.1 * 0.5**t) for m in range(6)]
        sizes = [len(data.shard(m, t).train) for m in range(6)]
        assert len(set(sizes)) > 2
        model = plain.mixed([n / sum(sizes) for n in sizes], trained)
        exchanges = loop.advance()
        close(loop.state.models[0], plain.vector(model))
        assert [e.client for e in exchanges] == list(range(6))
        for m, e in enumerate(exchanges):
            test = data.shard(m, t).test
            assert (e.cycle, e.samples, e.status, e.time) == (t, sizes[m], "accepted", t + 1)
            assert e.acc_before == pytest.approx(plain.accuracy(trained[m], test), abs=1e-9)
            assert e.acc_after == pytest.approx(plain.accuracy(model, test), abs=1e-9)
            assert e.uploaded == e.downloaded == 4 * (6 * 8 + 8 + 8 * 3 + 3)
            assert e.client_compute == 3 * 2 * sizes[m]
    assert (loop.position, loop.epoch) == (3, 3)


def test_ifca_assigns_by_training_loss_and_averages_plainly(federation, blobs, mlp, plain):
    """argmin of the mean training loss; unweighted mean per cluster; an empty cluster keeps its model."""
    data, k = blobs(), 4
    models = [plain.first_model(SEED, mlp, i) for i in range(k)]
    loop = make(federation, IFCA(**COMMON, num_clusters=k))
    close(loop.state.models, torch.stack([plain.vector(m) for m in models]))
    sizes_seen, empty = set(), 0
    for t in range(3):
        labels = []
        for m in range(6):
            losses = [plain.mean_loss(w, data.shard(m, t).train) for w in models]
            labels.append(losses.index(min(losses)))
        trained = [locally(plain, models[j], data, m, t) for m, j in enumerate(labels)]
        before = loop.state.models.clone()
        new = []
        for j in range(k):
            members = [v for v, label in zip(trained, labels, strict=True) if label == j]
            sizes_seen.add(len(members))
            empty += not members
            new.append(plain.mixed([1 / len(members)] * len(members), members) if members else models[j])
        exchanges = loop.advance()
        close(loop.state.models, torch.stack([plain.vector(m) for m in new]))
        for j in set(range(k)) - set(labels):
            assert torch.equal(loop.state.models[j], before[j])
        for m, e in enumerate(exchanges):
            shard = data.shard(m, t)
            assert e.acc_after == pytest.approx(plain.accuracy(new[labels[m]], shard.test), abs=1e-9)
            assert e.downloaded == k * e.uploaded
            assert e.client_compute == (3 * 2 + k) * len(shard.train)
        models = new
    assert empty
    assert max(sizes_seen) > 1


def test_ifca_has_as_many_models_as_the_data_has_clusters(federation, blobs):
    loop = make(federation, IFCA(**COMMON), data=blobs(num_clusters=2))
    assert len(loop.state.models) == 2
    assert not torch.equal(*loop.state.models)


@pytest.mark.parametrize("algorithm", [FedAvg, IFCA])
def test_partial_participation_is_repeatable(algorithm, federation, blobs):
    """Half of 12 clients: six different ones a round, ascending, not the same every round, the same when run again."""
    runs = []
    for _ in range(2):
        loop = make(federation, algorithm(**{**COMMON, "rounds": 6}, participation=0.5), data=blobs(num_clients=12))
        runs.append([[e.client for e in loop.advance()] for _ in range(6)])
    assert runs[0] == runs[1]
    for clients in runs[0]:
        assert len(clients) == len(set(clients)) == 6
        assert clients == sorted(clients)
        assert set(clients) <= set(range(12))
    assert len({tuple(clients) for clients in runs[0]}) > 1
    assert len({client for clients in runs[0] for client in clients}) == 12


def test_only_participants_count(federation, blobs, mlp, plain):
    """The mean is over the selected clients, weighted by their sizes alone."""
    data, model = blobs(num_clients=8), plain.first_model(SEED, mlp)
    loop = make(federation, FedAvg(**COMMON, participation=0.25), data=data)
    clients = [e.client for e in loop.advance()]
    assert len(clients) == 2
    sizes = [len(data.shard(m, 0).train) for m in clients]
    expected = plain.mixed([n / sum(sizes) for n in sizes], [locally(plain, model, data, m, 0) for m in clients])
    close(loop.state.models[0], plain.vector(expected))


def test_at_least_one_client_takes_part(federation):
    loop = make(federation, FedAvg(**COMMON, participation=0.01))
    assert len(loop.advance()) == 1


# --------------------------------------------------------------------------------------------------------- non-finite


def spoil(data, *clients):
    """Give clients inputs that make their models NaN."""
    original = data.shard

    def shard(client, cycle=0):
        found = original(client, cycle)
        if client in clients:
            source, index = found.train.parts[0]
            x = source.x.clone()
            x[index[0]] = math.nan
            found.train.parts = ((type(source)(x, source.y), index), *found.train.parts[1:])
        return found

    data.shard = shard
    return data


@pytest.fixture(autouse=True)
def views_can_be_changed(monkeypatch):
    """Views are frozen; here a client's is changed on purpose."""
    from flcluster.data import View

    monkeypatch.setattr(View, "__setattr__", object.__setattr__)


def test_a_client_that_is_not_finite_is_left_out(federation, blobs, mlp, plain):
    """The mean of the other five with their sizes; its weight is left out as well."""
    data, model = blobs(), plain.first_model(SEED, mlp)
    loop = make(federation, FedAvg(**COMMON), data=spoil(blobs(), 2))
    exchanges = loop.advance()
    others = [0, 1, 3, 4, 5]
    sizes = [len(data.shard(m, 0).train) for m in others]
    expected = plain.mixed([n / sum(sizes) for n in sizes], [locally(plain, model, data, m, 0) for m in others])
    close(loop.state.models[0], plain.vector(expected))
    assert len(exchanges) == 6


def test_a_client_that_was_left_out_is_reported(federation, blobs):
    """As an upload method does: refused, and without an accuracy of a model that is not one."""
    exchanges = make(federation, FedAvg(**COMMON), data=spoil(blobs(), 2)).advance()
    assert [e.status for e in exchanges] == ["accepted"] * 2 + ["refused"] + ["accepted"] * 3
    assert math.isnan(exchanges[2].acc_before)


@pytest.mark.parametrize("algorithm", [FedAvg, IFCA])
def test_if_nobody_is_finite_the_models_stay(algorithm, federation, blobs):
    loop = make(federation, algorithm(**COMMON), data=spoil(blobs(), *range(6)))
    before = loop.state.models.clone()
    loop.advance()
    assert torch.equal(loop.state.models, before)


# ------------------------------------------------------------------------------------------------------- first models


class Wrapper(LightningModule):
    """A module around a network it was given, as ``model.net.class_path`` in a YAML makes it."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.save_hyperparameters()
        self.net = net

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Ignoring(LightningModule):
    """The same as Lightning recommends it, with another argument that is kept."""

    def __init__(self, net: nn.Module, lr: float = 0.1):
        super().__init__()
        self.save_hyperparameters(ignore=["net"])
        self.net = net

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.hparams["lr"])


@pytest.mark.filterwarnings("ignore:Attribute 'net'")
@pytest.mark.parametrize("cls", [Wrapper, Ignoring])
def test_a_module_that_was_given_its_network(cls, federation):
    """Its first models are random, differ from each other, and drawing them does not unbind the worker's module."""
    fed = federation(module=cls(nn.Sequential(nn.Flatten(), nn.Linear(6, 3))))
    rows = fed.init_rows(2)
    assert not torch.equal(rows[0], rows[1])
    wanted = torch.arange(float(fed.layout.size))
    fed.layout.load(wanted)
    assert torch.equal(fed.worker.module.net[1].weight.flatten(), wanted[:18])


def test_first_models_are_repeatable_and_differ(federation):
    a, b = federation(seed=1).init_rows(3), federation(seed=1).init_rows(4)
    assert torch.equal(a, b[:3])
    assert len({tuple(row.tolist()) for row in b}) == 4
    assert not torch.equal(federation(seed=2).init_rows(1)[0], a[0])


def test_given_weights_are_the_first_model_and_others_are_drawn(blobs, mlp, fabric, tmp_path):
    """A warm start: number 0 is the module as it is given, number 1 is what a run without would draw."""
    module = mlp()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(0.25)
    data = blobs()
    make = {"bank": lambda width: Bank(tmp_path / "bank", width, 2**20), "seed": 3}
    warm = Federation(fabric, module, data, **make, given=True)
    cold = Federation(fabric, mlp(), data, **make)
    said = []
    warm.note = cold.note = said.append
    assert torch.equal(warm.init_rows(1)[0], torch.full((warm.layout.size,), 0.25)) and not said
    assert torch.equal(warm.init_rows(2)[1], cold.init_rows(2)[1])
    assert not torch.equal(cold.init_rows(1)[0], warm.init_rows(1)[0])
    assert said == ["first model 1 is drawn anew: the given weights are those of the first"]
