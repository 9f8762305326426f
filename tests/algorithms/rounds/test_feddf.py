"""FedDF: whole rounds by explicit loops, whose logits are distilled and into what, and runs on digits."""

from pathlib import Path

import pytest
import torch
from federations import spoil
from torch import nn
from torch.nn import functional as F

from flcluster.algorithms import FedAvg, FedDF
from flcluster.algorithms.rounds.feddf import Numbered, ProxyLogits
from flcluster.data import View
from flcluster.datamodules import SkewedDigits
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.federation.flat.evaluating import accuracy
from flcluster.federation.jobs import Trained
from flcluster.modules import MLP
from flcluster.seeds import rng

CLASSES = 4
COMMON = {"local_epochs": 2, "batch_size": 8}


def people(script, n=5):
    """Clients of different sizes, each with one class above all."""
    return script({0: {m: [0, 1, 2, 3] + [m % 4] * (4 + 3 * m) for m in range(n)}})


def network(lr=0.1):
    return MLP(CLASSES, (1, 2, 3), hidden=(5,), lr=lr)


def plain(fed, row):
    """The same model apart from the engine."""
    module = network()
    module.load_state_dict(fed.layout.state_dict(row))
    return module


def divergence(teacher, student):
    """KL(softmax(teacher) ‖ softmax(student)), the mean over samples, sample by sample."""
    total = 0.0
    for a, b in zip(teacher, student, strict=True):
        p = F.softmax(a, 0)
        total = total + (p * (p.log() - F.log_softmax(b, 0))).sum()
    return total / len(teacher)


