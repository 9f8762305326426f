"""Clients trained in one pass, against the same clients one by one."""

import math
from dataclasses import replace

import pytest
import torch
from lightning import LightningModule
from torch import nn

from flcluster.data import View
from flcluster.federation.jobs import Job, Recipe
from flcluster.federation.layout import ELEMENTWISE
from flcluster.federation.together import recorded
from flcluster.federation.together.several import Several
from flcluster.federation.worker import Worker
from flcluster.modules import CNN, MLP

SEED, SHAPE = 23, (1, 2, 3)
SIZES = [37, 16, 1, 20, 9, 32]
"""Some with short last batches, one with a single sample, one with less than a batch, two with whole ones."""
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
"""Sums of float32 in another order: a few units in the last place of each of some dozen steps."""


class Tiny(LightningModule):
    """A dense network with any optimiser."""

    def __init__(self, optimizer, **settings):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.made = lambda: optimizer(self.parameters(), **{"lr": 0.01, **settings})

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return self.made()


def mlp(**settings):
    torch.manual_seed(3)
    return MLP(3, SHAPE, **{"hidden": [8], "lr": 0.1, **settings})


@pytest.fixture
def jobs(points):
    """Jobs from different starts, of clients of different sizes."""

    def make(worker, sizes=SIZES, shape=SHAPE, **settings):
        draw, made = torch.Generator().manual_seed(5), []
        for client, n in enumerate(sizes):
            x, y = torch.randn(n, *shape, generator=draw), torch.randint(3, (n,), generator=draw)
            start = worker.layout.snapshot() * (1 + 0.1 * client)
            made.append(Job(client, start, points(x, y), **{"epochs": 3, "batch_size": 16, "cycle": 2, **settings}))
        return made

    return make


def equal(one, many, **tolerance):
    for a, b in zip(one, many, strict=True):
        torch.testing.assert_close(b.row, a.row, **(tolerance or CLOSE), msg=lambda text, a=a: f"{a.client}: {text}")
        told = [(t.client, t.size, t.steps, t.processed, t.finite, t.usable, t.lr) for t in (a, b)]
        assert told[0] == told[1]
        for name in ("loss", "accuracy", "start_loss", "start_square"):
            assert getattr(b, name) == pytest.approx(getattr(a, name), rel=1e-5, abs=1e-6, nan_ok=True), name


def both(fabric, module, make, most=32, **settings):
    worker = Worker(fabric, module, SEED)
    todo = make(worker, **settings) if callable(make) else make
    return [worker.train(job) for job in todo], Several(worker, most, None).train(todo)


@pytest.mark.parametrize("kind", [kind.__name__ for kind in ELEMENTWISE])
def test_every_elementwise_optimiser(kind, fabric, jobs):
    """Those that divide by the size of gradients blow up the last bits of one that is almost zero, but for eps."""
    settings = {} if kind == "SGD" else {"eps": 1e-3}
    equal(*both(fabric, Tiny(getattr(torch.optim, kind), **settings), jobs))


@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"momentum": 0.5, "dampening": 0.3},
        {"weight_decay": 0.1},
        {"maximize": True},
    ],
)
def test_settings_of_sgd(settings, fabric, jobs):
    equal(*both(fabric, Tiny(torch.optim.SGD, **settings), jobs))


@pytest.mark.parametrize("settings", [{"amsgrad": True, "weight_decay": 0.1}, {"betas": (0.5, 0.9), "eps": 1e-4}])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_settings_of_adam(settings, kind, fabric, jobs):
    equal(*both(fabric, Tiny(kind, **settings), jobs))


@pytest.mark.parametrize(
    "settings", [{"prox": 0.3}, {"prox": -0.1}, {"lr_factor": 0.25}, {"momentum": 0.7}, {"steps": 5}, {"steps": 1}]
)
def test_what_a_job_may_say(settings, fabric, jobs):
    equal(*both(fabric, mlp(), jobs, **settings))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_anchors_corrections_and_starts_are_each_clients_own(optimizer, fabric, jobs):
    worker = Worker(fabric, mlp(optimizer=optimizer, lr=0.01), SEED)
    draw = torch.Generator().manual_seed(1)
    numbers = worker.layout.num_parameters
    todo = [
        replace(
            job,
            anchor=torch.randn(worker.layout.size, generator=draw),
            correction=torch.randn(numbers, generator=draw),
            prox=0.2,
            test=job.view,
            scores_start=True,
        )
        for job in jobs(worker)
    ]
    equal([worker.train(job) for job in todo], Several(worker, 32, None).train(todo))


