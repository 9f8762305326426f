"""AP-FL's personal models: whole runs replayed up to (1 − λ) base + λ friend, and what is measured of them."""

import csv
import math

import numpy as np
import pytest
import torch
from apfl_people import (
    CLASSES,
    DROPOUTS,
    HELD,
    LR,
    PIXELS,
    SHARES,
    STAYS,
    TINY,
    UPLOADS,
    Asynchronous,
    Listed,
    both,
    by_largest_remainder,
    close,
    held_by,
    people,
    played,
)
from replay import begun, descended, right

from flcluster.algorithms import APFL
from flcluster.algorithms.personal import apfl

WHO = ("", "_dropouts")


@pytest.mark.parametrize("mix_with", ["local", "global"])
@pytest.mark.parametrize(("reading", "coefficient", "share"), [("friend", 0.1, 0.1), ("literal", 0.1, 0.9)])
def test_a_whole_run_replayed(reading, coefficient, share, mix_with, script, federate, spied):
    """From the first model to everyone's own: (1 − λ) base + λ friend.

    The base is a client's last local model (or θ*), for dropouts θ* trained on their data for four epochs.
    """
    fed = federate(people(script), lr=LR)
    algorithm = APFL(
        **TINY,
        rounds=3,
        arrivals=Listed(*UPLOADS),
        reading=reading,
        interpolation=coefficient,
        mix_with=mix_with,
        measure="all",
    )
    loop, log = begun(algorithm, fed), spied(fed)
    replay = Asynchronous(fed, loop.state.models[0].clone())
    while loop.position < loop.total:
        loop.advance()
    for i in UPLOADS:
        replay.upload(STAYS[i])
    theta = replay.model
    own = replay.local | {m: descended(theta, held_by(fed, m), 4, LR) for m in DROPOUTS}
    bases = own if mix_with == "local" else own | dict.fromkeys(STAYS, theta)
    samples = {job.client: job.view.tensors() for job, _ in log if job.purpose == "friend"}
    friends = {m: descended(theta, samples[m], 3, LR) for m in range(6)}
    for m in range(6):
        close(fed.table("personal")[m], (1 - share) * bases[m] + share * friends[m], atol=5e-6)
        close(fed.table("local" if m in STAYS else "localised")[m], own[m], atol=5e-6)
        assert algorithm.own_row(loop.state, m) == ("personal", m)
    check_measures(loop, bases, friends, share, theta)


def check_measures(loop, bases, friends, share, theta):
    """Accuracies of everyone's own model, of friends alone and of the global model; the sweep over all shares."""
    fed, found = loop.fed, loop.gauges()
    for group, clients in zip(WHO, (STAYS, DROPOUTS), strict=True):
        personal = [both((1 - share) * bases[m] + share * friends[m], m, fed) for m in clients]
        alone = [both(friends[m], m, fed) for m in clients]
        for i, name in enumerate(("global", "local")):
            assert found[f"acc_{name}{group}"] == pytest.approx(np.mean([p[i] for p in personal]), abs=1e-6)
            assert found[f"friend_acc_{name}{group}"] == pytest.approx(np.mean([a[i] for a in alone]), abs=1e-6)
    assert found["global_model_acc"] == pytest.approx(right(theta, fed.data.global_test()), abs=1e-6)
    everyone = [both((1 - share) * bases[m] + share * friends[m], m, fed)[1] for m in range(6)]
    assert found["client_acc"] == pytest.approx(np.mean(everyone), abs=1e-6)
    text = loop.algorithm.files(loop.state, loop.position, fed)["interpolation.csv"]
    rows = list(csv.DictReader(text.splitlines()))
    assert [(int(r["client"]), float(r["friend_share"])) for r in rows] == [(m, s) for m in range(6) for s in SHARES]
    assert [int(r["dropout"]) for r in rows] == [int(m in DROPOUTS) for m in range(6) for _ in SHARES]
    for row in rows:
        m, tried = int(row["client"]), float(row["friend_share"])
        mixed = (1 - tried) * bases[m] + tried * friends[m]
        assert (float(row["acc_global"]), float(row["acc_local"])) == pytest.approx(both(mixed, m, fed), abs=1e-6)


