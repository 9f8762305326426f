"""Jobs that are more than local training: objectives, corrections and servers' recipes, against loops by hand."""

import copy
import math
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from flcluster.federation.jobs import Job, Recipe, Trained, Training
from flcluster.federation.worker import Worker
from flcluster.modules import CNN
from flcluster.seeds import rng, torch_seed

SEED, CLIENT, CYCLE = 23, 4, 2


def samples(points, n=37, shape=(1, 2, 3)):
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(3, (n,), generator=draw)
    return points(torch.randn(n, *shape, generator=draw) + y.view(-1, *[1] * len(shape)), y)


def made(fabric, module):
    """A worker, the row it starts from, and the same module apart from it."""
    ordinary = copy.deepcopy(module)
    worker = Worker(fabric, module, SEED)
    return worker, worker.layout.snapshot(), ordinary


def by_hand(module, view, optimizer, loss, *, steps, batch=16, after=lambda i, m: None, purpose="train"):
    """Train for so many batches, pass after pass; ``after(i, module)`` follows each backward pass."""
    x, y = view.tensors()
    order, done, losses = rng(SEED, purpose, CLIENT, CYCLE), 0, []
    module.train()
    with torch_seed(SEED, purpose, CLIENT, CYCLE):
        while done < steps:
            for index in torch.from_numpy(order.permutation(len(y))).split(batch):
                if done < steps:
                    optimizer.zero_grad()
                    value = loss(module, x[index], y[index])
                    losses.append(value.item())
                    value.backward()
                    after(done, module)
                    optimizer.step()
                    done += 1
    return losses


def same(worker, row, module, tolerance=2e-6):
    for name, value in worker.layout.state_dict(row).items():
        if value.is_floating_point():
            torch.testing.assert_close(value, module.state_dict()[name], rtol=tolerance, atol=tolerance, msg=name)


# ----------------------------------------------------------------------------------------------------------- objective


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_objective_instead_of_the_models_loss(fabric, mlp, points, optimizer):
    """Squared errors of shifted logits; the model's own loss and optimiser are at hand, and the loss is reported."""
    worker, start, module = made(fabric, mlp(optimizer=optimizer, lr=0.02, weight_decay=0.01))

    def squares(net, x, y):
        return (net(x) - 2 * F.one_hot(y, 3)).square().sum(1).mean() + 0.3 * F.cross_entropy(net(x), y)

    def objective(given, x, y):
        assert given is worker
        return (given.module(x) - 2 * F.one_hot(y, 3)).square().sum(1).mean() + 0.3 * given.loss(given.module(x), y)

    view = samples(points)
    trained = worker.train(Job(CLIENT, start, view, 2, 16, cycle=CYCLE, objective=objective))
    losses = by_hand(module, view, module.configure_optimizers(), squares, steps=6)
    same(worker, trained.row, module)
    assert trained.steps == 6
    assert trained.loss == pytest.approx(sum(losses) / 6, rel=1e-5)


def test_an_objectives_draws_belong_to_the_job(fabric, mlp, points):
    """Noise on the inputs: the same for the same job whatever was drawn before, other for another cycle."""
    worker, start, module = made(fabric, mlp())

    def objective(given, x, y):
        return given.loss(given.module(x + torch.rand_like(x)), y)

    view = samples(points)
    job = Job(CLIENT, start, view, 2, 16, cycle=CYCLE, objective=objective)
    first = worker.train(job)
    torch.rand(7)
    assert torch.equal(first.row, worker.train(job).row)
    by_hand(
        module,
        view,
        module.configure_optimizers(),
        lambda net, x, y: F.cross_entropy(net(x + torch.rand_like(x)), y),
        steps=6,
    )
    same(worker, first.row, module)
    plain = worker.train(Job(CLIENT, start, view, 2, 16, cycle=CYCLE))
    assert not torch.allclose(first.row, plain.row, atol=1e-3)


