"""AP-FL's global model: uploads replayed one by one, failed ones, and rounds that are FedAvg's."""

import numpy as np
import pytest
import torch
from apfl_people import DROPOUTS, HELD, LR, STAYS, TINY, UPLOADS, Asynchronous, Listed, close, held_by, people
from replay import begun, descended, right

from flcluster.algorithms import APFL, FedAvg


@pytest.mark.parametrize(("lr", "exponent"), [(0.6, 0.5), (0.9, 1.0), (1.0, 0.0)])
def test_uploads_replayed_one_by_one(lr, exponent, script, federate, spied):
    """Each trains from what it received at its last upload (the first model at first), and is taken in at once."""
    fed = federate(people(script), lr=LR)
    settings = {} if (lr, exponent) == (0.6, 0.5) else {"server_lr": lr, "staleness_exponent": exponent}
    algorithm = APFL(**TINY, rounds=3, arrivals=Listed(*UPLOADS), **settings)
    loop = begun(algorithm, fed)
    first = loop.state.models[0].clone()
    assert torch.equal(first, FedAvg().init(fed).models[0])
    replay, log = Asynchronous(fed, first, lr, exponent), spied(fed)
    seen = []
    for t in range(3):
        log.clear()
        stale = []
        exchanges = loop.advance()
        clients = [STAYS[i] for i in UPLOADS[4 * t : 4 * t + 4]]
        assert [job.client for job, _ in log] == [e.client for e in exchanges] == clients
        for (job, row), client, exchange in zip(log, clients, exchanges, strict=True):
            close(job.start, replay.held[client])
            stale.append(replay.upload(client))
            close(row, replay.local[client])
            after = right(
                replay.held[client], fed.data.shard(client, t).test
            )  # what it got now, not at its next upload
            assert exchange.acc_after == pytest.approx(after, abs=1e-6)
        close(loop.state.models[0], replay.model)
        for client in STAYS:
            close(fed.table("held")[client], replay.held[client])
        for client, row in replay.local.items():
            close(fed.table("local")[client], row)
        assert [e.extra["staleness"] for e in exchanges] == [pytest.approx(np.mean(stale))] * 4
        seen += stale
    assert seen == [0, 1, 1, 0, 4, 1, 4, 7, 0, 0, 5, 5]  # by hand: 0, then since the last upload
    assert not any(client in fed.table("held") or client in fed.table("local") for client in DROPOUTS)


def test_clients_are_timed_by_what_they_train(script, federate):
    """Five steps of four samples a round, however many epochs that is."""

    class Watching(Listed):
        def schedule(self, clients, total, seed, work):
            watched.extend(work.epochs * work.samples(i, 0) for i in range(clients))
            return super().schedule(clients, total, seed, work)

    watched = []
    settings = {**TINY, "batch_size": 4, "local_steps": 5}
    begun(APFL(**settings, rounds=1, arrivals=Watching(0, 1, 2, 3)), federate(people(script), lr=LR)).advance()
    assert watched == [4 + 4 + 4 + 2 + 4, 5 * 4, 4 + 4 + 4 + 2 + 4, 4 + 4 + 4 + 1 + 4]  # they hold 14, 16, 14 and 13


def test_a_round_has_as_many_uploads_as_clients_that_stay(script, federate, spied):
    """By default of clients drawn at random, dropouts never among them."""
    fed = federate(people(script), lr=LR)
    loop, log = begun(APFL(**TINY, rounds=10), fed), spied(fed)
    for t in range(10):
        assert len(loop.advance()) == 4
        assert loop.time == 4 * (t + 1)
    clients = [job.client for job, _ in log]
    assert len(clients) == 40
    assert set(clients) == set(STAYS)
    assert any(len(set(clients[4 * t : 4 * t + 4])) < 4 for t in range(10))


def test_fewer_uploads_a_round(script, federate, spied):
    fed = federate(people(script), lr=LR)
    loop, log = begun(APFL(**TINY, rounds=4, participants=3, arrivals=Listed(*UPLOADS)), fed), spied(fed)
    for _ in range(4):
        assert len(loop.advance()) == 3
    assert [job.client for job, _ in log] == [STAYS[i] for i in UPLOADS]


def test_a_failed_upload_is_not_taken_in(script, federate, broken):
    """The model, the versions and what the others hold are as if it had not been sent; its client does not teach."""
    fed = federate(people(script), lr=LR)
    broken(fed, 3)
    algorithm = APFL(**TINY, rounds=3, arrivals=Listed(*UPLOADS))
    loop = begun(algorithm, fed)
    replay = Asynchronous(fed, loop.state.models[0].clone(), silent=(3,))
    for t in range(3):
        exchanges = loop.advance()
        for i in UPLOADS[4 * t : 4 * t + 4]:
            replay.upload(STAYS[i])
        assert [e.status == "refused" for e in exchanges] == [e.client == 3 for e in exchanges]
    close(loop.state.models[0], replay.model)
    assert 3 not in fed.table("local")
    while loop.position < loop.total:
        loop.advance()
    assert all(torch.isfinite(fed.table("personal")[m]).all() for m in range(6))


def test_in_rounds_it_is_fedavg_exactly(script, federate):
    """The same participants, the same models, bit for bit; small batches and some clients only."""
    left, right = federate(people(script), lr=LR), federate(people(script), lr=LR)
    common = {"rounds": 5, "local_epochs": 3, "batch_size": 4, "participation": 0.5, "prox": 0.1, "lr_decay": 0.9}
    mine = begun(APFL(**{**TINY, **common}, aggregation="fedavg"), left)
    theirs = begun(FedAvg(**common), right)
    for _ in range(5):
        a, b = mine.advance(), theirs.advance()
        assert [e.client for e in a] == [e.client for e in b]
        assert len(a) == 2
        assert torch.equal(mine.state.models, theirs.state.models)
        assert (mine.time, [e.uploaded for e in a]) == (theirs.time, [e.uploaded for e in b])


def test_in_rounds_local_models_are_those_of_the_last_round(script, federate):
    """The mean of two rounds' models by size, by hand; what teaches is what was trained in the second."""
    fed = federate(people(script), lr=LR)
    loop = begun(APFL(**TINY, rounds=2, aggregation="fedavg"), fed)
    model = loop.state.models[0].double()
    for _ in range(2):
        loop.advance()
        local = {m: descended(model, held_by(fed, m), 2, LR) for m in STAYS}
        model = sum(len(HELD[m]) * row for m, row in local.items()) / sum(len(HELD[m]) for m in STAYS)
        close(loop.state.models[0], model)
        for m in STAYS:
            close(fed.table("local")[m], local[m])
