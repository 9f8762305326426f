"""Who is trained in one pass: found out by a trial, and told."""

import pytest
import torch
from lightning import LightningModule
from lightning.fabric import Fabric
from torch import nn

from flcluster.data import View
from flcluster.federation.together.rule import CPU_WORK, Wish, why_one_by_one
from flcluster.federation.worker import Worker
from flcluster.modules import CNN, MLP

SHAPE = (1, 2, 3)


class Own(LightningModule):
    """A dense network that does something else besides."""

    def __init__(self, also=None, optimizer=torch.optim.SGD):
        super().__init__()
        self.flat, self.net, self.also = nn.Flatten(), nn.Linear(6, 3), also
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(()))
        self.made = lambda: optimizer(self.parameters(), lr=0.1)

    def forward(self, x):
        x = self.flat(x)
        return self.net(x) if self.also is None else self.also(self, x)

    def configure_optimizers(self):
        return self.made()


class Weighted(Own):
    """A mean that is not the mean of the samples' losses."""

    def loss(self, logits, y, reduction="mean"):
        losses = nn.functional.cross_entropy(logits, y, reduction="none")
        return {"none": losses, "sum": losses.sum(), "mean": losses.square().mean().sqrt()}[reduction]


def by_value(module, x):
    return module.net(x if float(x.mean()) > 0 else -x)


def over_the_batch(module, x):
    return module.net(x - x.mean(0))


def counting(module, x):
    module.count += 1
    return module.net(x)


def moving(module, x):
    module.mean.mul_(0.9).add_(0.1)
    return module.net(x)


def why(module, points, precision="32-true", clients=None, batch=16, n=9):
    worker = Worker(Fabric(accelerator="cpu", devices=1, precision=precision), module, 3)
    draw = torch.Generator().manual_seed(1)
    view = points(torch.randn(n, *SHAPE, generator=draw), torch.randint(3, (n,), generator=draw))
    before, state = worker.layout.snapshot(), torch.get_rng_state()
    told = why_one_by_one(worker, view, Wish(clients, batch=batch))
    assert torch.equal(worker.layout.row, before) and torch.equal(torch.get_rng_state(), state)
    assert all(not int(buffer) for name, buffer in worker.module.named_buffers() if name == "count")
    return told


@pytest.mark.parametrize("n", [1, 2, 9])
def test_a_plain_network_is_trained_in_one_pass(n, points):
    assert why(MLP(3, SHAPE, hidden=[4]), points, n=n) is None and why(Own(), points, n=n) is None


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda: Own(lambda module, x: module.net(nn.functional.dropout(x))), "draws random numbers"),
        (lambda: Own(by_value), "cannot be: RuntimeError"),
        (lambda: Own(over_the_batch), "is another one for several clients at once"),
        (lambda: Own(counting), "counts its batches"),
        (lambda: Own(moving), "for several clients at once"),
        (lambda: Weighted(), "is another one for several clients at once"),
        (lambda: Own(optimizer=torch.optim.LBFGS), "optimiser of Own"),
        (lambda: CNN(3, SHAPE, channels=(2,), kernel_size=1, hidden=3, batch_norm=True), "BatchNorm"),
        (lambda: CNN(3, SHAPE, channels=(2,), kernel_size=1, hidden=3), "convolutions"),
    ],
)
def test_what_is_trained_one_by_one_and_why(module, said, points):
    assert said in why(module(), points)


def test_what_was_asked_for_is_done_where_it_can_be(points):
    assert why(CNN(3, SHAPE, channels=(2,), kernel_size=1, hidden=3), points, clients=4) is None
    assert why(MLP(3, SHAPE, hidden=[4]), points, clients=1) == "engine.together is 1"


def test_large_steps_and_other_precisions(points):
    large = CPU_WORK // 43 + 1  # 6·4 + 4 + 4·3 + 3 = 43 parameters
    own = Own()
    assert "keep a CPU busy" in why(own, points, batch=CPU_WORK // 21 + 1)
    assert why(MLP(3, SHAPE, hidden=[4]), points, batch=large) is None  # one client at a time, its gradient written out
    assert why(MLP(3, SHAPE, hidden=[4]), points, batch=large, clients=2) is None
    assert why(MLP(3, SHAPE, hidden=[4]), points, precision="bf16-mixed") == "fabric.precision is bf16-mixed"


def test_without_samples_there_is_no_trial(points):
    worker = Worker(Fabric(accelerator="cpu", devices=1), MLP(3, SHAPE, hidden=[4]), 3)
    some = points(torch.randn(2, *SHAPE), torch.zeros(2, dtype=torch.int64))
    nobody = View(((some.parts[0][0], torch.arange(0)),))
    assert why_one_by_one(worker, nobody, Wish(None)) == "no client has samples to try it on"