def test_an_objective_under_a_proximal_term(fabric, mlp, points):
    """The term is added to any objective, and is no part of the reported loss."""
    worker, start, module = made(fabric, mlp())
    anchors = [p.detach().clone() for p in module.parameters()]
    view = samples(points)
    job = Job(CLIENT, start, view, 2, 16, cycle=CYCLE, prox=0.7, objective=lambda w, x, y: 2 * w.loss(w.module(x), y))
    trained = worker.train(job)
    pure = []

    def loss(net, x, y):
        value = 2 * F.cross_entropy(net(x), y)
        pure.append(value.item())
        return value + 0.35 * sum(((p - a) ** 2).sum() for p, a in zip(net.parameters(), anchors, strict=True))

    by_hand(module, view, module.configure_optimizers(), loss, steps=6)
    same(worker, trained.row, module)
    assert trained.loss == pytest.approx(sum(pure) / 6, rel=1e-5)


# ---------------------------------------------------------------------------------------------------------- correction


def linear_term(worker, correction):
    """⟨correction, parameters⟩, whose gradient is the correction."""
    parts = {e.name: e.view(correction) for e in worker.layout.entries if e.stop <= worker.layout.num_parameters}
    return lambda net: sum((parts[name] * p).sum() for name, p in net.named_parameters())


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"weight_decay": 0.05}, {"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}],
    ids=lambda kwargs: "-".join(kwargs) or "sgd",
)
def test_a_correction_is_added_to_every_gradient(fabric, mlp, points, kwargs):
    """As a linear term in the loss would, before momentum, weight decay and Adam's scaling; the loss is without it."""
    worker, start, module = made(fabric, mlp(**kwargs))
    correction = 0.2 * torch.randn(worker.layout.num_parameters, generator=torch.Generator().manual_seed(1))
    kept, term, pure = correction.clone(), linear_term(worker, correction), []

    def loss(net, x, y):
        value = F.cross_entropy(net(x), y)
        pure.append(value.item())
        return value + term(net)

    view = samples(points)
    trained = worker.train(Job(CLIENT, start, view, 3, 16, cycle=CYCLE, correction=correction))
    by_hand(module, view, module.configure_optimizers(), loss, steps=9)
    same(worker, trained.row, module)
    assert trained.loss == pytest.approx(sum(pure) / 9, rel=1e-5)
    assert torch.equal(correction, kept)
    without = worker.train(Job(CLIENT, start, view, 3, 16, cycle=CYCLE))
    assert float((without.row - trained.row).abs().max()) > 0.01


def test_a_correction_by_hand(fabric, mlp, points):
    """Without gradients of its own a model moves by lr · correction a step."""
    worker, start, _ = made(fabric, mlp(lr=0.1))
    correction = torch.arange(worker.layout.num_parameters, dtype=torch.float32)
    nothing = Job(
        0,
        start,
        samples(points),
        1,
        37,
        steps=3,
        correction=correction,
        objective=lambda w, x, y: 0 * w.module(x).sum(),
    )
    torch.testing.assert_close(worker.train(nothing).row, start - 0.3 * correction)


def test_a_correction_leaves_batch_norm_statistics_alone(fabric, points):
    """It is as long as the parameters, which come first in a row; convolutions lie there in channels_last order."""
    torch.manual_seed(2)
    net = CNN(3, (2, 10, 10), channels=(4, 6), kernel_size=3, hidden=8, batch_norm=True, optimizer="sgd", lr=0.05)
    worker, start, module = made(fabric, net)
    assert worker.layout.size > worker.layout.num_parameters
    correction = 0.1 * torch.randn(worker.layout.num_parameters, generator=torch.Generator().manual_seed(1))
    term, view = linear_term(worker, correction), samples(points, 40, (2, 10, 10))
    trained = worker.train(Job(CLIENT, start, view, 2, 20, cycle=CYCLE, correction=correction))
    by_hand(
        module,
        view,
        module.configure_optimizers(),
        lambda net, x, y: F.cross_entropy(net(x), y) + term(net),
        steps=4,
        batch=20,
    )
    same(worker, trained.row, module, 1e-5)


