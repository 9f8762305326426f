"""The one training loop and evaluation, against plain PyTorch."""

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F

from flcluster.errors import UserError
from flcluster.federation.flat.evaluating import EVAL_BATCH
from flcluster.federation.jobs import Job, samples_processed
from flcluster.federation.layout import Layout
from flcluster.federation.worker import Worker
from flcluster.modules import CNN
from flcluster.seeds import rng

SEED = 23


def cnn(batch_norm=True, **kwargs):
    size = {"channels": (4, 6), "kernel_size": 3, "hidden": 16, "batch_norm": batch_norm}
    return CNN(3, (2, 10, 10), **{**size, "optimizer": "sgd", "lr": 0.05, "weight_decay": 0.0, **kwargs})


def samples(points, n, shape, seed=0, parts=1):
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=draw)
    x = torch.randn(n, *shape, generator=draw) + y.view(-1, *[1] * len(shape))
    return points(x, y, parts)


def loaded(module, layout, row):
    out = copy.deepcopy(module)
    out.load_state_dict(layout.state_dict(row))
    return out


def worker_and_start(fabric, module):
    worker = Worker(fabric, module, SEED)
    return worker, worker.layout.snapshot()


def equal_states(worker, row, module, tolerance):
    for name, value in worker.layout.state_dict(row).items():
        if value.is_floating_point():
            torch.testing.assert_close(value, module.state_dict()[name], rtol=tolerance, atol=tolerance, msg=name)


# --------------------------------------------------------------------------------------------------------- training


def test_mlp_with_sgd(fabric, mlp, points, plain):
    """3 epochs of 37 samples in batches of 16: 9 steps, the last of each epoch with 5 samples."""
    module = mlp(momentum=0.9, weight_decay=0.01)
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 37, (1, 2, 3))
    trained = worker.train(Job(4, start, view, epochs=3, batch_size=16, cycle=2))
    expected, losses = plain.train(
        ordinary, lambda m: m.configure_optimizers(), view, seed=SEED, client=4, cycle=2, epochs=3
    )
    equal_states(worker, trained.row, expected, 1e-6)
    assert (trained.client, trained.size, trained.steps) == (4, 37, 9)
    assert trained.loss == pytest.approx(sum(losses) / 9, rel=1e-6)
    assert float((trained.row - start).abs().max()) > 1e-2


@pytest.mark.parametrize("anchored", [False, True])
def test_mlp_with_adam_and_a_proximal_term(fabric, mlp, points, plain, anchored):
    """(ρ/2)·‖v − anchor‖² goes through autograd here, so Adam preconditions it; the reported loss is without it."""
    torch.manual_seed(1)
    module, other = (mlp(optimizer="adam", lr=0.01, weight_decay=0.005) for _ in range(2))
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 40, (1, 2, 3), parts=3)
    anchor = Layout(copy.deepcopy(other)).snapshot() if anchored else None
    trained = worker.train(Job(1, start, view, epochs=3, batch_size=16, prox=0.7, anchor=anchor))
    pull = other if anchored else ordinary
    expected, losses = plain.train(
        ordinary, lambda m: m.configure_optimizers(), view, seed=SEED, client=1, epochs=3, pulls=[(0.7, pull)]
    )
    without, _ = plain.train(ordinary, lambda m: m.configure_optimizers(), view, seed=SEED, client=1, epochs=3)
    equal_states(worker, trained.row, expected, 1e-5)
    assert float((plain.vector(without) - trained.row).abs().max()) > 1e-3  # the term matters
    assert trained.loss == pytest.approx(sum(losses) / 9, rel=1e-5)


def test_at_its_anchor_a_proximal_term_is_nothing_at_all(fabric, mlp, points):
    """The first step from the anchor is that without the term to the last bit: Adam would make much of any residue."""
    worker, start = worker_and_start(fabric, mlp(optimizer="adam", lr=0.01))
    view = samples(points, 40, (1, 2, 3))
    one = Job(1, start, view, epochs=1, batch_size=16, steps=1)
    assert torch.equal(worker.train(replace(one, prox=0.1)).row, worker.train(one).row)