def distilled(module, x, teacher, *, seed, t, steps, batch, lr=1e-3, clip=5.0, T=1.0):
    """The student after so many steps of Adam along PyTorch's cosine; batches from one permutation after the other."""
    optimizer = torch.optim.Adam(module.parameters(), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order, done, losses, norms = rng(seed, "distil", 0, t), 0, [], []
    while done < steps:
        for part in torch.from_numpy(order.permutation(len(x))).split(batch):
            if done < steps:
                loss = divergence(teacher[part] / T, module(x[part]) / T)
                optimizer.zero_grad()
                loss.backward()
                norms.append(float(nn.utils.clip_grad_norm_(module.parameters(), clip)))
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                done += 1
    return losses, norms


def logits(module, x):
    with torch.no_grad():
        return module.eval()(x)


def mean_row(log):
    sizes = [len(job.view) for job, _ in log]
    return sum(n * row.double() for n, (_, row) in zip(sizes, log, strict=True)).float() / sum(sizes)


# -------------------------------------------------------------------------------------------------------- whole rounds


@pytest.mark.parametrize(
    ("wanted", "T", "clip"), [(None, 1.0, 5.0), (3, 1.0, 0.02), (None, 3.0, 5.0)], ids=["all", "three", "soft"]
)
def test_two_rounds_by_hand(wanted, T, clip, script, federate, spied):
    """Average by size, mean of logits with equal weights, distil from the average; the next round starts from that."""
    fed = federate(people(script), module=network(lr=0.5))
    algorithm = FedDF(
        local_epochs=6,
        batch_size=8,
        participants=wanted,
        distillation_steps=7,
        distillation_batch=50,
        distillation_lr=0.01,
        distillation_clip=clip,
        temperature=T,
    )
    state = algorithm.init(fed)
    x, log = fed.data.proxy(0).tensors()[0], spied(fed)
    assert len(x) == 240  # five batches a pass, the last with 40
    for t in range(2):
        log.clear()
        before = state.models[0]
        state, done = algorithm.step(state, t, fed)
        clients, server = log[:-1], log[-1]
        assert len(clients) == len(done.results) == (wanted or 5)
        assert all(torch.equal(job.start, before) for job, _ in clients)
        average = mean_row(clients)
        torch.testing.assert_close(server[0].start, average, rtol=0, atol=1e-6)
        teacher = torch.stack([logits(plain(fed, row), x) for _, row in clients]).mean(0)
        student = plain(fed, average)
        losses, norms = distilled(student, x, teacher, seed=fed.seed, t=t, steps=7, batch=50, lr=0.01, clip=clip, T=T)
        assert (max(norms) > clip) == (clip < 1)
        for name, value in fed.layout.state_dict(state.models[0]).items():
            torch.testing.assert_close(value, student.state_dict()[name], rtol=1e-4, atol=1e-5, msg=name)
        assert done.extra["distillation_loss"] == pytest.approx(sum(losses) / 7, rel=1e-3, abs=1e-7)
        assert float((state.models[0] - average).abs().max()) > 1e-3
        assert all(torch.equal(done.row(i), state.models[0]) for i in range(len(clients)))
        assert done.server_compute == 240 * len(clients) + 3 * (240 + 2 * 50)  # teachers' logits; one pass, two batches


def test_clients_train_as_in_fedavg(script, federate, spied):
    rows = []
    for algorithm in (FedAvg(**COMMON), FedDF(**COMMON, distillation_steps=2)):
        fed = federate(people(script), module=network())
        log = spied(fed)
        algorithm.step(algorithm.init(fed), 0, fed)
        rows.append([row for job, row in log if job.purpose == "train"])
    assert all(torch.equal(a, b) for a, b in zip(*rows, strict=True))


def test_no_steps_are_fedavg(script, federate):
    models = []
    for algorithm in (FedAvg(**COMMON), FedDF(**COMMON, distillation_steps=0)):
        fed = federate(people(script), module=network())
        state = algorithm.init(fed)
        for t in range(2):
            state, done = algorithm.step(state, t, fed)
        models.append(state.models)
    assert torch.equal(*models)
    assert done.extra == {}


def test_a_single_teacher_is_its_own_average(script, federate, spied):
    """There is nothing to learn: what the model says stays, but for rounding."""
    fed = federate(people(script), module=network())
    algorithm = FedDF(**COMMON, participants=1, distillation_steps=20)
    log = spied(fed)
    state, done = algorithm.step(algorithm.init(fed), 0, fed)
    (_, alone), _ = log
    x = fed.data.proxy(0).tensors()[0]
    assert abs(done.extra["distillation_loss"]) < 1e-6
    torch.testing.assert_close(logits(plain(fed, state.models[0]), x), logits(plain(fed, alone), x), rtol=0, atol=0.02)


def test_the_student_comes_closer_to_the_teachers(script, federate, spied):
    """Far closer than their average is."""
    fed = federate(people(script), module=network(lr=0.5))
    algorithm = FedDF(local_epochs=10, batch_size=8, distillation_steps=150, distillation_lr=0.01)
    log = spied(fed)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    x = fed.data.proxy(0).tensors()[0]
    teacher = torch.stack([logits(plain(fed, row), x) for _, row in log[:-1]]).mean(0)
    first, last = (
        float(divergence(teacher, logits(plain(fed, row), x))) for row in (mean_row(log[:-1]), state.models[0])
    )
    assert first > 0.02 and last < first / 5


# ------------------------------------------------------------------------------------------------------------ teachers


def test_samples_are_numbered_in_their_order(script):
    data = script({0: {0: [0]}})
    parts = [(data.sources["proxy"][0], torch.tensor([5, 3, 9])), (data.sources["test"][1], torch.tensor([7, 2]))]
    view = View(tuple(parts))
    source = Numbered(view)
    assert len(source) == 5
    x, number = source.take(torch.tensor([4, 0, 3]))
    assert number.tolist() == [4, 0, 3]
    assert torch.equal(x, torch.stack([parts[1][0].x[2], parts[0][0].x[5], parts[1][0].x[7]]))


def test_every_sample_meets_its_own_logits(script, federate, monkeypatch):
    """The objective is given a teacher whose logits spell the sample's number."""
    fed = federate(people(script), module=network())
    algorithm = FedDF(**COMMON, distillation_steps=5, distillation_batch=64)
    x = fed.data.proxy(0).tensors()[0]
    teacher = torch.arange(len(x)).float()[:, None].expand(-1, CLASSES)
    met = []

    def loss(student, target, temperature):
        met.append(target[:, 0].long())
        return student.sum()

    monkeypatch.setattr("flcluster.algorithms.rounds.feddf.distillation_loss", loss)
    job = algorithm.distillation(fed.init_rows(1)[0], teacher, 0, fed)
    inner, seen = job.objective, []

    def watched(worker, batch, number):
        seen.append(batch)
        return inner(worker, batch, number)

    object.__setattr__(job, "objective", watched)
    list(fed.train([job]))
    assert [len(part) for part in met] == [64, 64, 64, 48, 64]
    assert sorted(torch.cat(met[:4]).tolist()) == list(range(240))
    assert all(torch.equal(batch, x[numbers]) for batch, numbers in zip(seen, met, strict=True))


def test_logits_of_several_proxy_sets(script, federate):
    """One after the other, more than an evaluation batch, without dropout or gradients."""

    class Two(script):
        num_clusters = 2

        def proxy(self, cluster):
            source = self.sources["proxy"][cluster]
            return View(((source, torch.arange(200 - 63 * cluster)),))

    fed = federate(Two({0: {0: [0, 1, 2]}}), module=network())
    row = fed.init_rows(1)[0]
    x = torch.cat([fed.data.proxy(k).tensors()[0] for k in range(2)])
    found = ProxyLogits(fed.proxies)(fed.worker, None, Trained(0, row, 1, 1, 0.0))
    assert found.shape == (337, CLASSES) and not found.requires_grad and not found.is_inference()
    torch.testing.assert_close(found, logits(plain(fed, row), x))
    job = FedDF(**COMMON).distillation(row, found, 0, fed)
    inputs, numbers = job.view.tensors()
    assert torch.equal(inputs, x) and numbers.tolist() == list(range(337))


def test_failed_clients_do_not_teach(script, federate, spied, broken):
    fed = federate(people(script), module=network())
    algorithm = FedDF(**COMMON, distillation_steps=5, distillation_batch=50)
    broken(fed, 1, 4)
    log = spied(fed)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    x = fed.data.proxy(0).tensors()[0]
    fine = [(job, row) for job, row in log[:-1] if job.client not in (1, 4)]
    teacher = torch.stack([logits(plain(fed, row), x) for _, row in fine]).mean(0)
    student = plain(fed, mean_row(fine))
    distilled(student, x, teacher, seed=fed.seed, t=0, steps=5, batch=50)
    for name, value in fed.layout.state_dict(state.models[0]).items():
        torch.testing.assert_close(value, student.state_dict()[name], rtol=1e-4, atol=1e-5, msg=name)


def test_a_round_in_which_everyone_fails_changes_nothing(script, federate, broken):
    fed = federate(people(script), module=network())
    broken(fed, *range(5))
    algorithm = FedDF(**COMMON)
    state = algorithm.init(fed)
    after, done = algorithm.step(state, 0, fed)
    assert torch.equal(after.models, state.models)
    assert done.extra == {}


def test_logits_that_are_not_finite_do_not_teach(script, federate, monkeypatch):
    """Weights of 1e30 are finite, their logits are not; the other clients teach."""
    fed = federate(people(script), module=network())
    spoil(fed, lambda job: job.client == 2 and job.purpose == "train", 1e30)
    algorithm = FedDF(**COMMON, distillation_steps=3)
    seen, plan = [], algorithm.distillation
    monkeypatch.setattr(FedDF, "distillation", lambda self, *args: seen.append(args[1]) or plan(*args))
    algorithm.step(algorithm.init(fed), 0, fed)
    assert len(seen) == 1 and torch.isfinite(seen[0]).all() and float(seen[0].abs().max()) < 100


def test_a_distillation_that_fails_leaves_the_average(script, federate, spied, broken):
    fed = federate(people(script), module=network())
    algorithm = FedDF(**COMMON, distillation_steps=3)
    log = spied(fed)
    spoil(fed, lambda job: job.purpose == "distil", torch.nan)
    state, done = algorithm.step(algorithm.init(fed), 0, fed)
    torch.testing.assert_close(state.models[0], mean_row(log[:-1]), rtol=0, atol=1e-6)
    assert all(torch.equal(done.row(i), state.models[0]) for i in range(5))


class Normed(MLP):
    """Softmax regression behind a BatchNorm."""

    def __init__(self, num_classes, input_shape):
        super().__init__(num_classes, input_shape, hidden=(), lr=0.1)
        self.body = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(6))


