"""Every method over data without classes: it runs, or is refused before it trains, in a line that says why.

Generated: a new method is covered as soon as it is exported.
"""

import dataclasses

import lightning as L
import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

import flcluster as fl
from flcluster import algorithms
from flcluster.algorithms import DistanceSelection, FedAvg, Fielding, Gradient, HeterogeneityProbe, InputEmbedding, Oort
from flcluster.data import FederatedDataModule
from flcluster.datamodules import IID, SplitDataModule, from_arrays
from flcluster.engine.loops.rounds import RoundLoop
from flcluster.engine.loops.uploads import UploadLoop
from flcluster.errors import UserError
from flcluster.modules import MLP
from flcluster.protocol import Algorithm
from flcluster.protocol.needs import CLASSES, needed

X = torch.from_numpy(np.random.default_rng(0).standard_normal((48, 4)).astype(np.float32))
GIVEN = {"clients": np.arange(48) % 4, "clusters": {i: i % 2 for i in range(4)}, "proxy_size": 3}
METHODS = [name for name in algorithms.__all__ if issubclass(getattr(algorithms, name), Algorithm)]
SHORT = {"rounds": 1, "cycles": 1, "pretrain_epochs": 1, "local_epochs": 1, "generator_steps": 2}


class Own(L.LightningModule):
    """A module of a user's: what it is trained on is its own affair."""

    def __init__(self, outputs: int):
        super().__init__()
        self.net = torch.nn.Linear(4, outputs)

    def training_step(self, batch, batch_idx):
        return self.penalty(batch)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.penalty(batch), batch_size=len(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class AutoEncoder(Own):
    def penalty(self, batch):
        return F.mse_loss(self.net(batch), batch)


class Regression(Own):
    def penalty(self, batch):
        return F.mse_loss(self.net(batch[0])[:, 0], batch[1])


class ManyLabels(Own):
    def penalty(self, batch):
        return F.binary_cross_entropy_with_logits(self.net(batch[0]), batch[1].float())


class OfDicts(Own):
    def penalty(self, batch):
        return F.mse_loss(self.net(batch["x"]), batch["x"])


class Dicts(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader([{"x": x} for x in X], batch_size=8, shuffle=True)


def dicts():
    return SplitDataModule(Dicts(), IID(), num_clients=4, proxy_size=3)


KINDS = {
    "no labels": (lambda: from_arrays(X, **GIVEN), AutoEncoder, 4),
    "regression": (lambda: from_arrays(X, X[:, 0], **GIVEN), Regression, 1),
    "many labels": (lambda: from_arrays(X, (X[:, :3] > 0).long(), **GIVEN), ManyLabels, 3),
    "dicts": (dicts, OfDicts, 4),
}


@pytest.fixture
def stepped(monkeypatch):
    """How many steps have been begun."""
    steps = []
    for loop in (RoundLoop, UploadLoop):
        advance = loop.advance
        monkeypatch.setattr(loop, "advance", lambda self, advance=advance: (steps.append(1), advance(self))[1])
    return steps


def short(kind, data):
    known = {field.name for field in dataclasses.fields(kind)}
    settings = {name: value for name, value in SHORT.items() if name in known}
    return settings | ({"num_clusters": 2} if "num_clusters" in known and data.num_clusters == 1 else {})


def fit(data, model, algorithm):
    return fl.fit(data, model, algorithm, run_dir="run", engine={"progress": False, "max_updates": 4})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_or_says_at_the_start_what_is_missing(name, kind, stepped):
    make, module, outputs = KINDS[kind]
    data = make()
    try:
        run = fit(data, module(outputs), {"class_path": name, "init_args": short(getattr(algorithms, name), data)})
    except UserError as error:
        assert not stepped, f"refused after {len(stepped)} steps"
        assert str(error).startswith(f"{name} ") and "needs" in str(error) and "\n" not in str(error)
    else:
        assert stepped and np.isfinite(run.metrics["client_acc_after"][-1])
        assert not data.knows_classes and all(what != CLASSES for _, what in needed(getattr(algorithms, name)()))


class NoStep(L.LightningModule):
    """A classifier without a training_step: cross-entropy of its logits would be taken."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [{"class_path": "MLP"}, MLP(3, (4,)), NoStep()], ids=["named", "given", "no step"])
def test_classifiers_are_refused_where_there_are_no_classes(model, kind, stepped):
    if kind == "dicts" and isinstance(model, dict):
        pytest.skip("an MLP is made for the shape of its input, and dicts have none")
    with pytest.raises(UserError) as caught:
        fit(KINDS[kind][0](), model, FedAvg(rounds=2))
    assert "class of each sample" in str(caught.value) and not stepped and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("algorithm", "told"),
    [
        (FedAvg(rounds=2, selection=DistanceSelection()), "FedAvg with selection=DistanceSelection needs the class of"),
        (FedAvg(rounds=2, selection=Oort()), "FedAvg with selection=Oort needs the losses of single samples"),
        (Fielding(rounds=2, representation=InputEmbedding()), "representation=InputEmbedding needs what the model's"),
        (Fielding(rounds=2, representation=Gradient()), "representation=Gradient needs the gradient of the loss"),
    ],
)
def test_parts_of_a_method_say_it_too(algorithm, told, stepped):
    with pytest.raises(UserError) as caught:
        fit(from_arrays(X, X[:, 0], **GIVEN), Regression(1), algorithm)
    assert told in str(caught.value) and not stepped


def test_hooks_say_it_too(stepped):
    with pytest.raises(UserError, match="HeterogeneityProbe needs the class of each sample"):
        fl.fit(
            *(from_arrays(X, X[:, 0], **GIVEN), Regression(1), FedAvg(rounds=2)),
            callbacks=[HeterogeneityProbe(rounds=[2])],
            run_dir="run",
        )
    assert not stepped


def test_measuring_all_clients_needs_no_classes():
    run = fit(from_arrays(X, X[:, 0], **GIVEN), Regression(1), FedAvg(rounds=2, measure="all"))
    assert np.isfinite(run.metrics["client_acc"]).all() and np.isnan(run.metrics["heterogeneity"]).all()


def test_classes_are_known_where_samples_show_them():
    class Pairs(L.LightningDataModule):
        def train_dataloader(self):
            return DataLoader([(x, i % 3) for i, x in enumerate(X)], batch_size=8)

    told: list[FederatedDataModule] = [
        from_arrays(X, np.arange(48) % 3, **GIVEN),
        SplitDataModule(Pairs(), IID(), num_clients=4, num_classes=3),
    ]
    assert all(data.knows_classes for data in told) and not any(KINDS[kind][0]().knows_classes for kind in KINDS)