@pytest.mark.parametrize("prox", [0.0, 0.3])
def test_cnn_with_batch_norm(fabric, points, plain, prox):
    """Parameters and running statistics; the proximal term looks at parameters only."""
    torch.manual_seed(2)
    module, other = cnn(momentum=0.9), cnn()
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 40, (2, 10, 10))
    anchor = Layout(copy.deepcopy(other)).snapshot()
    anchor[worker.layout.num_parameters :] = 1e6  # must not be looked at
    trained = worker.train(Job(0, start, view, epochs=2, batch_size=16, prox=prox, anchor=anchor))
    expected, _ = plain.train(
        ordinary,
        lambda m: m.configure_optimizers(),
        view,
        seed=SEED,
        client=0,
        epochs=2,
        pulls=[(prox, other)] if prox else [],
    )
    equal_states(worker, trained.row, expected, 1e-5)


def test_cnn_with_adam(fabric, points, plain):
    torch.manual_seed(3)
    module = cnn(batch_norm=False, optimizer="adam", lr=0.001)
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 33, (2, 10, 10))
    trained = worker.train(Job(0, start, view, epochs=2, batch_size=16))
    expected, _ = plain.train(ordinary, lambda m: m.configure_optimizers(), view, seed=SEED, client=0, epochs=2)
    equal_states(worker, trained.row, expected, 1e-5)


def test_two_groups_train_like_pytorch(fabric, points, plain, mlp):
    """An optimiser that stays as it is, with a proximal term and a learning-rate factor on both groups."""

    class TwoRates(type(mlp())):
        def configure_optimizers(self):
            return torch.optim.SGD(
                [{"params": self.body.parameters()}, {"params": self.head.parameters(), "lr": 0.3}], 0.1
            )

    torch.manual_seed(4)
    module = TwoRates(3, (1, 2, 3), hidden=[8])
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 40, (1, 2, 3))
    trained = worker.train(Job(0, start, view, epochs=2, batch_size=16, prox=0.5, lr_factor=0.5))

    def halved(m):
        return torch.optim.SGD([{"params": m.body.parameters()}, {"params": m.head.parameters(), "lr": 0.15}], 0.05)

    expected, _ = plain.train(ordinary, halved, view, seed=SEED, client=0, epochs=2, pulls=[(0.5, ordinary)])
    equal_states(worker, trained.row, expected, 1e-6)


def test_frozen_parameters_are_not_trained(fabric, points, mlp):
    """Neither by weight decay nor by a pull towards somewhere else."""
    module = mlp(weight_decay=0.1)
    module.body.requires_grad_(False)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 32, (1, 2, 3))
    trained = worker.train(Job(0, start, view, epochs=1, batch_size=16, prox=0.5, anchor=torch.zeros_like(start)))
    frozen = slice(0, sum(p.numel() for p in module.body.parameters()))
    assert torch.equal(trained.row[frozen], start[frozen])
    assert not torch.equal(trained.row, start)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_what_was_trained_before_does_not_matter(fabric, points, optimizer):
    """Optimiser state, BatchNorm statistics and the learning rate of an earlier job leave no trace."""
    module = cnn(optimizer=optimizer, lr=0.02, momentum=0.9)
    worker, start = worker_and_start(fabric, module)
    job = Job(3, start, samples(points, 30, (2, 10, 10)), epochs=2, batch_size=16, cycle=1)
    first = worker.train(job)
    disturbing = samples(points, 50, (2, 10, 10), seed=9)
    worker.train(Job(5, first.row * 3, disturbing, epochs=2, batch_size=7, lr_factor=0.1, prox=2.0))
    worker.per_sample(first.row, disturbing)
    again = worker.train(job)
    assert torch.equal(first.row, again.row)
    assert first.loss == again.loss


def test_a_cumulative_batch_norm_starts_anew(fabric, points):
    """momentum=None averages by num_batches_tracked, an integer that is no part of a row."""
    module = cnn()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None
    worker, start = worker_and_start(fabric, module)
    job = Job(3, start, samples(points, 32, (2, 10, 10)), epochs=1, batch_size=16)
    assert torch.equal(worker.train(job).row, worker.train(job).row)