# -------------------------------------------------------------------------------------------------------------- recipe


def cross_entropy(net, x, y):
    return F.cross_entropy(net(x), y)


@pytest.mark.parametrize("kwargs", [{"momentum": 0.9, "weight_decay": 0.1}, {"optimizer": "adamw", "lr": 0.5}])
def test_a_recipe_is_adam_whatever_the_models_optimiser(fabric, mlp, points, kwargs):
    worker, start, module = made(fabric, mlp(**kwargs))
    view = samples(points)
    own = Job(CLIENT, start, view, 1, 16, cycle=CYCLE)
    before = worker.train(own)
    job = Job(CLIENT, start, view, 3, 16, cycle=CYCLE, recipe=Recipe(lr=0.01))
    trained = worker.train(job)
    by_hand(module, view, torch.optim.Adam(module.parameters(), lr=0.01), cross_entropy, steps=9)
    same(worker, trained.row, module)
    assert torch.equal(worker.train(own).row, before.row)  # the model's optimiser comes back as it was
    assert torch.equal(worker.train(job).row, trained.row)  # and Adam remembers nothing


@pytest.mark.parametrize(("epochs", "steps"), [(4, None), (1, 10), (1, 2)])
def test_the_learning_rate_falls_along_half_a_cosine(fabric, mlp, points, epochs, steps):
    """As CosineAnnealingLR has it, over all steps of the job: the first is whole, the last not quite 0."""
    worker, start, module = made(fabric, mlp())
    view, total = samples(points), steps or 3 * epochs
    recipe = Recipe(lr=0.02, cosine=True)
    trained = worker.train(Job(CLIENT, start, view, epochs, 16, cycle=CYCLE, steps=steps, recipe=recipe))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)

    def follow(i, net):
        optimizer.param_groups[0]["lr"] = 0.02 * (1 + math.cos(math.pi * i / total)) / 2

    by_hand(module, view, optimizer, cross_entropy, steps=total, after=follow)
    assert trained.steps == total
    same(worker, trained.row, module)


def test_the_cosine_is_pytorchs(fabric, mlp, points):
    worker, start, module = made(fabric, mlp())
    view = samples(points)
    trained = worker.train(Job(CLIENT, start, view, 1, 16, cycle=CYCLE, steps=8, recipe=Recipe(lr=0.02, cosine=True)))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    optimizer.register_step_post_hook(lambda *_: schedule.step())
    by_hand(module, view, optimizer, cross_entropy, steps=8)
    same(worker, trained.row, module)


@pytest.mark.parametrize("clip", [0.05, 0.4])
def test_long_gradients_are_cut(fabric, mlp, points, clip):
    """The norm over all parameters together; some gradients here are longer, with 0.4 some are shorter."""
    worker, start, module = made(fabric, mlp())
    view, norms = samples(points), []
    trained = worker.train(Job(CLIENT, start, view, 5, 16, cycle=CYCLE, recipe=Recipe(lr=0.05, cosine=True, clip=clip)))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 15)
    optimizer.register_step_post_hook(lambda *_: schedule.step())

    def cut(i, net):
        norms.append(float(nn.utils.clip_grad_norm_(net.parameters(), clip)))

    by_hand(module, view, optimizer, cross_entropy, steps=15, after=cut)
    assert max(norms) > clip and (clip < 0.1 or min(norms) < clip)
    same(worker, trained.row, module, 1e-5)
    free = worker.train(Job(CLIENT, start, view, 5, 16, cycle=CYCLE, recipe=Recipe(lr=0.05, cosine=True)))
    assert float((free.row - trained.row).abs().max()) > 1e-4