@pytest.mark.parametrize(("reading", "stays", "gone"), [("friend", 0.1, 0.7), ("literal", 0.9, 0.3)])
def test_dropouts_may_have_a_share_of_their_own(reading, stays, gone, script, federate):
    """λ = .1 for those who took part, .7 for the others: dropouts, and client 5, which never uploaded."""
    fed = federate(people(script), lr=LR)
    settings = {"interpolation": 0.1, "dropout_interpolation": 0.7, "reading": reading}
    loop = played(APFL(**TINY, rounds=3, participants=1, arrivals=Listed(0, 1, 2), **settings), fed)
    assert loop.algorithm.shares == pytest.approx(sorted({*SHARES, gone}))
    rows = list(csv.DictReader(loop.algorithm.files(loop.state, loop.position, fed)["interpolation.csv"].splitlines()))
    for m in range(6):
        alone = m in (5, *DROPOUTS)
        base, share = fed.table("localised" if alone else "local")[m], gone if alone else stays
        expected = (1 - share) * base.double() + share * fed.table("friend")[m].double()
        close(fed.table("personal")[m], expected)
        (row,) = (r for r in rows if int(r["client"]) == m and float(r["friend_share"]) == pytest.approx(share))
        found = float(row["acc_global"]), float(row["acc_local"])
        assert found == pytest.approx(both(expected, m, fed), abs=1e-6)


@pytest.mark.parametrize("aggregation", ["async", "fedavg"])
def test_every_step_reads_the_data_of_its_own_round(aggregation, script, federate, spied):
    """Everyone's data change in every round, and after the last one: what follows it is done on the last one's."""
    held = [
        {m: [(m + t) % CLASSES] * (4 + 3 * t + m) + [(m + 2 * t + 1) % CLASSES] * 3 for m in range(6)} for t in range(5)
    ]
    fed = federate(people(script, held[0], later=dict(enumerate(held[1:], 1))), lr=LR)
    algorithm = APFL(**TINY, rounds=3, aggregation=aggregation, arrivals=Listed(*UPLOADS))
    loop, log = begun(algorithm, fed), spied(fed)
    for t in range(3):
        log.clear()
        latest = {exchange.client: exchange for exchange in loop.advance()}
        assert len(log) == 4
        for m, exchange in latest.items():
            assert exchange.samples == len(held[t][m])
            received = fed.table("held")[m] if aggregation == "async" else loop.state.models[0]
            trained = [row for job, row in log if job.client == m][-1]
            found = exchange.acc_before, exchange.acc_after
            test = fed.data.shard(m, t).test
            assert found == pytest.approx((right(trained, test), right(received, test)), abs=1e-6)
        for job, row in log:
            x, y = fed.data.shard(job.client, t).train.tensors()
            assert torch.equal(job.view.tensors()[0], x)
            close(row, descended(job.start, (x, y), 2, LR))
    counts = algorithm.teachers(fed)[1].tolist()
    assert counts == [np.bincount(held[2][m], minlength=CLASSES).tolist() for m in STAYS]
    log.clear()
    exchanges = []
    while loop.position < loop.total:
        exchanges += loop.advance()
    theta, samples = loop.state.models[0], {job.client: job.view.tensors() for job, _ in log if job.purpose == "friend"}
    rows = list(csv.DictReader(algorithm.files(loop.state, loop.position, fed)["interpolation.csv"].splitlines()))
    for m, exchange in enumerate(exchanges):
        mine = np.bincount(held[2][m], minlength=CLASSES).tolist()
        wanted = by_largest_remainder(mine, 7 * sum(count > 0 for count in mine))
        assert torch.bincount(samples[m][1], minlength=CLASSES).tolist() == wanted
        tuned = 0
        if m in DROPOUTS:
            train = fed.data.shard(m, 2).train.tensors()
            close(fed.table("localised")[m], descended(theta, train, 4, LR), atol=5e-6)
            tuned = 4 * len(held[2][m])
        assert exchange.client_compute == 3 * (3 * sum(wanted) + tuned)
        test, own = fed.data.shard(m, 2).test, fed.table("personal")[m]
        assert exchange.acc_after == pytest.approx(right(own, test), abs=1e-6)
        (row,) = (r for r in rows if (int(r["client"]), float(r["friend_share"])) == (m, 0.1))
        assert float(row["acc_local"]) == pytest.approx(right(own, test), abs=1e-6)


