"""AP-FL's generator: lessons replayed step by step in float64, and who teaches which classes."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from apfl_people import CLASSES, HELD, LATER, LR, MEAN, PIXELS, STAYS, STD, TINY, UNSEEN, UPLOADS, Listed, people
from replay import begun, logits
from torch.nn import functional as F

from flcluster.algorithms import APFL
from flcluster.algorithms.personal import apfl
from flcluster.errors import UserError
from flcluster.modules import SemanticGenerator


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
