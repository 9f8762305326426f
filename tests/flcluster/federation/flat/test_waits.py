"""How often a client's update waits for the device: once, whatever is asked of it.

On this machine the device is the host, so what would wait is counted: values read (``aten::_local_scalar_dense``,
which ``item()``, ``float()`` and ``bool()`` come to), and calls that copy to the host.
"""

from dataclasses import replace

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile

from flcluster.algorithms import CDFL
from flcluster.federation import worker as workers
from flcluster.federation.flat import evaluating
from flcluster.federation.jobs import Job
from flcluster.federation.together import several
from flcluster.federation.worker import Worker

WAITS = {"item", "cpu", "tolist", "__float__", "__bool__", "__int__", "nonzero", "is_nonzero"}


class Counting(TorchFunctionMode):
    """Remembers calls that would wait for a device."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in WAITS:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("optimizer", [{}, {"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}])
def test_a_client_update_waits_once(federation, mlp, monkeypatch, optimizer):
    """With a test set, the losses it began with, a proximal term, a clip and the losses on all proxy sets."""
    fed = federation(module=mlp(**optimizer))
    shard, start, method = fed.data.shard(0), fed.init_rows(1)[0], CDFL()
    job = Job(0, start, shard.train, 2, 8, prox=0.1, test=shard.test, scores_start=True)
    fetches = []
    for module in (workers, evaluating):
        monkeypatch.setattr(
            module, "fetched", lambda found, real=module.fetched: fetches.append(len(found)) or real(found)
        )

    def observe(worker, job, trained):
        return method.observe(worker, trained.row, fed)

    fed.worker.train(job, observe)
    fetches.clear()
    with Counting() as counting, profile(activities=[ProfilerActivity.CPU]) as profiled:
        trained = fed.worker.train(job, observe)
    assert len(fetches) == 1 and counting.seen == []
    names = {event.name for event in profiled.events()}
    assert "aten::_local_scalar_dense" not in names
    assert not [name for name in names if name.startswith("Optimizer")]  # torch.optim's own way round a step
    assert trained.finite and trained.accuracy == fed.accuracy(trained.row, shard.test)
    assert (trained.start_loss, trained.start_square) == fed.worker.start_losses(start, shard.train)
    assert trained.seen.tolist() == [fed.worker.loss_on(trained.row, view) for view in fed.proxies]


@pytest.mark.parametrize("optimizer", [{}, {"momentum": 0.9}])
def test_clients_in_one_pass_wait_twice_in_all(federation, mlp, monkeypatch, optimizer):
    """Once for how training went, and once for what was looked at. (Adam's own counter of steps is on the host.)"""
    fed = federation(module=mlp(**optimizer))
    start, method, fetches = fed.init_rows(1)[0], CDFL(), []
    shards = [fed.shard(client) for client in range(4)]
    jobs = [Job(m, start, s.train, 2, 8, prox=0.1, test=s.test, scores_start=True) for m, s in enumerate(shards)]
    real = several.fetched
    monkeypatch.setattr(several, "fetched", lambda found: fetches.append(len(found)) or real(found))
    together = several.Several(fed.worker, 4, None)

    def observe(worker, job, trained):
        return method.observe(worker, trained.row, fed)

    together.train(jobs, observe)
    fetches.clear()
    with Counting() as counting, profile(activities=[ProfilerActivity.CPU]) as profiled:
        found = together.train(jobs, observe)
    groups = len({several.alike(job, job.view.tensors()) for job in jobs})
    assert counting.seen == ["cpu"] * groups and len(fetches) == groups
    assert "aten::_local_scalar_dense" not in {event.name for event in profiled.events()}
    for trained, shard in zip(found, shards, strict=True):
        assert trained.accuracy == fed.accuracy(trained.row, shard.test)
        assert trained.seen.tolist() == pytest.approx(
            [fed.worker.loss_on(trained.row, v) for v in fed.proxies], rel=1e-6
        )


def test_what_was_seen_of_a_row_that_is_not_finite_is_forgotten(fabric, mlp, points):
    view = points(torch.randn(20, 1, 2, 3), torch.randint(3, (20,)))
    worker = Worker(fabric, mlp(lr=1e30), 0)
    job = Job(0, worker.layout.snapshot(), view, 2, 10, test=view)
    trained = worker.train(job, lambda worker, job, trained: trained.row)
    assert not trained.finite and trained.seen is None and trained.accuracy != trained.accuracy
    assert worker.train(replace(job, lr_factor=1e-31), lambda *given: "seen").seen == "seen"


def test_a_parameter_without_a_gradient_feels_none(fabric, mlp, points):
    """A loss that does not see the body leaves it; with weight decay, which needs no gradient, it shrinks."""
    view = points(torch.randn(20, 1, 2, 3), torch.randint(3, (20,)))
    for decay, moves in ((0.0, False), (0.5, True)):
        worker = Worker(fabric, mlp(weight_decay=decay), 0)
        start = worker.layout.snapshot()
        worker.train(Job(0, start, view, 1, 10))  # leaves a gradient behind
        head = sum(p.numel() for p in worker.module.body.parameters())
        job = Job(0, start, view, 1, 10, objective=lambda worker, x, y: worker.module.head.weight.square().sum())
        row = worker.train(job).row
        assert torch.equal(row[:head], start[:head]) is not moves
        assert not torch.equal(row[head:], start[head:])
        if moves:
            torch.testing.assert_close(row[:head], start[:head] * (1 - 0.1 * decay) ** 2)
