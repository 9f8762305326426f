"""AP-FL: whole runs replayed in float64 (uploads, lessons, friends, mixtures), who takes part, runs on digits.

Batches are larger than what anyone holds, so that training is plain gradient descent, whatever the order of samples.
"""

import copy
import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from replay import begun, descended, logits, right
from torch.nn import functional as F

from flcluster.algorithms import APFL, FedAvg
from flcluster.algorithms.personal import apfl
from flcluster.algorithms.personal.semantics import OneHot, RandomVectors, ShippedNames
from flcluster.cli import main
from flcluster.datamodules import SkewedDigits
from flcluster.devices.schedule import Arrivals, Schedule
from flcluster.errors import UserError
from flcluster.modules import MLP, SemanticGenerator

CLASSES, PIXELS, LR = 5, 6, 0.2
MEAN, STD = 0.3, 0.4
STAYS, DROPOUTS, UNSEEN = (0, 2, 3, 5), (1, 4), 4
WHO = ("", "_dropouts")
SHARES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
HELD = {
    0: [0] * 10 + [1] * 4,
    1: [4] * 9 + [0] * 3,
    2: [1] * 8 + [2] * 8,
    3: [0] * 3 + [3] * 11,
    4: [4] * 5 + [2] * 7 + [3] * 2,
    5: [2] * 6 + [3] * 6 + [1],
}
"""Class 4 is with dropouts only."""
TINY = {
    "local_epochs": 2,
    "batch_size": 64,
    "semantics": OneHot(),
    "noise_dim": 3,
    "project_dim": 4,
    "generator_hidden": 4,
    "generator_steps": 6,
    "generator_batch": 8,
    "generator_lr": 0.01,
    "per_class": 7,
    "friend_epochs": 3,
    "finetune_epochs": 4,
}


def people(script, held=None, dropouts=DROPOUTS, tested=True, later=None):
    """Clients with these labels (others from later rounds on), some of which dropped out, and a balanced test set."""

    class People(script):
        mean, std = (MEAN,), (STD,)
        class_names = ("zero", "one", "two", "three", "four")

    return People({0: held or HELD, **(later or {})}, classes=CLASSES, dropouts=dropouts, tested=tested)


class Listed(Arrivals):
    """Uploads as the test has them; numbers count the clients that stay."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def schedule(self, clients, total, seed, work):
        assert clients > max(self.numbers)
        return Schedule(np.array(self.numbers[:total]), np.arange(1.0, total + 1))


LATER = {1: {0: [2] * 7, 5: [0] * 4}, 2: HELD, 3: {m: [m % CLASSES] * (2 + m) for m in range(6)}}
"""Other data in the second of three rounds, ``HELD`` in the third, and others still after that."""
UPLOADS = (0, 2, 0, 0, 1, 0, 2, 3, 3, 3, 1, 0)
"""Three rounds of four: client 0 three times in the first, client 5 at the end of the second and twice in the third."""


def played(algorithm, fed):
    loop = begun(algorithm, fed)
    while loop.position < loop.total:
        loop.advance()
    return loop


# ------------------------------------------------------------------------------------------------- written in the test


def held_by(fed, client):
    return fed.data.shard(client, fed.data.num_clients).train.tensors()


def both(row, client, fed):
    return right(row, fed.data.global_test()), right(row, fed.data.shard(client, 0).test)


def close(found, expected, atol=2e-6):
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


class Asynchronous:
    """FedAsync: θ ← (1 − η_s) θ + η_s θ_k with η_s = η (1 + s)^−a; s counts uploads since the client's last one."""

    def __init__(self, fed, first, lr=0.6, exponent=0.5, epochs=2, silent=()):
        self.fed, self.model, self.lr, self.exponent = fed, first.double(), lr, exponent
        self.epochs, self.silent = epochs, silent
        self.version, self.versions = 0, dict.fromkeys(STAYS, 0)
        self.held, self.local = dict.fromkeys(STAYS, self.model), {}

    def upload(self, client):
        """Return how many versions old it is."""
        if client in self.silent:
            return None
        self.local[client] = descended(self.held[client], held_by(self.fed, client), self.epochs, LR)
        stale = self.version - self.versions[client]
        step = self.lr / (1 + stale) ** self.exponent
        self.model = (1 - step) * self.model + step * self.local[client]
        self.version += 1
        self.versions[client], self.held[client] = self.version, self.model
        return stale