@pytest.mark.parametrize(("factor", "lr"), [(0.25, 0.025), (1.0, 0.1)])
def test_learning_rate_factor(fabric, mlp, points, plain, factor, lr):
    module = mlp(lr=0.1)
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 20, (1, 2, 3))
    worker.train(Job(0, start, view, epochs=1, batch_size=16, lr_factor=0.5))
    trained = worker.train(Job(0, start, view, epochs=1, batch_size=16, lr_factor=factor))
    expected, _ = plain.train(ordinary, lambda m: torch.optim.SGD(m.parameters(), lr), view, seed=SEED, client=0)
    equal_states(worker, trained.row, expected, 1e-6)


class Dropping(LightningModule):
    """A third party's module: no ``loss`` method, dropout, one optimiser."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def test_a_module_without_a_loss_and_repeatable_dropout(fabric, points, plain):
    """Cross-entropy is the default; the same job drops the same units, another cycle drops others."""
    module = Dropping()
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 30, (1, 2, 3))
    trained = worker.train(Job(2, start, view, epochs=2, batch_size=30, cycle=1))
    torch.rand(5)
    assert torch.equal(trained.row, worker.train(Job(2, start, view, epochs=2, batch_size=30, cycle=1)).row)
    assert not torch.allclose(trained.row, worker.train(Job(2, start, view, epochs=2, batch_size=30, cycle=0)).row)
    expected, _ = plain.train(
        ordinary, lambda m: m.configure_optimizers(), view, seed=SEED, client=2, cycle=1, epochs=2, batch=30
    )
    equal_states(worker, trained.row, expected, 1e-6)
    losses, hits = worker.per_sample(trained.row, view)
    plain_losses, plain_hits = plain.per_sample(expected, view)  # no dropout
    torch.testing.assert_close(losses, plain_losses, rtol=1e-5, atol=1e-6)
    assert torch.equal(hits, plain_hits)


def test_a_loss_that_is_a_torch_module(fabric, points, plain):
    """``self.loss = nn.CrossEntropyLoss()`` is how most Lightning modules are written."""

    class Usual(Dropping):
        def __init__(self):
            super().__init__()
            self.loss = nn.CrossEntropyLoss()

    module = Usual()
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 10, (1, 2, 3))
    losses, _ = worker.per_sample(start, view)
    torch.testing.assert_close(losses, plain.per_sample(ordinary, view)[0], rtol=1e-5, atol=1e-6)


def test_a_smoothed_and_weighted_loss_is_what_it_says(fabric, points):
    """Not plain cross-entropy in its place: each sample's loss with the given weights and smoothing."""
    weight = torch.tensor([0.5, 1.0, 3.0])

    class Smoothed(Dropping):
        def __init__(self):
            super().__init__()
            self.loss = nn.CrossEntropyLoss(weight=weight, label_smoothing=0.2)

    module = Smoothed()
    ordinary = copy.deepcopy(module).eval()
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 10, (1, 2, 3))
    x, y = view.tensors()
    expected = F.cross_entropy(ordinary(x), y, weight=weight, label_smoothing=0.2, reduction="none")
    torch.testing.assert_close(worker.per_sample(start, view)[0], expected, rtol=1e-5, atol=1e-6)


def test_the_jobs_identity_decides_its_order(fabric, mlp, points):
    worker, start = worker_and_start(fabric, mlp())
    view = samples(points, 30, (1, 2, 3))

    def row(seed=SEED, **changes):
        other = Worker(fabric, mlp(), seed) if seed != SEED else worker
        return other.train(
            Job(**{"client": 1, "start": start, "view": view, "epochs": 1, "batch_size": 8, **changes})
        ).row

    same = row()
    assert torch.equal(same, row())
    for changed in (row(client=2), row(cycle=1), row(purpose="pretrain"), row(seed=24)):
        assert not torch.equal(same, changed)


