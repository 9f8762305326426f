"""Steps on a flat row against torch.optim's, bit for bit."""

import copy

import pytest
import torch

from flcluster.federation.flat.stepping import AdamSteps, SGDSteps, Steps, steps_of
from flcluster.federation.layout import Layout

KINDS = {
    "plain": (SGDSteps, lambda p: torch.optim.SGD(p, 0.1)),
    "decay": (SGDSteps, lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01)),
    "momentum": (SGDSteps, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01)),
    "nesterov": (SGDSteps, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True)),
    "adam": (AdamSteps, lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)),
    "adamw": (AdamSteps, lambda p: torch.optim.AdamW(p, 0.01)),
    "amsgrad": (Steps, lambda p: torch.optim.Adam(p, 0.01, amsgrad=True)),
    "maximize": (Steps, lambda p: torch.optim.SGD(p, 0.1, maximize=True)),
    "rmsprop": (Steps, lambda p: torch.optim.RMSprop(p, 0.01)),
}


@pytest.mark.parametrize("name", KINDS)
def test_steps_are_torchs_and_begin_anew(name, mlp):
    """Seven steps, a learning rate that changes in between, twice: the second time nothing is left of the first."""
    kind, make = KINDS[name]
    torch.manual_seed(0)
    ordinary = mlp()
    layout = Layout(copy.deepcopy(ordinary))
    first, gradients = layout.snapshot(), torch.randn(7, layout.num_parameters)
    steps = steps_of(layout.flat_optimizer(make(layout.module.parameters())), layout)
    assert type(steps) is kind
    flat = torch.nn.Parameter(first[: layout.num_parameters].clone())
    optimizer = make([flat])
    for n, gradient in enumerate(gradients):
        optimizer.param_groups[0]["lr"] = 0.05 if n == 3 else 0.02
        flat.grad = gradient.clone()
        optimizer.step()
    for _ in range(2):
        layout.load(first)
        steps.begin()
        for n, gradient in enumerate(gradients):
            steps.group["lr"] = 0.05 if n == 3 else 0.02
            layout.grad.copy_(gradient)
            steps.take()
        assert torch.equal(layout.row[: layout.num_parameters], flat.detach())


def test_only_plain_sgd_adds_gradients_directly(mlp):
    def direct(name):
        layout = Layout(mlp())
        return steps_of(layout.flat_optimizer(KINDS[name][1](layout.module.parameters())), layout).direct

    assert [name for name in KINDS if direct(name)] == ["plain"]


def test_an_optimiser_of_several_groups_steps_by_itself(mlp):
    layout = Layout(mlp())
    groups = [{"params": [p]} for p in layout.module.parameters()]
    assert type(steps_of(layout.flat_optimizer(torch.optim.SGD(groups, 0.1)), layout)) is Steps