# ------------------------------------------------------------------------------------------------------ 1. global model


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


# ---------------------------------------------------------------------------------------------------------- 2. lessons


@pytest.fixture
def lessons(monkeypatch):
    """Record the noise and the classes of every batch that a generator is trained on."""
    log, forward = [], SemanticGenerator.forward

    def recording(self, z, y):
        if self.training:
            log.append((z.clone(), y.clone()))
        return forward(self, z, y)

    monkeypatch.setattr(SemanticGenerator, "forward", recording)
    return log


def classified(x, y, teachers, counts, of_all=False):
    """Σ_k w_k^y CE(θ_k(x̂), y), the mean over the batch; w_k^y is client k's share of all teachers' samples of y.

    Or the share that its samples of y are of all teachers' samples, whatever their class.
    """
    total = 0
    for i, label in enumerate(y.tolist()):
        for row, held in zip(teachers, counts, strict=True):
            weight = held[label] / sum(sum(other) if of_all else other[label] for other in counts)
            total = total + weight * F.cross_entropy(logits(row, x[i : i + 1]), y[i : i + 1])
    return total / len(y)


def diverse(images, y, norm):
    """Minus the mean distance to the others of the class, of all samples that have such."""
    flat, found = images.flatten(1), []
    for i in range(len(y)):
        apart = [(flat[i] - flat[j]).square().sum().sqrt() for j in range(len(y)) if j != i and y[j] == y[i]]
        if apart:
            found.append(sum(apart) / len(apart))
    return -sum(found) / len(found) / (2 * math.sqrt(PIXELS) if norm else 1)


@pytest.mark.parametrize(
    ("gamma", "norm", "weight", "changes"),
    [
        (0.5, True, "class", False),
        (0.8, False, "class", False),
        (1.0, True, "class", False),
        (0.0, True, "class", False),
        (0.5, True, "total", False),
        (0.8, True, "class", True),
        (0.8, True, "total", True),
    ],
)
def test_lessons_replayed_step_by_step(gamma, norm, weight, changes, script, federate, lessons, monkeypatch):
    """Adam on γ L_cls + (1 − γ) L_div, from the recorded noise and classes: the same losses and the same generator.

    Two lessons of three steps: Adam does not forget in between. Where data change, teachers count with what they held
    in the last round.
    """
    monkeypatch.setattr(apfl, "LESSON", 3)
    fed = federate(people(script, {**HELD, 0: [3] * 9, 2: [0] * 20}, later=LATER), lr=LR) if changes else None
    fed = fed or federate(people(script), lr=LR)
    algorithm = APFL(**TINY, rounds=3, arrivals=Listed(*UPLOADS), gamma=gamma, div_norm=norm, class_weight=weight)
    loop = begun(algorithm, fed)
    for _ in range(3):
        loop.advance()
    theta, teachers = loop.state.models.clone(), [fed.table("local")[m].double() for m in STAYS]
    counts = [np.bincount(HELD[m], minlength=CLASSES).tolist() for m in STAYS]
    generator = copy.deepcopy(algorithm.pupil(fed).load(loop.state.generator).module).double()
    initial = copy.deepcopy(generator)
    assert loop.advance() == loop.advance() == []
    recorded, steps, losses = list(lessons), torch.optim.Adam(generator.parameters(), lr=0.01), []
    assert len(recorded) == 6
    for z, y in recorded:
        images = generator.train()(z.double(), y)
        pixels = (images + 1) / 2
        loss = gamma * classified((pixels - MEAN) / STD, y, teachers, counts, weight == "total")
        loss = loss + (1 - gamma) * diverse(images, y, norm)
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    assert loop.state.generator_loss == pytest.approx(np.mean(losses[3:]), rel=1e-3, abs=1e-4)
    found = algorithm.pupil(fed).load(loop.state.generator).module
    for name, value in found.named_parameters():
        theirs, first = generator.get_parameter(name), initial.get_parameter(name)
        moved = (theirs - first).abs().max()
        if moved > 1e-6:  # before BatchNorm a bias has no gradient but rounding, which Adam blows up
            assert (value.double() - theirs).abs().mean() < 0.02 * moved, name
    assert torch.equal(loop.state.models, theta)
    for m, row in zip(STAYS, teachers, strict=True):
        assert torch.equal(fed.table("local")[m].double(), row)