def test_a_single_sample_left_over_is_dropped_with_batch_norm(fabric, points, plain):
    """33 = 2·16 + 1: two steps an epoch; 1 sample: none at all."""
    module = cnn()
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 33, (2, 10, 10))
    trained = worker.train(Job(0, start, view, epochs=2, batch_size=16))
    expected, _ = plain.train(ordinary, lambda m: m.configure_optimizers(), view, seed=SEED, client=0, epochs=2)
    assert trained.steps == 4
    equal_states(worker, trained.row, expected, 1e-5)
    alone = worker.train(Job(0, start, samples(points, 1, (2, 10, 10)), epochs=2, batch_size=16))
    assert alone.steps == 0
    assert torch.equal(alone.row, start)


def test_a_single_sample_left_over_trains_without_batch_norm(fabric, mlp, points):
    worker, start = worker_and_start(fabric, mlp())
    assert worker.train(Job(0, start, samples(points, 33, (1, 2, 3)), epochs=2, batch_size=16)).steps == 6


@pytest.mark.parametrize("build", [Dropping, cnn])
def test_global_random_state_is_left_alone(fabric, points, build):
    worker, start = worker_and_start(fabric, build())
    view = samples(points, 20, (1, 2, 3) if build is Dropping else (2, 10, 10))
    torch.manual_seed(77)
    before = torch.get_rng_state()
    worker.train(Job(0, start, view, epochs=1, batch_size=8))
    worker.per_sample(start, view)
    assert torch.equal(torch.get_rng_state(), before)


def test_training_leaves_start_and_data_alone(fabric, mlp, points):
    worker, start = worker_and_start(fabric, mlp())
    view = samples(points, 20, (1, 2, 3))
    kept, x = start.clone(), view.tensors()[0].clone()
    trained = worker.train(Job(0, start, view, epochs=1, batch_size=8, prox=0.1))
    result = trained.row.clone()
    worker.train(Job(1, start, view, epochs=1, batch_size=8))
    assert torch.equal(start, kept)
    assert torch.equal(view.tensors()[0], x)
    assert torch.equal(trained.row, result)  # a result is a copy, not the bound row


# ------------------------------------------------------------------------------------------------------- evaluation


@pytest.mark.parametrize("build", [cnn, Dropping])
def test_per_sample(fabric, points, plain, build):
    """More than one evaluation batch and several parts; order is the view's; BatchNorm in eval mode."""
    torch.manual_seed(5)
    shape = (1, 2, 3) if build is Dropping else (2, 10, 10)
    module = build()
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 2 * EVAL_BATCH + 41, shape, parts=3)
    worker.train(Job(0, start, view, epochs=1, batch_size=64))  # leaves the module in train mode, with other weights
    losses, hits = worker.per_sample(start, view)
    expected_losses, expected_hits = plain.per_sample(ordinary, view)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-6)
    assert torch.equal(hits, expected_hits)
    assert 0 < float(hits.mean()) < 1


def test_pinned_views_score_the_same(fabric, points):
    worker, start = worker_and_start(fabric, cnn())
    view = samples(points, EVAL_BATCH + 7, (2, 10, 10), parts=2)
    free = worker.per_sample(start, view)
    worker.pin(view)
    assert torch.equal(worker.per_sample(start, view), free)


def test_evaluation_leaves_the_row_alone(fabric, points):
    worker, start = worker_and_start(fabric, cnn())
    other = start * 1.5
    kept = other.clone()
    worker.per_sample(other, samples(points, 30, (2, 10, 10)))
    assert torch.equal(other, kept)
    assert torch.equal(worker.layout.snapshot(), kept)


# ----------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("wrap", [lambda o: {"optimizer": o}, lambda o: [o], lambda o: None])
def test_configure_optimizers_must_return_one_optimiser(fabric, wrap):
    class Other(Dropping):
        def configure_optimizers(self):
            return wrap(super().configure_optimizers())

    with pytest.raises(
        (TypeError, UserError), match=r"Other\.configure_optimizers \(.*\) must return one torch optimi[sz]er"
    ):
        Worker(fabric, Other(), SEED)


# ------------------------------------------------------------------------------------------------------------- steps


