"""FedAvg-FT: FedAvg's rounds, then gradient descent on everyone's own data, replayed in float64; runs on digits.

Batches are larger than what anyone holds, so that training is plain gradient descent, whatever the order of samples.
"""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from replay import begun, descended, right

from flcluster.algorithms import FedAvg, FedAvgFT
from flcluster.cli import main
from flcluster.errors import UserError

CLASSES, PIXELS, LR = 4, 6, 0.2
WIDTH = CLASSES * PIXELS + CLASSES
HELD = {
    0: [0] * 9 + [1] * 3,
    1: [3] * 8,
    2: [1] * 5 + [2] * 5,
    3: [0] * 4 + [2] * 2,
    4: [0, 1, 2, 3] * 3,
    5: [1] * 7,
    6: [3] * 2 + [0],
}
DROPOUTS = (1, 6)
STAYS = (0, 2, 3, 4, 5)
COMMON = {"local_epochs": 2, "batch_size": 64, "rounds": 3, "finetune_epochs": 5}


def people(script, held=None, dropouts=DROPOUTS):
    return script({0: held or HELD}, classes=CLASSES, dropouts=dropouts, tested=True)


def close(found, expected, atol=3e-6):
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def test_a_whole_run_replayed(script, federate, spied):
    """Three means by size of those who stay; then everyone, dropouts too, five epochs from the last of them."""
    fed = federate(people(script), lr=LR)
    loop, log = begun(FedAvgFT(**COMMON, measure="all"), fed), spied(fed)
    model, train = loop.state.models[0].double(), {m: fed.data.shard(m, 0).train for m in range(7)}
    for t in range(3):
        log.clear()
        assert [e.client for e in loop.advance()] == [job.client for job, _ in log] == list(STAYS)
        local = {m: descended(model, train[m].tensors(), 2, LR) for m in STAYS}
        model = sum(len(HELD[m]) * row for m, row in local.items()) / sum(len(HELD[m]) for m in STAYS)
        close(loop.state.models[0], model)
        found = loop.gauges()
        assert found["acc_global"] == pytest.approx(right(model, fed.data.global_test()), abs=1e-6)
        assert found["acc_global_dropouts"] == pytest.approx(found["acc_global"])
        assert t < 2 or "global_model_acc" not in found
    log.clear()
    while loop.position < loop.total:
        loop.advance()
    assert [job.client for job, _ in log] == list(range(7))
    assert all(torch.equal(job.start, loop.state.models[0]) for job, _ in log)
    own = {m: descended(model, train[m].tensors(), 5, LR) for m in range(7)}
    for m in range(7):
        close(fed.table("personal")[m], own[m], atol=5e-6)
        assert loop.algorithm.own_row(loop.state, m) == ("personal", m)
    close(loop.state.models[0], model)
    found = loop.gauges()
    for group, clients in (("", STAYS), ("_dropouts", DROPOUTS)):
        everywhere = [right(own[m], fed.data.global_test()) for m in clients]
        local = [right(own[m], fed.data.shard(m, 0).test) for m in clients]
        assert found[f"acc_global{group}"] == pytest.approx(np.mean(everywhere), abs=1e-6)
        assert found[f"acc_local{group}"] == pytest.approx(np.mean(local), abs=1e-6)
    assert found["global_model_acc"] == pytest.approx(right(model, fed.data.global_test()), abs=1e-6)


def test_every_step_reads_the_data_of_its_own_round(script, federate, spied):
    """Everyone's data change in every round, and after the last one: fine-tuning and its test are on the last one's."""
    held = [{m: [(m + t) % CLASSES] * (4 + 3 * t + m) for m in range(7)} for t in range(5)]
    data = script(dict(enumerate(held)), classes=CLASSES, dropouts=DROPOUTS, tested=True)
    fed = federate(data, lr=LR)
    loop, log = begun(FedAvgFT(**COMMON), fed), spied(fed)
    model = loop.state.models[0].double()
    for t in range(3):
        log.clear()
        loop.advance()
        local = {m: descended(model, data.shard(m, t).train.tensors(), 2, LR) for m in STAYS}
        assert [job.client for job, _ in log] == list(STAYS)
        model = sum(len(held[t][m]) * row for m, row in local.items()) / sum(len(held[t][m]) for m in STAYS)
        close(loop.state.models[0], model)
    exchanges = loop.advance() + loop.advance()
    assert [e.client for e in exchanges] == list(range(7))
    for m, e in enumerate(exchanges):
        own, test = descended(model, data.shard(m, 2).train.tensors(), 5, LR), data.shard(m, 2).test
        close(fed.table("personal")[m], own, atol=5e-6)
        assert (e.samples, e.client_compute) == (len(held[2][m]), 3 * 5 * len(held[2][m]))
        assert e.acc_before == e.acc_after == pytest.approx(right(own, test), abs=1e-6)
    local = [right(fed.table("personal")[m], data.shard(m, 2).test) for m in STAYS]
    assert loop.gauges()["acc_local"] == pytest.approx(np.mean(local), abs=1e-6)


def test_its_rounds_are_fedavgs_bit_for_bit(script, federate):
    """Small batches, some of the clients, a decaying learning rate."""
    common = {"rounds": 4, "local_epochs": 2, "batch_size": 3, "participation": 0.6, "lr_decay": 0.8, "prox": 0.05}
    mine = begun(FedAvgFT(**common), federate(people(script), lr=LR))
    theirs = begun(FedAvg(**common), federate(people(script), lr=LR))
    for _ in range(4):
        a, b = mine.advance(), theirs.advance()
        assert [e.client for e in a] == [e.client for e in b]
        assert torch.equal(mine.state.models, theirs.state.models)


