"""Clients that are held out of training: who they are, that nobody learns of them, and what they get at the end."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from federations import Blobs
from torch.nn.functional import cross_entropy

import flcluster as fl
from flcluster.algorithms import CDFL, DFCA, IFCA, FedAvg, FedAvgFT, Local, LocalRounds
from flcluster.algorithms.uploads.cdfl import mixed
from flcluster.errors import UserError
from flcluster.modules import MLP
from flcluster.protocol import Round, RoundAlgorithm
from flcluster.topology import Ring

COMMON = {"local_epochs": 1, "batch_size": 8}


class Held(Blobs):
    """Blobs of which some clients are held out."""

    def __init__(self, unseen=0.34, **settings):
        super().__init__(**settings)
        self.unseen = self._held_out(unseen)


def fit(method, data=None, **settings):
    model = MLP(hidden=[4], num_classes=3, input_shape=(1, 2, 3))
    return fl.fit(data or Held(), model, method, engine={"progress": False}, **settings)


def plain(module, view):
    """Loss and accuracy of a module on a view, in plain PyTorch."""
    x, y = view.parts[0][0].take(view.parts[0][1])
    for source, index in view.parts[1:]:
        more = source.take(index)
        x, y = torch.cat([x, more[0]]), torch.cat([y, more[1]])
    with torch.no_grad():
        logits = module(x)
    return float(cross_entropy(logits, y)), float((logits.argmax(1) == y).float().mean())


def test_they_are_drawn_from_the_seed_and_never_dropouts():
    data = Held(num_clients=20, unseen=0.2)
    again, other = Held(num_clients=20, unseen=0.2), Held(num_clients=20, unseen=0.2, seed=6)
    assert len(data.newcomers) == 4 and list(data.newcomers) == list(again.newcomers) != list(other.newcomers)
    assert sorted([*data.newcomers, *data.participants]) == list(range(20))
    assert not set(data.newcomers) & set(data.holding(0)) and len(Held(num_clients=3, unseen=0.01).newcomers) == 1
    assert len(Blobs().newcomers) == 0
    for share in (0, 1, -0.1):
        with pytest.raises(UserError, match=r"data\.unseen"):
            Held(unseen=share)


@pytest.mark.parametrize(
    "method",
    [
        CDFL(cycles=2, pretrain_epochs=1, **COMMON),
        FedAvg(rounds=2, **COMMON),
        FedAvg(rounds=2, measure="all", **COMMON),
        IFCA(rounds=2, **COMMON),
        DFCA(rounds=2, measure="all", **COMMON),
        LocalRounds(rounds=2, measure="all", **COMMON),
        FedAvgFT(rounds=2, finetune_epochs=1, **COMMON),
    ],
    ids=lambda method: f"{type(method).__name__} {getattr(method, 'measure', '')}",
)
def test_no_one_trains_on_them_and_they_are_scored(method):
    run = fit(method)
    held = set(Held().newcomers.tolist())
    trained = run.clients["client"]
    if not isinstance(method, FedAvgFT):  # there they get their own models last of all, like everyone
        assert not held & set(trained.astype(int).tolist())
    assert 0 <= run.summary["unseen_acc_worst"] <= run.summary["unseen_acc"] <= 1
    if getattr(method, "measure", "") == "all" and isinstance(method, FedAvg):
        by_hand = [plain(run.model(), Held().shard(m, 1).test)[1] for m in Held().participants]
        assert run.summary["client_acc"] == pytest.approx(np.mean(by_hand), abs=1e-6)


def test_fedavg_s_newcomers_get_the_global_model():
    run, data = fit(FedAvg(rounds=3, **COMMON)), Held()
    by_hand = [plain(run.model(), data.shard(m, 2).test)[1] for m in data.newcomers]
    assert run.summary["unseen_acc"] == pytest.approx(np.mean(by_hand), abs=1e-6)
    assert run.summary["unseen_acc_std"] == pytest.approx(np.std(by_hand), abs=1e-6)


def test_ifca_s_newcomers_choose_by_their_training_data():
    run, data = fit(IFCA(rounds=3, num_clusters=3, **COMMON)), Held()
    models = [run.model(cluster=k) for k in range(3)]
    chosen = [min(models, key=lambda model: plain(model, data.shard(m, 2).train)[0]) for m in data.newcomers]
    by_hand = [plain(model, data.shard(m, 2).test)[1] for model, m in zip(chosen, data.newcomers, strict=True)]
    assert run.summary["unseen_acc"] == pytest.approx(np.mean(by_hand), abs=1e-6)


def test_cdfl_s_newcomers_upload_once_and_change_nothing_for_others(federation):
    fed = federation(Held())
    method = CDFL(pretrain_epochs=1, **COMMON)
    state = method.init(fed)
    before = state.clusters.clone()
    rows = list(method.newcomers(state, [0, 1], 0, fed))
    assert torch.equal(state.clusters, before) and bool(state.weights.isnan().all())
    assert torch.equal(rows[1], next(iter(method.newcomers(state, [1], 0, fed)))), "one does not see the other"
    for row in rows:  # close to a mixture of the clusters, and not the first model of all
        weights = torch.linalg.lstsq(before.T, row[:, None]).solution[:, 0]
        assert float((mixed(weights, before) - row).norm() / row.norm()) < 0.2 and not torch.equal(row, state.initial)


def test_local_s_newcomers_train_alone(federation):
    fed = federation(Held())
    method = Local(pretrain_epochs=0, **COMMON)
    state = method.init(fed)
    (row,) = method.newcomers(state, [4], 0, fed)
    loss = [fed.loss(model, fed.data.shard(4).train) for model in (state.initial, row)]
    assert loss[1] < loss[0]


def test_without_a_server_newcomers_ask_their_neighbours(federation):
    fed = federation(Held(num_clusters=2))
    method = DFCA(rounds=2, num_clusters=1, topology=Ring(), **COMMON)
    state = method.init(fed)
    table = method.models(fed)
    for m in range(6):
        table[m] = torch.full_like(table[m], float(m))
    newcomer = int(fed.data.newcomers[0])
    around = [(newcomer - 1) % 6, (newcomer + 1) % 6]
    asked = [m for m in around if m in fed.data.participants] or [newcomer]
    (row,) = method.newcomers(state, [newcomer], 0, fed)
    assert torch.allclose(row, torch.full_like(row, float(np.mean(asked))))


class Silent(RoundAlgorithm[dict]):
    """Says nothing of models."""

    def init(self, fed):
        return {}

    def step(self, state, t, fed):
        return state, Round(self.select(t, fed), [], fed.init_rows(1))


def test_a_method_that_does_not_say_what_they_get_is_refused_before_it_runs():
    with pytest.raises(UserError, match=r"data\.unseen: Silent does not say what newcomers get"):
        fit(Silent(rounds=1, **COMMON))


def test_a_run_without_them_is_as_before():
    run = fit(FedAvg(rounds=1, **COMMON), Blobs())
    assert "unseen_acc" not in run.summary
    assert "unseen_acc" not in json.loads((Path(run.path) / "summary.json").read_text())