def test_the_ends_of_the_sweep_are_the_measured_models(script, federate):
    """Share 0 is the base alone and share 1 the friend alone, as the engine measures the rows in the tables.

    Another λ than the usual ones is a further row.
    """
    fed = federate(people(script), lr=LR)
    loop = played(APFL(**TINY, rounds=2, aggregation="fedavg", interpolation=0.37), fed)
    rows = list(csv.DictReader(loop.algorithm.files(loop.state, loop.position, fed)["interpolation.csv"].splitlines()))
    assert len(rows) == 6 * 8
    for row in rows:
        m = int(row["client"])
        names = {0.0: "localised" if m in DROPOUTS else "local", 1.0: "friend", 0.37: "personal"}
        if float(row["friend_share"]) in names:
            model = fed.table(names[float(row["friend_share"])])[m]
            assert float(row["acc_global"]) == pytest.approx(fed.accuracy(model, fed.data.global_test()))
            assert float(row["acc_local"]) == pytest.approx(fed.accuracy(model, fed.data.shard(m, 0).test))


@pytest.mark.parametrize("coefficient", [0.0, 1.0])
def test_no_share_and_the_whole(coefficient, script, federate):
    """λ = 0 leaves everyone its base exactly, λ = 1 its friend."""
    fed = federate(people(script), lr=LR)
    played(APFL(**TINY, rounds=1, aggregation="fedavg", interpolation=coefficient), fed)
    for m in range(6):
        base, friend = fed.table("localised" if m in DROPOUTS else "local")[m], fed.table("friend")[m]
        assert torch.equal(fed.table("personal")[m], friend if coefficient else base)
        assert not torch.equal(base, friend)


def test_a_client_that_stays_but_never_uploaded_is_treated_like_a_dropout(script, federate):
    """It has no model of its own: its base is θ* trained on its data."""
    fed = federate(people(script), lr=LR)
    loop = played(APFL(**TINY, rounds=2, participants=1, arrivals=Listed(0, 1)), fed)
    for m in (3, 5, *DROPOUTS):
        base = descended(loop.state.models[0], held_by(fed, m), 4, LR)
        close(fed.table("localised")[m], base, atol=5e-6)
        close(fed.table("personal")[m], 0.9 * base + 0.1 * fed.table("friend")[m].double(), atol=5e-6)


@pytest.mark.parametrize("aggregation", ["async", "fedavg"])
def test_clients_without_data_have_the_global_model(aggregation, script, federate):
    """One that stays and a dropout: nothing to train on, nothing to draw, so that both parts are θ*."""
    fed = federate(people(script, {**HELD, 1: [], 2: []}), lr=LR)
    loop = played(APFL(**TINY, rounds=2, aggregation=aggregation), fed)
    for m in range(6):
        assert torch.allclose(fed.table("personal")[m], loop.state.models[0], atol=1e-6) == (m in (1, 2))
    found = loop.gauges()
    assert 0 <= found["acc_local"] <= 1
    assert 0 <= found["acc_local_dropouts"] <= 1