def test_only_classes_that_someone_teaches_are_drawn(script, federate, lessons, monkeypatch):
    """All of them, evenly; noise is standard Gaussian. The second lesson has the steps that are left; losses fall."""
    monkeypatch.setattr(apfl, "LESSON", 30)
    fed = federate(people(script), lr=LR)
    settings = {**TINY, "generator_steps": 45, "generator_batch": 40, "gamma": 1.0, "local_epochs": 30}
    loop = begun(APFL(**{**settings, "generator_lr": 0.03}, rounds=1, aggregation="fedavg"), fed)
    losses = []
    for steps in (0, 30, 45):
        loop.advance()
        losses.append(loop.gauges()["generator_loss"])
        assert len(lessons) == steps
    assert math.isnan(losses[0])
    assert losses[2] < 0.6 * losses[1]
    assert {(tuple(z.shape), tuple(y.shape)) for z, y in lessons} == {((40, 3), (40,))}
    classes = torch.bincount(torch.cat([y for _, y in lessons]), minlength=CLASSES)
    assert classes[UNSEEN] == 0
    assert (classes[:UNSEEN] - 450).abs().max() < 5 * math.sqrt(1800 * 0.25 * 0.75)
    noise = torch.cat([z for z, _ in lessons])
    assert noise.mean().abs() < 0.05
    assert noise.std() == pytest.approx(1, abs=0.05)
    assert len(torch.unique(noise, dim=0)) == 1800
    while loop.position < loop.total:
        loop.advance()
    assert len(lessons) == 45  # friends are drawn without training


def test_the_generators_own_number_of_samples(script, federate, lessons, monkeypatch):
    """Nine samples of each class that is taught, drawn once for all lessons, and no others."""
    monkeypatch.setattr(apfl, "LESSON", 30)
    fed = federate(people(script), lr=LR)
    settings = {**TINY, "generator_steps": 45, "generator_batch": 40}
    loop = begun(APFL(**settings, generator_per_class=9, rounds=1, aggregation="fedavg"), fed)
    for _ in range(3):
        loop.advance()
    assert len(lessons) == 45
    seen = [
        {(y, *z) for zs, ys in part for z, y in zip(zs.tolist(), ys.tolist(), strict=True)}
        for part in (lessons[:30], lessons[30:])
    ]
    assert seen[0] == seen[1]
    assert len({tuple(z) for _, *z in seen[0]}) == 36  # each with noise of its own
    assert np.bincount([y for y, *_ in seen[0]], minlength=CLASSES).tolist() == [9, 9, 9, 9, 0]
    classes = torch.bincount(torch.cat([y for _, y in lessons]), minlength=CLASSES)
    assert (classes[:UNSEEN] - 450).abs().max() < 5 * math.sqrt(1800 * 0.25 * 0.75)
    noise = torch.tensor([z for _, *z in seen[0]])
    assert noise.mean() == pytest.approx(0, abs=0.4)
    assert noise.std() == pytest.approx(1, abs=0.3)


def test_dropouts_never_take_part_and_never_teach(script, federate, spied):
    """Before its own step no dropout trains. Other data with dropouts change neither θ* nor the generator."""
    ends = []
    for held in (HELD, {**HELD, 1: [0, 1, 2, 3] * 9, 4: [3]}):
        fed = federate(people(script, held), lr=LR)
        loop, log = begun(APFL(**TINY, rounds=3), fed), spied(fed)
        for _ in range(3):
            loop.advance()
        assert set(job.client for job, _ in log) <= set(STAYS)
        log.clear()
        loop.advance()
        assert log == []
        ends.append(loop.state)
    assert torch.equal(ends[0].models, ends[1].models)
    for name, value in ends[0].generator["module"].items():
        assert torch.equal(value, ends[1].generator["module"][name])
    assert ends[0].generator_loss == ends[1].generator_loss