def test_with_batch_norm_teachers_use_their_own_statistics(script, federate, spied):
    """Averaged statistics go on to learn in distillation, as in training; teachers are in evaluation mode."""
    fed = federate(people(script), module=Normed(CLASSES, (1, 2, 3)))
    algorithm = FedDF(**COMMON, distillation_steps=4, distillation_batch=60)
    log = spied(fed)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    x = fed.data.proxy(0).tensors()[0]

    def load(row):
        module = Normed(CLASSES, (1, 2, 3))
        module.load_state_dict(fed.layout.state_dict(row))
        return module

    teacher = torch.stack([logits(load(row), x) for _, row in log[:-1]]).mean(0)
    student = load(mean_row(log[:-1])).train()
    distilled(student, x, teacher, seed=fed.seed, t=0, steps=4, batch=60)
    for name, value in fed.layout.state_dict(state.models[0]).items():
        if value.is_floating_point():
            torch.testing.assert_close(value, student.state_dict()[name], rtol=1e-4, atol=1e-5, msg=name)


# ------------------------------------------------------------------------------------------------- costs and refusals


def test_what_is_sent_and_measured(script, federate):
    """One model each way; clients use the distilled model."""
    fed = federate(people(script), module=network())
    loop = make_loop(FedDF(**COMMON, distillation_steps=5), fed, None, None)
    loop.begin()
    exchanges = loop.advance()
    wire = 4 * (6 * 5 + 5 + 5 * 4 + 4)
    assert {e.uploaded for e in exchanges} == {e.downloaded for e in exchanges} == {wire}
    for exchange in exchanges:
        test = fed.data.shard(exchange.client, 0).test
        assert exchange.acc_after == accuracy(fed.worker.per_sample(loop.state.models[0], test))