def by_steps(module, view, steps, batch, seed=SEED, client=0, cycle=0):
    """So many batches, one permutation after the other, each cut into batches; for BatchNorm one sample is no batch."""
    module = copy.deepcopy(module).train()
    x, y = view.tensors()
    optimizer, order = module.configure_optimizers(), rng(seed, "train", client, cycle)
    normed = any(isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)) for m in module.modules())
    done, losses, used = 0, [], []
    while done < steps:
        for index in torch.from_numpy(order.permutation(len(y))).split(batch):
            if done == steps or (normed and len(index) == 1):
                continue
            loss = nn.functional.cross_entropy(module(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            used.append(len(index))
            done += 1
    return module.eval(), losses, used


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 9])
def test_steps_instead_of_epochs(fabric, mlp, points, steps):
    """37 samples in batches of 16: three batches a pass, so up to three passes, each in an order of its own."""
    module = mlp(momentum=0.9)
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 37, (1, 2, 3))
    trained = worker.train(Job(4, start, view, epochs=1, batch_size=16, cycle=2, steps=steps))
    expected, losses, used = by_steps(ordinary, view, steps, 16, client=4, cycle=2)
    equal_states(worker, trained.row, expected, 1e-5)
    assert (trained.steps, trained.size) == (steps, 37)
    assert trained.loss == pytest.approx(sum(losses) / steps, rel=1e-5)
    assert sum(used) == samples_processed(37, 1, 16, steps)


def test_steps_that_make_whole_epochs_are_epochs(fabric, mlp, points):
    worker, start = worker_and_start(fabric, mlp())
    view = samples(points, 37, (1, 2, 3))
    assert torch.equal(
        worker.train(Job(0, start, view, epochs=1, batch_size=16, steps=6)).row,
        worker.train(Job(0, start, view, epochs=2, batch_size=16)).row,
    )


def test_steps_on_fewer_samples_than_a_batch(fabric, mlp, points):
    """Five samples, batches of 20, twenty steps: the same five again and again."""
    module = mlp()
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, 5, (1, 2, 3))
    trained = worker.train(Job(0, start, view, epochs=1, batch_size=20, steps=20))
    expected, _, used = by_steps(ordinary, view, 20, 20)
    assert trained.steps == 20
    equal_states(worker, trained.row, expected, 1e-4)
    assert sum(used) == samples_processed(5, 1, 20, 20) == 100


@pytest.mark.parametrize(("n", "steps"), [(33, 5), (17, 3)])
def test_steps_with_batch_norm_leave_single_samples_out(fabric, points, n, steps):
    module = cnn()
    ordinary = copy.deepcopy(module)
    worker, start = worker_and_start(fabric, module)
    view = samples(points, n, (2, 10, 10))
    trained = worker.train(Job(0, start, view, epochs=1, batch_size=16, steps=steps))
    expected, _, _ = by_steps(ordinary, view, steps, 16)
    assert trained.steps == steps
    equal_states(worker, trained.row, expected, 1e-4)


def test_steps_on_a_single_sample_with_batch_norm_end(fabric, points):
    """There is nothing to train on: no step, rather than looking for one for ever."""
    worker, start = worker_and_start(fabric, cnn())
    trained = worker.train(Job(0, start, samples(points, 1, (2, 10, 10)), epochs=1, batch_size=16, steps=7))
    assert trained.steps == 0
    assert torch.equal(trained.row, start)


@settings(deadline=None, max_examples=200, database=None)
@given(st.integers(1, 70), st.integers(1, 4), st.integers(1, 25), st.one_of(st.none(), st.integers(1, 40)))
def test_samples_processed_counts_the_batches(size, epochs, batch, steps):
    """Every epoch's batches, or those of the first ``steps``, pass after pass."""
    one_pass = [min(batch, size - at) for at in range(0, size, batch)]
    found = samples_processed(size, epochs, batch, steps)
    if steps is None:
        assert found == epochs * size
    else:
        assert found == sum(one_pass[i % len(one_pass)] for i in range(steps))


def test_nothing_to_process():
    assert samples_processed(0, 3, 16, None) == samples_processed(0, 3, 16, 5) == 0