def test_no_clip_no_cut(fabric, mlp, points):
    worker, start, _ = made(fabric, mlp())
    view = samples(points)
    rows = [worker.train(Job(0, start, view, 2, 16, recipe=Recipe(lr=0.05, clip=clip))).row for clip in (None, 1e6)]
    torch.testing.assert_close(*rows)


def test_a_recipe_trains_every_group_alike(fabric, points, mlp):
    """Two rates of the model's own make place for one."""

    class TwoRates(type(mlp())):
        def configure_optimizers(self):
            return torch.optim.SGD(
                [{"params": self.body.parameters()}, {"params": self.head.parameters(), "lr": 0.3}], 0.1
            )

    worker, start, module = made(fabric, TwoRates(3, (1, 2, 3), hidden=[8]))
    view = samples(points)
    recipe = Recipe(lr=0.02, cosine=True, clip=0.5)
    trained = worker.train(Job(CLIENT, start, view, 1, 16, cycle=CYCLE, steps=7, recipe=recipe))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7)
    optimizer.register_step_post_hook(lambda *_: schedule.step())

    def cut(i, net):
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)

    by_hand(module, view, optimizer, cross_entropy, steps=7, after=cut)
    same(worker, trained.row, module)


def test_frozen_parameters_stay_under_a_recipe_and_a_correction(fabric, points, mlp):
    module = mlp()
    module.body.requires_grad_(False)
    worker, start, _ = made(fabric, module)
    frozen = slice(0, sum(p.numel() for p in module.body.parameters()))
    correction = torch.ones(worker.layout.num_parameters)
    for recipe in (None, Recipe(lr=0.02, cosine=True, clip=0.5)):
        trained = worker.train(Job(0, start, samples(points), 1, 16, correction=correction, recipe=recipe))
        assert torch.equal(trained.row[frozen], start[frozen])
        assert not torch.equal(trained.row, start)


def test_no_steps_at_all(fabric, mlp, points):
    worker, start, _ = made(fabric, mlp())
    trained = worker.train(Job(0, start, samples(points), 1, 16, steps=0, recipe=Recipe(cosine=True)))
    assert trained.steps == 0 and trained.loss == 0
    assert torch.equal(trained.row, start)


# ----------------------------------------------------------------------------------------------------------- a training


def coming(count, log):
    """Results that are made when they are asked for."""
    for client in range(count):
        log.append(client)
        yield Trained(client, torch.full((2,), float(client)), size=10 + client, steps=1, loss=0.5)


def test_a_training_goes_on_while_one_goes_through_it():
    """Nothing is trained before; a result has its row while it is at hand, and none is kept of those before it."""
    log, places = [], []
    training = Training(coming(3, log))
    assert log == []
    for client, result in enumerate(training):
        assert log == list(range(client + 1))
        assert result.row.tolist() == [client, client]
        places.append(weakref.ref(result.row))
        assert sum(place() is not None for place in places) <= 2  # this one's, and the last one's in its generator
    del result
    assert all(place() is None for place in places)
    assert [(light.client, light.size, light.row) for light in training.results] == [
        (0, 10, None),
        (1, 11, None),
        (2, 12, None),
    ]


def test_results_are_there_at_the_end_only():
    training = Training(coming(2, []))
    for _ in training:
        with pytest.raises(RuntimeError, match="not all clients have trained"):
            _ = training.results
    assert len(training.results) == 2


def test_a_training_of_nobody_must_be_gone_through_too():
    training = Training(coming(0, []))
    with pytest.raises(RuntimeError, match="not all clients have trained"):
        _ = training.results
    assert list(training) == training.results == []


@pytest.mark.parametrize("until", [1, 2])
def test_a_training_is_gone_through_once(until):
    """Whether it came to its end or not."""
    training = Training(coming(2, []))
    for result in training:
        if result.client + 1 == until:
            break
    with pytest.raises(RuntimeError, match="gone through once"):
        next(iter(training))