def test_everyone_is_served_the_global_model_until_it_has_its_own(script, federate):
    """Five clients a step: after the first of two, the sixth still has θ*."""
    fed = federate(people(script), lr=LR)
    algorithm = APFL(**TINY, rounds=2, measure="all")
    loop = begun(algorithm, fed)
    for done in (0, 0, 0, 5, 6):
        loop.advance()
        served = algorithm.served(loop.state, 1, fed)
        for m in range(6):
            expected = fed.table("personal")[m] if m < done else loop.state.models[0]
            assert torch.equal(served.models[int(served.which[m])], expected)
        files = algorithm.files(loop.state, loop.position, fed)
        assert ("interpolation.csv" in files) == (done > 0)
        assert ("synthetic.npz" in files) == (loop.position > 2)
        if done:
            assert files["interpolation.csv"].count("\n") == 1 + 7 * done
    assert loop.position == loop.total


def test_personal_steps_send_the_model_and_the_generator_and_nothing_back(script, federate):
    fed = federate(people(script), lr=LR)
    loop = begun(APFL(**TINY, rounds=1), fed)
    for exchange in loop.advance():
        assert exchange.uploaded == exchange.downloaded == 4 * (PIXELS * CLASSES + CLASSES)
    assert loop.advance() == []
    sent = loop.algorithm.pupil(fed).module.state_dict().values()
    learnt = sum(4 * p.numel() for p in sent if p.dtype == torch.float32)
    exchanges = loop.advance() + loop.advance()
    assert [e.client for e in exchanges] == list(range(6))
    for exchange in exchanges:
        assert (exchange.uploaded, exchange.status) == (0, "accepted")
        assert math.isnan(exchange.acc_before)  # a friend's accuracy is not the client's
        assert exchange.downloaded == 4 * (PIXELS * CLASSES + CLASSES) + learnt


def test_the_teachers_passes_are_the_servers_work(script, federate, monkeypatch):
    """One teacher a class: a sample passes one model, forwards and backwards; the next client's update tells of it."""
    monkeypatch.setattr(apfl, "LESSON", 5)
    held = {m: [m] * 6 for m in range(5)}
    settings = {**TINY, "generator_steps": 8, "generator_batch": 4}
    loop = begun(APFL(**settings, rounds=1, aggregation="fedavg"), federate(people(script, held, dropouts=()), lr=LR))
    steps = [loop.advance() for _ in range(loop.total)]
    assert [[exchange.server_compute for exchange in step] for step in steps] == [
        [0] * 5,
        [],
        [],
        [3 * 8 * 4, 0, 0, 0, 0],
    ]


def test_data_without_a_global_test(script, federate):
    """There is nothing to say of all classes alike; a client's own test remains."""
    fed = federate(people(script, tested=False), lr=LR)
    loop = played(APFL(**TINY, rounds=1), fed)
    found = loop.gauges()
    assert math.isnan(found.get("acc_global", math.nan))
    assert math.isnan(found.get("friend_acc_global", math.nan))
    assert "global_model_acc" not in found
    assert 0 <= found["friend_acc_local_dropouts"] <= 1
    rows = list(csv.DictReader(loop.algorithm.files(loop.state, loop.position, fed)["interpolation.csv"].splitlines()))
    assert {row["acc_global"] for row in rows} == {""}
    assert all(0 <= float(row["acc_local"]) <= 1 for row in rows)
    assert len(rows) == 42


def test_without_dropouts(script, federate):
    fed = federate(people(script, dropouts=()), lr=LR)
    loop = played(APFL(**TINY, rounds=1, aggregation="fedavg"), fed)
    found = loop.gauges()
    assert 0 <= found["acc_global"] <= 1
    assert math.isnan(found["acc_global_dropouts"])
    assert math.isnan(found["friend_acc_local_dropouts"])
    assert loop.algorithm.files(loop.state, loop.position, fed)["interpolation.csv"].count(",1,") == 0