def test_clients_that_never_uploaded_do_not_teach(script, federate, lessons):
    """Only clients 0 and 2 upload: classes 0, 1 and 2 are drawn, and the file of samples says that they were."""
    fed = federate(people(script), lr=LR)
    algorithm = APFL(**{**TINY, "generator_steps": 40}, rounds=2, participants=2, arrivals=Listed(0, 1, 0, 1))
    loop = begun(algorithm, fed)
    for _ in range(3):
        loop.advance()
    assert set(torch.cat([y for _, y in lessons]).tolist()) == {0, 1, 2}
    seen = []
    while True:
        (Path("synthetic.npz")).write_bytes(algorithm.files(loop.state, loop.position, fed)["synthetic.npz"])
        seen.append(np.load("synthetic.npz")["seen"].tolist())
        if loop.position == loop.total:
            break
        loop.advance()
    assert seen == [[True, True, True, False, False]] * 3  # also when all clients have models of their own


def test_without_any_teacher_there_is_no_generator(script, federate, broken):
    fed = federate(people(script), lr=LR)
    broken(fed, *STAYS)
    loop = begun(APFL(**TINY, rounds=1), fed)
    loop.advance()
    with pytest.raises(UserError, match=r"(?i)teach.*rounds"):
        loop.advance()


# ---------------------------------------------------------------------------------------------------------- 3. friends


@pytest.fixture
def sampled(monkeypatch):
    """Record what generators are asked for, what they are, and what they return."""
    log, sample = [], SemanticGenerator.sample

    def recording(self, y, draw):
        images = sample(self, y, draw)
        log.append((y.clone(), images.clone(), copy.deepcopy(self.state_dict())))
        return images

    monkeypatch.setattr(SemanticGenerator, "sample", recording)
    return log


def by_largest_remainder(counts, total):
    exact = [total * count / sum(counts) for count in counts]
    found = [math.floor(value) for value in exact]
    for _ in range(total - sum(found)):
        i = max(range(len(counts)), key=lambda i: exact[i] - found[i])
        found[i] += 1
    return found


def test_friends_start_from_the_global_model_and_learn_the_clients_own_mix(script, federate, spied, sampled):
    """Samples are the trained generator's, unseen classes too; the model after three epochs is replayed."""
    fed = federate(people(script), lr=LR)
    loop, log = begun(APFL(**TINY, rounds=2), fed), spied(fed)
    for _ in range(3):
        loop.advance()
    theta, generator = loop.state.models[0].clone(), loop.state.generator["module"]
    log.clear()
    while loop.position < loop.total:
        loop.advance()
    friends = [entry for entry in log if entry[0].purpose == "friend"]
    assert [job.client for job, _ in friends] == list(range(6))
    assert len(sampled) == 6
    for (job, row), (y, images, state) in zip(friends, sampled, strict=True):
        assert torch.equal(job.start, theta)
        assert all(torch.equal(value, generator[name]) for name, value in state.items())
        x, labels = job.view.tensors()
        assert torch.equal(x, images)
        assert torch.equal(labels, y)
        counts = np.bincount(HELD[job.client], minlength=CLASSES).tolist()
        wanted = by_largest_remainder(counts, 7 * sum(count > 0 for count in counts))
        assert torch.bincount(labels, minlength=CLASSES).tolist() == wanted
        assert (wanted[UNSEEN] > 0) == (job.client in DROPOUTS)
        expected = descended(theta, (x, labels), 3, LR)
        close(row, expected)
        close(fed.table("friend")[job.client], expected)
        assert not torch.equal(row, theta)
    assert torch.equal(loop.state.models[0], theta)


def test_friends_of_all_classes_learn_seen_and_unseen_alike(script, federate, spied, sampled):
    """Seven of each of five classes for everyone, also for a client that holds nothing; from θ*, three epochs."""
    fed = federate(people(script, {**HELD, 3: []}), lr=LR)
    loop, log = begun(APFL(**TINY, rounds=2, friend_classes="all"), fed), spied(fed)
    while loop.position < loop.total:
        loop.advance()
    friends = [entry for entry in log if entry[0].purpose == "friend"]
    assert [job.client for job, _ in friends] == list(range(6))
    for job, row in friends:
        x, labels = job.view.tensors()
        assert torch.bincount(labels, minlength=CLASSES).tolist() == [7] * CLASSES
        close(row, descended(loop.state.models[0], (x, labels), 3, LR))
        close(fed.table("friend")[job.client], row)


