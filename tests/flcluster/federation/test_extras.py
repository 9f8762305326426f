"""Arguments and callbacks that a user gives to local trainings: each does what it does to a plain Trainer."""

import warnings
from copy import deepcopy
from functools import partial

import lightning as L
import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import (
    Callback,
    GradientAccumulationScheduler,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from torch.utils.data import DataLoader, TensorDataset

from flcluster.data import Samples, View
from flcluster.errors import UserError
from flcluster.federation.extras import Extras
from flcluster.federation.jobs import Job
from flcluster.federation.lightning_worker import LightningWorker
from flcluster.federation.scores.scoring import Scoring
from flcluster.modules import MLP
from flcluster.seeds import rng, torch_seed

N, SIZE, EPOCHS, SEED = 24, 5, 4, 6


class Noise(Callback):
    """Bends gradients, ever more with each step that it has seen, by what it draws."""

    def __init__(self, by: float = 0.1):
        self.by, self.seen = by, 0

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.seen += 1
        for parameter in module.parameters():
            parameter.grad.add_(torch.randn_like(parameter), alpha=self.by * self.seen)


GIVEN = {
    "clipped": ({"gradient_clip_val": 0.05}, list),
    "clipped by value": ({"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"}, list),
    "accumulated": ({"accumulate_grad_batches": 2}, list),
    "limited": ({"limit_train_batches": 2}, list),
    "noise": ({}, lambda: [Noise()]),
    "noise, then clipped": ({"gradient_clip_val": 0.05}, lambda: [Noise()]),
    "averaged": ({}, lambda: [StochasticWeightAveraging(swa_lrs=0.2, swa_epoch_start=2)]),
    "scheduled": ({}, lambda: [GradientAccumulationScheduler({0: 1, 2: 3})]),
}


def samples():
    draw = np.random.default_rng(2)
    return TensorDataset(torch.tensor(draw.normal(size=(N, 1, 2, 3)), dtype=torch.float32), torch.arange(N) % 3)


def view():
    return View(((Samples(samples()), torch.arange(N)),))


def worker(arguments, callbacks, module):
    fabric, extras = Fabric(accelerator="cpu", devices=1), Extras(arguments, callbacks)
    return LightningWorker(fabric, module, SEED, view(), SIZE, Scoring(), extras=extras)


def module():
    torch.manual_seed(0)
    return MLP(3, (1, 2, 3), hidden=[4], lr=0.5)


def plainly(trained, job, arguments, callbacks):
    """Train by a Trainer that knows nothing of flcluster, on the same batches in the same order."""
    order = rng(SEED, job.purpose, job.client, job.cycle)

    class Order:
        def __len__(self):
            return -(-N // SIZE)

        def __iter__(self):
            shuffled = order.permutation(N).tolist()
            return iter([shuffled[a : a + SIZE] for a in range(0, N, SIZE)])

    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    with warnings.catch_warnings(), torch_seed(SEED, job.purpose, job.client, job.cycle):
        warnings.simplefilter("ignore")
        trainer = L.Trainer(max_epochs=EPOCHS, accelerator="cpu", devices=1, callbacks=callbacks, **off, **arguments)
        trainer.fit(trained, DataLoader(samples(), batch_sampler=Order()))
    return torch.cat([parameter.detach().flatten() for parameter in trained.parameters()]), trainer.global_step


@pytest.mark.parametrize("name", GIVEN)
def test_a_local_training_is_a_plain_trainers_with_the_same(name):
    arguments, callbacks = GIVEN[name]
    mine, theirs = worker(arguments, callbacks(), module()), module()
    job = partial(Job, view=view(), epochs=EPOCHS, batch_size=SIZE)
    wanted, steps = plainly(theirs, job(1, mine.first), arguments, callbacks())
    plain, _ = plainly(module(), job(1, mine.first), {}, [])
    mine.train(job(0, mine.first))  # another client's comes before
    found = mine.train(job(1, mine.first))
    torch.testing.assert_close(found.row[: len(wanted)], wanted, rtol=0, atol=1e-5)
    assert found.steps == steps
    assert (wanted - plain).abs().max() > 1e-3, "what is given makes no difference here: the test shows nothing"


def test_nothing_of_one_training_reaches_the_next():
    """The callback counts its steps; its count is that of one training, and what was given stays as it was."""
    given = [Noise()]
    mine = worker({}, given, module())
    job = Job(1, mine.first, view(), EPOCHS, SIZE)
    first, again = mine.train(job), mine.train(deepcopy(job))
    assert torch.equal(first.row, again.row) and given[0].seen == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"logger": True}, "trainer.logger cannot be given: the run's own is logger"),
        ({"devices": 2}, "trainer.devices cannot be given: it is one of fabric"),
        ({"strategy": "ddp"}, "trainer.strategy cannot be given: it is one of fabric"),
        ({"max_epochs": 2}, "trainer.max_epochs cannot be given: the method says how long"),
        ({"callbacks": []}, "trainer.callbacks cannot be given: they are trainer_callbacks"),
        ({"gradient_clip": 2}, "trainer.gradient_clip cannot be given: .* there are gradient_clip_val"),
    ],
)
def test_what_cannot_be_given_is_named(arguments, said):
    with pytest.raises(UserError, match=said):
        Extras(arguments)


@pytest.mark.parametrize(
    ("arguments", "callbacks", "said"),
    [
        ({"gradient_clip_algorithm": "median"}, [], "trainer.gradient_clip_algorithm: .*median"),
        ({}, [ModelCheckpoint()], r"ModelCheckpoint: .*enable_checkpointing"),
        ({}, [StochasticWeightAveraging([])], r"StochasticWeightAveraging \(swa_lrs \[\].*\): .*0 values"),
    ],
)
def test_what_lightning_refuses_is_one_line(arguments, callbacks, said):
    with pytest.raises(UserError, match=said) as error:
        worker(arguments, callbacks, module())
    assert "\n" not in str(error.value)


def test_what_is_no_callback_or_has_no_training_step_is_named():
    with pytest.raises(UserError, match=r"trainer_callbacks: int is no lightning\.pytorch\.Callback"):
        Extras({}, [3]).why(module())
    with pytest.raises(UserError, match=r"trainer\.detect_anomaly takes a Trainer, and Plain has no training_step"):
        Extras({"detect_anomaly": True}).why(type("Plain", (L.LightningModule,), {})())


def test_control_variates_are_not_for_clipped_steps():
    assert worker({"accumulate_grad_batches": 2}, [], module()).constant_steps
    assert not worker({"gradient_clip_val": 1.0}, [], module()).constant_steps
