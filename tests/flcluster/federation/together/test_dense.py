"""Dense networks whose gradient is written out, against autograd's, and who is one."""

import pytest
import torch
from torch import nn

from flcluster.federation.jobs import Job
from flcluster.federation.layout import Layout
from flcluster.federation.together.dense import Dense, is_dense, stack_of
from flcluster.federation.together.several import Several
from flcluster.federation.together.stack import Stack
from flcluster.federation.worker import Worker
from flcluster.modules import CNN, MLP

SHAPE = (1, 2, 3)


class Other(MLP):
    def features(self, x):
        return super().features(x).tanh()


class Softer(MLP):
    def loss(self, logits, y, reduction="mean"):
        return super().loss(logits / 2, y, reduction)


@pytest.mark.parametrize("hidden", [[], [5], [7, 4]])
def test_gradients_and_scores_are_those_of_autograd(hidden):
    module = MLP(3, SHAPE, hidden=hidden)
    layout = Layout(module)
    rows = [layout.row + 0.1 * torch.randn(layout.size) for _ in range(4)]
    x, y = torch.randn(4, 6, *SHAPE), torch.randint(3, (4, 6))
    weights = torch.tensor([[1 / 6] * 6, [0.25] * 4 + [0.0] * 2, [1.0] + [0.0] * 5, [0.5] * 2 + [0.0] * 4])
    found = []
    for kind in (Stack, Dense):
        stack = kind(module, layout, module.loss)
        laid = stack.laid(rows, 4)
        gradients = torch.zeros_like(laid)
        losses, *given = stack.gradients(x, y, weights, stack.tensors(laid))
        for place, gradient in zip(stack.parts(gradients), given, strict=True):
            place.copy_(gradient)
        found.append((losses, stack.rows(gradients), stack.scores(x, y, stack.tensors(laid))))
        assert torch.equal(stack.rows(laid), torch.stack(rows))
        wide = stack.laid([row.double() for row in rows], 4)  # a method may average in double precision
        assert wide.dtype == laid.dtype and torch.equal(wide, laid)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one)
    assert torch.equal(stack.descend(x, y, weights, stack.tensors(laid), 0.5), losses)
    torch.testing.assert_close(laid, torch.stack(rows) - 0.5 * found[0][1])


def test_who_is_one():
    assert is_dense(MLP(3, SHAPE)) and is_dense(MLP(3, SHAPE, hidden=[]))
    changed = MLP(3, SHAPE)
    changed.body[1] = nn.Linear(6, 200, bias=False)
    wider = MLP(3, SHAPE)
    wider.scale = nn.Parameter(torch.ones(()))
    apart = [Other(3, SHAPE), Softer(3, SHAPE), CNN(3, (1, 16, 16)), nn.Linear(3, 3), changed, wider]
    assert not any(is_dense(module) for module in apart)
    assert type(stack_of(apart[0], Layout(apart[0]), apart[0].loss)) is Stack


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_bits_are_the_same_whoever_trains_beside(optimizer, fabric, points):
    """At widths whose products do not depend on where in memory they lie."""
    worker = Worker(fabric, MLP(4, (1, 4, 4), hidden=[16], optimizer=optimizer, lr=0.05), 0)
    sizes = [9, 20, 7, 20, 33]
    views = [points(torch.randn(n, 1, 4, 4), torch.randint(4, (n,))) for n in sizes]
    jobs = [Job(m, worker.layout.snapshot(), view, 2, 8, test=view) for m, view in enumerate(views)]
    together = Several(worker, 5, None).train(jobs)
    for job, beside in zip(jobs, together, strict=True):
        (alone,) = Several(worker, 5, None).train([job])
        assert torch.equal(alone.row, beside.row)
        assert (alone.loss, alone.accuracy) == (beside.loss, beside.accuracy)


def test_large_steps_are_taken_one_client_at_a_time(fabric, points, monkeypatch):
    worker = Worker(fabric, MLP(4, (1, 4, 4), hidden=[16]), 0)
    view = points(torch.randn(20, 1, 4, 4), torch.randint(4, (20,)))
    jobs = [Job(m, worker.layout.snapshot(), view, 1, 10) for m in range(3)]
    small, large = Several(worker, 3, None), Several(worker, 3, 100)
    groups = []
    monkeypatch.setattr(
        Several,
        "_trained",
        lambda self, some, *given, own=Several._trained: groups.append(len(some)) or own(self, some, *given),
    )
    for one, other in zip(small.train(jobs), large.train(jobs), strict=True):
        assert torch.equal(one.row, other.row)
    assert groups == [3, 1, 1, 1]