def test_a_dropouts_data_change_its_own_model_only(script, federate):
    """Small batches. Dropout 1 holds something else: the global model and the six other models stay as they are."""
    ends = []
    for held in (HELD, {**HELD, 1: [0, 2] * 6}):
        fed = federate(people(script, held), lr=LR)
        loop = begun(FedAvgFT(**{**COMMON, "batch_size": 4}), fed)
        while loop.position < loop.total:
            loop.advance()
        ends.append((loop.state.models, [fed.table("personal")[m] for m in range(7)]))
    assert torch.equal(ends[0][0], ends[1][0])
    assert [torch.equal(a, b) for a, b in zip(ends[0][1], ends[1][1], strict=True)] == [m != 1 for m in range(7)]


def test_no_epochs_leave_everyone_the_global_model(script, federate):
    fed = federate(people(script), lr=LR)
    loop = begun(FedAvgFT(**{**COMMON, "finetune_epochs": 0}), fed)
    while loop.position < loop.total:
        loop.advance()
    assert all(torch.equal(fed.table("personal")[m], loop.state.models[0]) for m in range(7))


def test_a_client_without_data_keeps_the_global_model(script, federate):
    fed = federate(people(script, {**HELD, 6: []}), lr=LR)
    loop = begun(FedAvgFT(**COMMON), fed)
    while loop.position < loop.total:
        loop.advance()
    assert torch.equal(fed.table("personal")[6], loop.state.models[0])
    assert not torch.equal(fed.table("personal")[1], loop.state.models[0])


def test_a_failed_fine_tuning_leaves_the_global_model(script, federate, broken):
    fed = federate(people(script), lr=LR)
    loop = begun(FedAvgFT(**COMMON), fed)
    for _ in range(3):
        loop.advance()
    broken(fed, 2, 6)
    statuses = {e.client: e.status for _ in range(2) for e in loop.advance()}
    for m in range(7):
        assert torch.equal(fed.table("personal")[m], loop.state.models[0]) == (m in (2, 6))
        assert (statuses[m] == "refused") == (m in (2, 6))


def test_models_of_their_own_come_five_at_a_time(script, federate):
    """Until then a client is served the global model. Everyone is sent it once more and sends nothing back."""
    fed = federate(people(script), lr=LR)
    algorithm = FedAvgFT(**COMMON)
    loop = begun(algorithm, fed)
    assert [(phase.name, phase.steps) for phase in loop.phases] == [("rounds", 3), ("own models", 2)]
    for done in (0, 0, 0, 5, 7):
        exchanges = loop.advance()
        served = algorithm.served(loop.state, 2, fed)
        for m in range(7):
            expected = fed.table("personal")[m] if m < done else loop.state.models[0]
            assert torch.equal(served.models[int(served.which[m])], expected)
        for e in exchanges:
            epochs, sent = (5, 0) if done else (2, 4 * WIDTH)
            assert (e.uploaded, e.downloaded) == (sent, 4 * WIDTH)
            assert e.client_compute == 3 * epochs * len(HELD[e.client])
            assert e.acc_after == pytest.approx(
                right(served.models[int(served.which[e.client])], fed.data.shard(e.client, 0).test), abs=1e-6
            )


def test_rounds_cannot_be_changed_once_they_have_ended(script, federate):
    """What follows the rounds was made from the model they ended with."""
    fed, algorithm = federate(people(script), lr=LR), FedAvgFT(rounds=2)
    loop = begun(algorithm, fed)
    loop.advance(), loop.advance()
    with pytest.raises(UserError, match=r"algorithm.rounds is 1, .* start a new run"):
        begun(replace(algorithm, rounds=1), fed).restore(loop.save())
    longer = begun(replace(algorithm, rounds=3), fed)
    longer.restore(loop.save())
    assert {e.uploaded for e in longer.advance()} == {4 * WIDTH}, "before the end they can"
    assert longer.state.done == 0
    loop.advance()
    for rounds in (1, 3, 9):
        with pytest.raises(UserError, match=r"algorithm.rounds"):
            begun(replace(algorithm, rounds=rounds), fed).restore(loop.save())


def test_wrong_settings_name_their_key():
    with pytest.raises(UserError, match="finetune_epochs"):
        FedAvgFT(finetune_epochs=-1)


def test_names():
    assert FedAvgFT().title == "FedAvg-FT"
    assert FedAvgFT().finetune_epochs == 20


# ------------------------------------------------------------------------------------------------------- runs on digits


def test_a_run_on_digits_learns_and_resumes_bit_for_bit(resumed):
    """Cut within the rounds and between two personal steps; fine-tuning helps on what a client holds itself."""

    def nobody_has_a_model_of_its_own():
        for what in ("--client", "--cluster"):
            assert main(["export", "cut", what, "0", "--output", f"{what[2:]}.ckpt"]) == 0
        weights = [torch.load(f"{what}.ckpt", weights_only=True)["state_dict"] for what in ("client", "cluster")]
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])

    settings = {"seed_everything": 1, "data.num_clients": 7, "data.limit": 500, "data.dropouts": [1, 6]}
    settings |= {"data.monopoly_classes": [9], "algorithm": "FedAvgFT", "algorithm.rounds": 4}
    settings |= {"algorithm.local_epochs": 2, "algorithm.batch_size": 10, "algorithm.finetune_epochs": 5}
    summary = resumed(settings, stops=[2, 5], then=nobody_has_a_model_of_its_own)
    assert (summary["algorithm"], summary["status"]) == ("FedAvg-FT", "finished")
    with open("whole/metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1 + 4 + 2
    assert float(rows[-1]["acc_local_dropouts"]) > float(rows[4]["acc_local_dropouts"]) + 0.1
    assert summary["acc_local"] > summary["acc_global"]
    assert summary["global_model_acc"] == pytest.approx(float(rows[4]["acc_global"]))