@pytest.mark.parametrize("classes", ["own", "all"])
def test_every_friend_has_samples_of_its_own(classes, script, federate, spied):
    """Six clients with the same labels: no sample of one is a sample of another; a second run draws the same."""
    runs = []
    for _ in range(2):
        fed = federate(people(script, {m: [0, 1, 2, 3, 4] * 3 for m in range(6)}), lr=LR)
        loop, log = begun(APFL(**TINY, rounds=1, friend_classes=classes), fed), spied(fed)
        while loop.position < loop.total:
            loop.advance()
        runs.append([job.view.tensors() for job, _ in log if job.purpose == "friend"])
    for first, second in zip(*runs, strict=True):
        assert torch.equal(first[0], second[0])
    assert len({tuple(labels.tolist()) for _, labels in runs[0]}) == 1
    everything = torch.cat([x.flatten(1) for x, _ in runs[0]])
    assert len(torch.unique(everything, dim=0)) == len(everything) == 6 * 7 * 5


def test_who_trains_after_the_rounds(script, federate, spied):
    """Everyone a friend; only dropouts the global model on their own data, once."""
    fed = federate(people(script), lr=LR)
    loop, log = begun(APFL(**TINY, rounds=5), fed), spied(fed)
    for _ in range(6):
        loop.advance()
    log.clear()
    while loop.position < loop.total:
        loop.advance()
    own = [job for job, _ in log if job.purpose != "friend"]
    assert [job.client for job in own] == list(DROPOUTS)
    for job in own:
        assert (job.epochs, job.steps) == (4, None)
        assert torch.equal(job.start, loop.state.models[0])
        assert torch.equal(job.view.tensors()[1], held_by(fed, job.client)[1])


# ----------------------------------------------------------------------------------------------------- 4. interpolation


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


# --------------------------------------------------------------------------------------------------- settings and names


@pytest.mark.parametrize(
    ("rounds", "steps", "clients", "length"), [(3, 6, 6, 6), (1, 0, 5, 2), (50, 2000, 10, 72), (2, 101, 11, 7)]
)
def test_the_number_of_steps(rounds, steps, clients, length, script, federate):
    """Rounds, a lesson per hundred steps of the generator, and five clients at a time."""
    fed = federate(people(script, {m: [0, 1] for m in range(clients)}))
    phases = APFL(**{**TINY, "generator_steps": steps}, rounds=rounds).phases(fed)
    assert [phase.name for phase in phases] == ["rounds", "lessons", "friends"]
    assert sum(phase.steps for phase in phases) == length