def test_data_without_a_proxy_set_are_refused(federate):
    data = SkewedDigits(num_clients=3, proxy_size=0)
    with pytest.raises(UserError, match=r"proxy_size"):
        FedDF().init(federate(data))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("distillation_steps", -1),
        ("distillation_batch", 0),
        ("distillation_lr", 0.0),
        ("distillation_clip", 0.0),
        ("temperature", 0.0),
    ],
)
def test_values_that_cannot_be_are_named(name, value):
    with pytest.raises(UserError, match=name):
        FedDF(**{name: value})


def test_the_distillation_data_are_named():
    assert "no client holds" in FedDF().described["distillation_data"]
    assert FedDF(distillation_data="CIFAR-100").described == {"distillation_data": "CIFAR-100"}


# ------------------------------------------------------------------------------------------------------ runs on digits


def test_a_run_on_digits_learns_and_resumes_bit_for_bit(resumed):
    settings = {"data.num_clients": 5, "data.limit": 900, "data.proxy_size": 150, "algorithm": "FedDF"}
    settings |= {"algorithm.rounds": 5, "algorithm.participants": 4, "algorithm.local_epochs": 3}
    settings |= {"algorithm.batch_size": 16, "algorithm.distillation_steps": 30}
    summary = resumed({**settings, "algorithm.distillation_data": "150 digits of nobody"}, stops=[2])
    assert summary["acc_global"] > 0.5
    assert summary["distillation_data"] == "150 digits of nobody"
    assert "distillation_loss" in Path("whole", "metrics.csv").read_text().splitlines()[0]
