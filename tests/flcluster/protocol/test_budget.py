"""How much a run will train, against what runs did train."""

import pytest
from federations import Blobs

import flcluster as fl
from flcluster.algorithms import CDFL, IFCA, FedAvg, FedAvgFT, Local
from flcluster.modules import MLP
from flcluster.protocol.budget import length_for, total_of

COMMON = {"local_epochs": 2, "batch_size": 8}


def trained(method):
    """Samples that the clients of a real run went through: three passes a sample are forward and backward."""
    run = fl.fit(Blobs(), MLP(hidden=[4], num_classes=3, input_shape=(1, 2, 3)), method, engine={"progress": False})
    return run.clients["samples"].sum() * method.local_epochs


@pytest.mark.parametrize(
    "method",
    [
        CDFL(cycles=3, pretrain_epochs=0, **COMMON),
        Local(cycles=2.5, pretrain_epochs=0, **COMMON),
        FedAvg(rounds=4, **COMMON),
        FedAvgFT(rounds=2, finetune_epochs=2, **COMMON),
    ],
    ids=lambda method: type(method).__name__,
)
def test_what_is_planned_is_what_is_trained(method):
    assert method.samples_planned(Blobs(), 5) == trained(method)


def test_steps_instead_of_epochs_are_gone_through_batch_by_batch():
    planned = FedAvg(rounds=2, local_steps=3, **COMMON).samples_planned(Blobs(), 5)
    assert planned == sum(walked(Blobs().size(client, t)) for t in range(2) for client in range(6))


def walked(n, steps=3, batch=8):
    batches = [min(batch, n - at) for at in range(0, n, batch)]
    return sum(batches[i % len(batches)] for i in range(steps))


def test_a_share_of_the_clients_counts_as_its_mean():
    every, some = (IFCA(rounds=6, participants=n, **COMMON).samples_planned(Blobs(), 5) for n in (None, 2))
    assert some == pytest.approx(every / 3)


def test_a_length_for_a_budget():
    data = Blobs()
    goal = CDFL(cycles=10, **COMMON).samples_planned(data, 5)
    rounds = length_for(FedAvg(rounds=100, **COMMON), data, 5, goal)
    near = [abs(FedAvg(rounds=n, **COMMON).samples_planned(data, 5) - goal) for n in (rounds - 1, rounds, rounds + 1)]
    assert min(near) == near[1]
    cycles = length_for(CDFL(cycles=1, **COMMON), data, 5, 2 * goal)
    assert CDFL(cycles=cycles, **COMMON).samples_planned(data, 5) == pytest.approx(2 * goal, rel=0.03)


def test_long_runs_are_reckoned_from_some_of_their_steps():
    looked_at = []
    assert total_of(100_000, lambda step: looked_at.append(step) or step) == pytest.approx(100_000 * 99_999 / 2)
    assert len(looked_at) == 500