def test_an_untrained_generator_will_do(script, federate):
    """No lessons at all: friends learn from noise."""
    fed = federate(people(script), lr=LR)
    loop = played(APFL(**{**TINY, "generator_steps": 0}, rounds=1), fed)
    assert loop.position == 3
    assert all(torch.isfinite(fed.table("personal")[m]).all() for m in range(6))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"gamma": value} for value in (-0.1, 1.1, math.nan)),
        *({"interpolation": value} for value in (-0.01, 1.5, math.nan)),
        *({"dropout_interpolation": value} for value in (-0.01, 1.5, math.nan)),
        {"generator_per_class": 0},
        *({"server_lr": value} for value in (0.0, 1.2, -1.0)),
        *({name: 0} for name in ("noise_dim", "project_dim", "generator_batch", "per_class", "friend_epochs")),
        *({name: -1} for name in ("generator_steps", "finetune_epochs", "staleness_exponent", "generator_lr")),
        *({name: 0} for name in ("generator_hidden", "generator_lr", "rounds", "local_epochs", "batch_size")),
    ],
)
def test_wrong_settings_name_their_key(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        APFL(**wrong)


def test_simulated_devices_need_rounds(given_devices):
    devices = given_devices([1.0], [1.0])
    with pytest.raises(UserError, match=r"(?s)devices.*(aggregation=fedavg|arrivals)"):
        APFL(devices=devices)
    assert APFL(devices=devices, aggregation="fedavg").devices is devices


def test_class_names_that_nobody_knows_say_what_to_do(script, federate):
    """Before any training: the shipped vectors do not have them; a file of one's own would, or another semantics."""
    data = people(script)
    type(data).class_names = ("zero", "qwertyish", "two", "three", "four")
    fed = federate(data)
    with pytest.raises(UserError, match=r"(?s)qwertyish.*docs/methods/apfl\.md.*NamesFile"):
        APFL(**{**TINY, "semantics": ShippedNames()}).init(fed)
    APFL(**{**TINY, "semantics": RandomVectors(dim=8)}).init(fed)


def test_titles():
    assert APFL().title == "AP-FL (MiniLM)"
    assert APFL(semantics=OneHot()).title == "AP-FL (one-hot (control))"
    assert APFL(semantics=RandomVectors()).title == "AP-FL (random (control))"
    assert APFL(semantics=OneHot()).described["semantics"] == "one-hot (control)"
    assert APFL(aggregation="fedavg", reading="literal").title == "AP-FL (MiniLM, in rounds, literal)"
    assert APFL(mix_with="global").title == "AP-FL (MiniLM, with the global model)"
    assert APFL(friend_classes="all").title == "AP-FL (MiniLM, friends of all classes)"
    assert APFL(dropout_interpolation=0.7).title == "AP-FL (MiniLM, λ = 0.7 for dropouts)"
    assert APFL(class_weight="total").title == "AP-FL (MiniLM, weights of all samples)"
    assert APFL(generator_per_class=600).title == "AP-FL (MiniLM, generator's 600 a class)"


def test_the_papers_settings_are_the_defaults():
    made = APFL()
    assert (made.batch_size, made.local_epochs, made.generator_batch, made.generator_lr) == (50, 20, 50, 2e-4)
    assert (made.per_class, made.gamma, made.generator_steps, made.noise_dim, made.project_dim) == (
        600,
        0.5,
        2000,
        20,
        100,
    )
    assert (made.rounds, made.server_lr, made.staleness_exponent, made.finetune_epochs) == (50, 0.6, 0.5, 20)
    assert (made.reading, made.aggregation, made.div_norm) == ("friend", "async", True)
    assert (made.friend_classes, made.class_weight) == ("own", "class")
    assert made.generator_per_class is made.dropout_interpolation is None


# ------------------------------------------------------------------------------------------------------- runs on digits

SETTINGS = {
    "seed_everything": "3",
    "data": "SkewedDigits",
    "data.num_clients": "6",
    "data.limit": "300",
    "data.test_share": "0.3",
    "data.dropouts": "[2]",
    "data.monopoly_classes": "[8,9]",
    "model": "MLP",
    "model.hidden": "[16]",
    "model.lr": "0.1",
    "engine.progress": "false",
    "engine.threads": "1",
    "engine.pictures": "false",
    "engine.table": "false",
    "algorithm": "APFL",
    "algorithm.rounds": "3",
    "algorithm.local_epochs": "2",
    "algorithm.batch_size": "16",
    "algorithm.generator_steps": "15",
    "algorithm.generator_batch": "8",
    "algorithm.generator_hidden": "8",
    "algorithm.per_class": "8",
    "algorithm.friend_epochs": "2",
    "algorithm.finetune_epochs": "2",
}
FLAGS = [part for key, value in SETTINGS.items() for part in (f"--{key}", value)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of three rounds, two lessons and two personal steps."""
    folder = tmp_path_factory.mktemp("apfl") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apfl, "LESSON", 10)
        assert main(["fit", *FLAGS, "--run_dir", str(folder)]) == 0
    return folder


def test_what_a_run_leaves_behind(whole):
    with open(whole / "interpolation.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["client", "dropout", "friend_share", "acc_global", "acc_local"]
    assert [(int(r["client"]), float(r["friend_share"])) for r in rows] == [(m, s) for m in range(6) for s in SHARES]
    assert {r["client"] for r in rows if r["dropout"] == "1"} == {"2"}
    found = np.load(whole / "synthetic.npz", allow_pickle=False)
    assert found["images"].dtype == np.uint8
    assert (found["images"].shape[0], found["images"].shape[2:]) == (10, (1, 8, 8))
    assert found["names"].tolist()[:2] == ["zero", "one"]
    assert found["seen"].tolist() == [True] * 8 + [False] * 2


def test_what_a_summary_says(whole):
    summary = json.loads((whole / "summary.json").read_text())
    assert (summary["algorithm"], summary["semantics"], summary["status"]) == ("AP-FL (MiniLM)", "MiniLM", "finished")
    for name in (
        "global_model_acc",
        *(f"{kind}acc_{test}" for kind in ("", "friend_") for test in ("global", "local")),
    ):
        assert 0 <= summary[name] <= 1
        if name != "global_model_acc":
            assert 0 <= summary[f"{name}_dropouts"] <= 1
    assert math.isfinite(summary["generator_loss"])
    with open(whole / "interpolation.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["dropout"] == "0"]
    for share, kind in ((0.1, ""), (1.0, "friend_")):
        for test in ("global", "local"):
            values = [float(row[f"acc_{test}"]) for row in rows if float(row["friend_share"]) == share]
            assert summary[f"{kind}acc_{test}"] == pytest.approx(np.mean(values), abs=1e-9)


def test_what_the_metrics_show_when(whole):
    """A row for the beginning and one for each of 7 steps; a loss from the first lesson on, friends at the end."""
    with open(whole / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(8))
    assert all(row["acc_global"] and row["acc_global_dropouts"] for row in rows)
    assert [bool(row["generator_loss"]) for row in rows] == [False] * 4 + [True] * 4
    assert [bool(row["friend_acc_global"]) for row in rows] == [False] * 6 + [True] * 2
    assert [bool(row["global_model_acc"]) for row in rows] == [False] * 6 + [True] * 2
    for row in rows[:6]:  # everyone has the global model
        assert float(row["acc_global"]) == pytest.approx(float(row["acc_global_dropouts"]))
    assert rows[7]["acc_global"] != rows[7]["acc_global_dropouts"]


def test_a_dropouts_model_can_be_exported(whole):
    """And is as good as the run says: its row of the sweep at λ = .1."""
    assert main(["export", str(whole), "--client", "2", "--output", "own.ckpt"]) == 0
    with open(whole / "interpolation.csv") as file:
        (row,) = (r for r in csv.DictReader(file) if (r["client"], r["friend_share"]) == ("2", "0.1"))
    data = SkewedDigits(num_clients=6, limit=300, test_share=0.3, dropouts=[2], monopoly_classes=[8, 9], seed=3)
    model = MLP.load_from_checkpoint("own.ckpt").eval()
    for name, view in (("acc_global", data.global_test()), ("acc_local", data.shard(2).test)):
        x, y = view.tensors()
        assert float((model(x).argmax(1) == y).double().mean()) == pytest.approx(float(row[name]))


def test_a_run_cut_in_rounds_lessons_and_personal_steps_goes_on_bit_for_bit(whole, monkeypatch):
    """After 1 of 3 rounds, 1 of 2 lessons and 1 of 2 personal steps; rows in files besides, instead of in memory."""
    monkeypatch.setattr(apfl, "LESSON", 10)
    main(["fit", *FLAGS, "--run_dir", "cut", "--engine.memory_gb", "0", "--engine.max_updates", "1"])
    for until in ("4", "6", "null"):
        assert json.loads(Path("cut/summary.json").read_text())["status"] != "finished"
        assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", until]) == 0
    assert Path("cut/bank/personal.rows").exists()
    for name in ("metrics.csv", "clients.csv", "interpolation.csv", "synthetic.npz"):
        assert Path("cut", name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.slow
def test_two_ranks_give_the_numbers_of_one():
    assert main(["fit", *FLAGS, "--run_dir", "one"]) == 0
    command = [sys.executable, "-m", "flcluster", "fit", *FLAGS, "--run_dir", "two"]
    ranks = ["--fabric.devices", "2", "--fabric.accelerator", "cpu"]
    subprocess.run([*command, *ranks], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, timeout=300)
    for name in ("metrics.csv", "clients.csv", "interpolation.csv", "synthetic.npz"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes(), name
