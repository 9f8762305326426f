"""AP-FL's friends: what they learn from, and who trains after the rounds."""

import copy

import numpy as np
import pytest
import torch
from apfl_people import CLASSES, DROPOUTS, HELD, LR, TINY, UNSEEN, by_largest_remainder, close, held_by, people
from replay import begun, descended

from flcluster.algorithms import APFL
from flcluster.modules import SemanticGenerator


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
