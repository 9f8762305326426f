"""Local training in rounds: everyone alone, dropouts too, against gradient descent in float64; runs on digits."""

import csv

import numpy as np
import pytest
import torch
from replay import begun, descended, right

from flcluster.algorithms import FedAvg, LocalRounds
from flcluster.modules import MLP

CLASSES, PIXELS, LR = 4, 6, 0.2
HELD = {0: [0] * 9 + [1] * 3, 1: [3] * 8, 2: [1] * 5 + [2] * 5, 3: [0] * 4 + [2] * 2, 4: [0, 1, 2, 3] * 3}
DROPOUTS = (1, 3)
COMMON = {"local_epochs": 2, "batch_size": 64, "rounds": 3}


def people(script, held=None, dropouts=DROPOUTS, later=None):
    return script({0: held or HELD, **(later or {})}, classes=CLASSES, dropouts=dropouts, tested=True)


def test_everyone_trains_its_own_model_and_sends_nothing(script, federate, spied):
    """From one first model, the same as FedAvg's; data change in round 1, and training goes on with them."""
    data = people(script, later={1: {0: [2] * 6, 3: [1, 2, 3]}})
    fed = federate(data, lr=LR)
    loop, log = begun(LocalRounds(**COMMON), fed), spied(fed)
    first = FedAvg().init(fed).models[0]
    rows = dict.fromkeys(range(5), first.double())
    for t in range(3):
        log.clear()
        exchanges = loop.advance()
        assert [job.client for job, _ in log] == [e.client for e in exchanges] == list(range(5))
        for (job, row), exchange in zip(log, exchanges, strict=True):
            m = job.client
            torch.testing.assert_close(job.start.double(), rows[m], rtol=0, atol=5e-6)
            rows[m] = descended(rows[m], data.shard(m, t).train.tensors(), 2, LR)
            torch.testing.assert_close(row.double(), rows[m], rtol=0, atol=5e-6)
            assert (exchange.uploaded, exchange.downloaded) == (0, 0)
            expected = right(rows[m], data.shard(m, t).test)
            assert (exchange.acc_before, exchange.acc_after) == pytest.approx((expected, expected), abs=1e-6)
        served = loop.algorithm.served(loop.state, t, fed)
        for m in range(5):
            mine = served.models[int(served.which[m])]
            torch.testing.assert_close(mine.double(), rows[m], rtol=0, atol=5e-6)
            name, place = loop.algorithm.own_row(loop.state, m)
            assert torch.equal(fed.bank.tables[name][place], mine)
        found = loop.gauges()
        for group, clients in (("", (0, 2, 4)), ("_dropouts", DROPOUTS)):
            everywhere = [right(rows[m], data.global_test()) for m in clients]
            local = [right(rows[m], data.shard(m, t).test) for m in clients]
            assert found[f"acc_global{group}"] == pytest.approx(np.mean(everywhere), abs=1e-6)
            assert found[f"acc_local{group}"] == pytest.approx(np.mean(local), abs=1e-6)


def test_nobody_learns_anything_of_others(script, federate):
    """Small batches and momentum: a client's model is the same whatever the others hold and whoever dropped out."""
    ends = []
    for held, dropouts in ((HELD, DROPOUTS), ({**HELD, 0: [3] * 20, 1: [0], 4: [1, 2]}, ())):
        fed = federate(people(script, held, dropouts), module=MLP(CLASSES, (1, 2, 3), hidden=[5], lr=LR, momentum=0.5))
        loop = begun(LocalRounds(**{**COMMON, "batch_size": 3}), fed)
        for _ in range(3):
            loop.advance()
        ends.append([fed.table("own")[m] for m in range(5)])
    assert [torch.equal(a, b) for a, b in zip(*ends, strict=True)] == [m in (2, 3) for m in range(5)]


def test_before_it_has_trained_a_client_has_the_first_model(script, federate):
    """Two of five a round, dropouts among them in the long run."""
    fed = federate(people(script), lr=LR)
    algorithm = LocalRounds(**{**COMMON, "rounds": 12}, participants=2, measure="all")
    loop, started = begun(algorithm, fed), set()
    for t in range(12):
        served = algorithm.served(loop.state, t, fed)
        for m in range(5):
            same = torch.equal(served.models[int(served.which[m])], loop.state.initial[0])
            assert same == (m not in started)
        clients = [e.client for e in loop.advance()]
        assert len(clients) == 2
        started |= set(clients)
    assert started == set(range(5))


def test_a_share_counts_dropouts_too(script, federate):
    """They train alone like everyone: .4 of five clients are two."""
    fed = federate(people(script), lr=LR)
    assert LocalRounds(participation=0.4).wanted(fed) == 2
    assert LocalRounds().wanted(fed) == 5
    assert FedAvg().wanted(fed) == 3


def test_a_client_without_data_and_a_failed_training(script, federate, broken):
    """The one keeps the first model, the other the model it had; neither disturbs anybody."""
    fed = federate(people(script, {**HELD, 2: []}), lr=LR)
    loop = begun(LocalRounds(**COMMON), fed)
    loop.advance()
    before = {m: fed.table("own")[m] for m in range(5)}
    broken(fed, 0)
    exchanges = loop.advance()
    assert [(e.client, e.status == "refused") for e in exchanges] == [(0, True), (1, False), (3, False), (4, False)]
    served = loop.algorithm.served(loop.state, 1, fed)
    rows = [served.models[int(served.which[m])] for m in range(5)]
    assert torch.equal(rows[0], before[0])
    assert torch.equal(rows[2], loop.state.initial[0])
    assert all(not torch.equal(rows[m], before[m]) and torch.isfinite(rows[m]).all() for m in (1, 3, 4))


def test_it_is_called_local():
    assert LocalRounds().title == "Local"


# ------------------------------------------------------------------------------------------------------- runs on digits


def test_a_run_on_digits_learns_and_resumes_bit_for_bit(resumed):
    """What clients hold they learn, though some have two classes only; half of them rest."""
    settings = {"seed_everything": 1, "data.num_clients": 6, "data.limit": 400, "data.dropouts": [1, 5]}
    settings |= {"data.monopoly_classes": [9], "algorithm": "LocalRounds", "algorithm.rounds": 6}
    settings |= {"algorithm.participation": 0.5, "algorithm.local_epochs": 3, "algorithm.batch_size": 10}
    summary = resumed(settings, stops=[3])
    assert (summary["algorithm"], summary["upload_bytes"], summary["download_bytes"]) == ("Local", 0, 0)
    with open("whole/metrics.csv") as file:
        rows = list(csv.DictReader(file))
    for group in ("", "_dropouts"):
        assert float(rows[-1][f"acc_local{group}"]) > float(rows[0][f"acc_local{group}"]) + 0.2
        assert summary[f"acc_global{group}"] < summary[f"acc_local{group}"]