def test_jobs_of_every_kind_side_by_side_come_back_in_their_order(fabric, jobs, points):
    """Other rates, lengths, batches, an own loss and a server's recipe, and a client without samples."""
    worker = Worker(fabric, mlp(), SEED)
    plain = jobs(worker, sizes=[37, 16, 20, 9, 32, 40, 5])
    objective = lambda worker, x, y: 2 * worker.loss(worker.module(x), y)  # noqa: E731
    changes = [{}, {"lr_factor": 0.5}, {"steps": 7}, {"batch_size": 5}, {"objective": objective}, {"recipe": Recipe()}]
    todo = [replace(job, **change) for job, change in zip(plain, [*changes, {}], strict=True)]
    nothing = View(((todo[0].view.parts[0][0], torch.arange(0)),))
    todo.append(replace(plain[0], client=9, view=nothing))
    equal([worker.train(job) for job in todo], Several(worker, 32, None).train(todo))


def test_a_group_is_cut_where_there_is_no_room(fabric, jobs):
    equal(*both(fabric, mlp(), jobs, most=2))


def test_convolutions_and_channels_last_weights(fabric, jobs):
    module = CNN(3, (2, 10, 10), channels=(3, 4), kernel_size=3, hidden=6, optimizer="sgd", lr=0.05)
    equal(*both(fabric, module, jobs, sizes=[9, 4, 16], shape=(2, 10, 10), epochs=1, batch_size=8))


def test_a_row_that_breaks_touches_no_other(fabric, jobs):
    """NaN and infinity in two rows: the bits of all others stay as they are without them."""
    worker = Worker(fabric, mlp(), SEED)
    todo = jobs(worker, sizes=[20, 20, 20, 20])
    well = Several(worker, 32, None).train(todo)
    for place, value in ((1, math.nan), (2, math.inf)):
        start = todo[place].start.clone()
        start[4] = value
        todo[place] = replace(todo[place], start=start, test=todo[place].view)
    ill = Several(worker, 32, None).train(todo)
    assert [t.finite for t in ill] == [True, False, False, True] and math.isnan(ill[1].accuracy)
    assert torch.equal(ill[0].row, well[0].row) and torch.equal(ill[3].row, well[3].row)


def test_a_client_gets_the_same_bits_whoever_trains_beside_it(fabric, jobs):
    """So groups may be cut anywhere, be shared out over ranks, and be begun anew after a run was stopped."""
    worker = Worker(fabric, mlp(hidden=[16], optimizer="adam"), SEED)
    todo = jobs(worker, sizes=[37, 16, 1, 20, 9, 32, 50, 21])
    several = Several(worker, 32, None)
    whole = several.train(todo)
    for some in ([3], [0, 5], [7, 1, 6, 2, 4], [6, 0, 3]):
        for i, trained in zip(some, several.train([todo[i] for i in some]), strict=True):
            assert torch.equal(trained.row, whole[i].row) and trained.loss == whole[i].loss


def test_what_is_played_back_is_what_was_recorded_to_the_last_bit(fabric, jobs, monkeypatch):
    worker = Worker(fabric, Tiny(torch.optim.Adam), SEED)
    todo = jobs(worker, sizes=[37, 20, 16])
    first = Several(worker, 32, None).train(todo)
    monkeypatch.setattr(recorded, "PAYS", 0)
    played = Several(worker, 32, None)
    second = played.train(todo)
    assert played.stack._descent.recordings
    assert all(torch.equal(a.row, b.row) and a.loss == b.loss for a, b in zip(first, second, strict=True))


def test_methods_look_at_rows_one_by_one_and_proxies_are_scored_for_all(fabric, jobs, points, monkeypatch):
    worker = Worker(fabric, mlp(), SEED)
    proxy = points(torch.randn(300, *SHAPE), torch.randint(3, (300,)))
    worker.pin(proxy)

    def seen(asked, job, trained):
        return asked.loss_on(trained.row, proxy), asked.evaluate(trained.row, job.view), asked.layout is worker.layout

    todo = jobs(worker)
    one, many = [worker.train(job, seen) for job in todo], None
    calls, several = [], Several(worker, 32, None)
    score = several.stack.scores
    monkeypatch.setattr(several.stack, "scores", lambda *args: calls.append(1) or score(*args))
    many = several.train(todo, seen)
    assert len(calls) <= 3 * 3  # three pieces of the proxy set, for each of the groups of clients of one length
    for a, b in zip(one, many, strict=True):
        assert b.seen[0] == pytest.approx(a.seen[0], rel=1e-5) and b.seen[1] == pytest.approx(a.seen[1], rel=1e-5)
        assert b.seen[2]
