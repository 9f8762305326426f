"""Modules as rows, and optimisers on one flat parameter."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models.resnet import BasicBlock

from flcluster.federation.layout import Layout, all_finite
from flcluster.modules import CNN, MLP, ResNet18


def residual():
    """ResNet-18's parts in small: strided blocks, 1x1 shortcuts, convolutions without bias, BatchNorm."""
    shortcut = nn.Sequential(nn.Conv2d(6, 10, 1, 2, bias=False), nn.BatchNorm2d(10))
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        BasicBlock(6, 6),
        BasicBlock(6, 10, 2, shortcut),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(10, 4),
    )


BUILDERS = {
    "mlp": (lambda: MLP(4, (1, 3, 5), hidden=[7, 6]), (1, 3, 5)),
    "cnn": (lambda: CNN(4, (2, 12, 12), channels=(3, 5), kernel_size=3, hidden=9), (2, 12, 12)),
    "cnn_bn": (lambda: CNN(4, (2, 12, 12), channels=(3, 5), kernel_size=3, hidden=9, batch_norm=True), (2, 12, 12)),
    "residual": (lambda: residual(), (3, 8, 8)),
}


@pytest.fixture(params=BUILDERS)
def build(request):
    return BUILDERS[request.param]


def shaken(build, seed=0):
    """A module whose BatchNorm statistics differ from where they begin."""
    torch.manual_seed(seed)
    module, shape = build[0](), build[1]
    module.train()
    with torch.no_grad():
        for _ in range(2):
            module(3 * torch.randn(4, *shape) + 1)
    return module.eval()


def test_binding_does_not_change_the_module(build):
    module = shaken(build)
    before = copy.deepcopy(module)
    Layout(module)
    for (name, a), (_, b) in zip(before.state_dict().items(), module.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    x = torch.randn(3, *build[1])
    torch.testing.assert_close(module(x), before(x), rtol=1e-5, atol=1e-6)


def test_a_row_comes_back(build):
    layout = Layout(shaken(build))
    row = torch.randn(layout.size, generator=torch.Generator().manual_seed(1))
    layout.load(row)
    assert torch.equal(layout.snapshot(), row)


def test_a_snapshot_is_a_copy(build):
    layout = Layout(shaken(build))
    snapshot = layout.snapshot()
    kept = snapshot.clone()
    layout.load(torch.zeros(layout.size))
    assert torch.equal(snapshot, kept)


def test_the_module_is_the_row_that_was_loaded(build):
    """Two models through one bound module: each row gives its own model's outputs."""
    models = [shaken(build, seed) for seed in (1, 2)]
    rows = [Layout(copy.deepcopy(model)).row for model in models]
    bound = shaken(build, 3)
    layout = Layout(bound)
    x = torch.randn(3, *build[1])
    for i in (0, 1, 0):
        layout.load(rows[i])
        torch.testing.assert_close(bound(x), models[i](x), rtol=1e-5, atol=1e-6)


def test_a_state_dict_of_a_row_is_the_model(build):
    """Loaded into a fresh module, strictly, while the layout holds something else."""
    model = shaken(build, 1)
    row = Layout(copy.deepcopy(model)).snapshot()
    other = Layout(shaken(build, 2))
    held = other.snapshot()
    fresh = build[0]()
    fresh.load_state_dict(other.state_dict(row))
    for (name, a), (_, b) in zip(model.state_dict().items(), fresh.state_dict().items(), strict=True):
        if a.is_floating_point():
            assert torch.equal(a, b), name
            assert b.is_contiguous(), name
    x = torch.randn(3, *build[1])
    torch.testing.assert_close(fresh.eval()(x), model(x), rtol=0, atol=0)
    assert torch.equal(other.snapshot(), held)


def test_resnet18_through_a_row():
    builder = (lambda: ResNet18(4, (3, 8, 8)), (3, 8, 8))
    model = shaken(builder, 1)
    layout = Layout(copy.deepcopy(model))
    assert layout.num_parameters == sum(p.numel() for p in model.parameters())
    row = layout.snapshot()
    layout.load(torch.zeros_like(row))
    fresh = builder[0]()
    fresh.load_state_dict(layout.state_dict(row))
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(fresh.eval()(x), model(x), rtol=0, atol=0)
    layout.load(row)
    torch.testing.assert_close(layout.module.eval()(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_state_dict_does_not_alias_the_row(build):
    layout = Layout(shaken(build))
    row = layout.snapshot()
    state = layout.state_dict(row)
    for value in state.values():
        value.zero_()
    assert float(row.abs().sum()) > 0
    assert float(layout.row.abs().sum()) > 0


def test_parameters_come_first_and_integers_are_left_out(build):
    module = shaken(build)
    parameters = sum(p.numel() for p in module.parameters())
    floats = sum(b.numel() for b in module.buffers() if b.is_floating_point())
    counters = [b for b in module.buffers() if not b.is_floating_point()]
    layout = Layout(module)
    assert layout.num_parameters == parameters
    assert layout.size == parameters + floats == len(layout.row)
    assert layout.row_bytes == 4 * (parameters + floats)
    assert layout.has_batch_norm == bool(counters)
    layout.load(torch.cat([torch.full((parameters,), 2.0), torch.full((floats,), 3.0)]))
    assert all(bool((p == 2).all()) for p in module.parameters())
    assert all(bool((b == 3).all()) for b in module.buffers() if b.is_floating_point())
    assert all(int(b) == 2 for b in counters)  # two batches were seen; loading does not touch it


def test_averaging_rows_averages_every_tensor(build):
    """With BatchNorm statistics, by the same weights as the parameters."""
    a, b = shaken(build, 1), shaken(build, 2)
    row = 0.25 * Layout(copy.deepcopy(a)).row + 0.75 * Layout(copy.deepcopy(b)).row
    state = Layout(shaken(build, 3)).state_dict(row)
    for name, value in a.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(state[name], 0.25 * value + 0.75 * b.state_dict()[name], rtol=1e-6, atol=1e-7)


def test_convolution_weights_lie_in_channels_last_order():
    """What makes convolutions faster, for the weights and their gradients alike, while shapes stay."""
    module = BUILDERS["cnn"][0]()
    Layout(module)
    weight = module.body[3].weight
    assert weight.shape == (5, 3, 3, 3)
    for tensor in (weight, weight.grad):
        assert tensor.is_contiguous(memory_format=torch.channels_last)


def test_training_moves_buffers_inside_the_row():
    module = BUILDERS["cnn_bn"][0]()
    layout = Layout(module)
    before = layout.snapshot()
    module.train()
    with torch.no_grad():
        module(torch.randn(4, 2, 12, 12))
    changed = layout.row != before
    assert not changed[: layout.num_parameters].any()
    assert changed[layout.num_parameters :].all()


def test_tied_weights_have_one_place():
    """A row of a module whose two layers share a weight exports a state dict that loads as that row."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    module = Tied()
    layout = Layout(module)
    assert layout.size == 9 + 3 + 3
    row = torch.randn(layout.size, generator=torch.Generator().manual_seed(1))
    fresh = Tied()
    fresh.load_state_dict(layout.state_dict(row))
    layout.load(row)
    x = torch.ones(1, 3)
    assert torch.equal(fresh(x), module(x))


# ------------------------------------------------------------------------------------------------ flat optimisers

OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "sgd_momentum_wd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adam_wd_amsgrad": lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), weight_decay=0.005, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, eps=1e-6, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.05, lr_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "nadam": lambda p: torch.optim.NAdam(p, 0.01),
    "radam": lambda p: torch.optim.RAdam(p, 0.01),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_flat_optimiser_takes_the_same_steps(name):
    torch.manual_seed(0)
    module = MLP(3, (1, 2, 3), hidden=[5])
    ordinary = copy.deepcopy(module)
    layout = Layout(module)
    flat = layout.flat_optimizer(OPTIMISERS[name](module.parameters()))
    assert len(flat.param_groups[0]["params"]) == 1
    separate = OPTIMISERS[name](ordinary.parameters())
    start = layout.snapshot()
    for step in range(8):
        draw = torch.Generator().manual_seed(step)
        x, y = torch.randn(10, 1, 2, 3, generator=draw), torch.randint(3, (10,), generator=draw)
        separate.zero_grad()
        F.cross_entropy(ordinary(x), y).backward()
        separate.step()
        layout.grad.zero_()
        F.cross_entropy(module(x), y).backward()
        flat.step()
    expected = torch.cat([p.detach().flatten() for p in ordinary.parameters()])
    torch.testing.assert_close(layout.row, expected, rtol=1e-6, atol=1e-6)
    assert float((expected - start).abs().max()) > 1e-3  # it did move


def test_two_groups_are_left_alone():
    module = MLP(3, (1, 2, 3), hidden=[5])
    layout = Layout(module)
    groups = [{"params": module.body.parameters()}, {"params": module.head.parameters(), "lr": 1.0}]
    optimizer = torch.optim.SGD(groups, 0.1)
    assert layout.flat_optimizer(optimizer) is optimizer


def test_an_optimiser_of_some_parameters_is_left_alone():
    module = MLP(3, (1, 2, 3), hidden=[5])
    layout = Layout(module)
    optimizer = torch.optim.SGD(module.head.parameters(), 0.1)
    assert layout.flat_optimizer(optimizer) is optimizer


def test_an_unknown_optimiser_is_left_alone():
    """LBFGS looks at more than single numbers, and a subclass may do anything."""

    class Mine(torch.optim.SGD):
        pass

    module = MLP(3, (1, 2, 3), hidden=[5])
    layout = Layout(module)
    for optimizer in (torch.optim.LBFGS(module.parameters()), Mine(module.parameters(), 0.1)):
        assert layout.flat_optimizer(optimizer) is optimizer


def test_frozen_parameters_stay():
    """PyTorch skips parameters without a gradient: weight decay must not shrink a frozen layer."""
    module = MLP(3, (1, 2, 3), hidden=[5])
    module.body.requires_grad_(False)
    layout = Layout(module)
    optimizer = layout.flat_optimizer(torch.optim.SGD(module.parameters(), 0.1, weight_decay=0.5))
    frozen, head = module.body[1].weight.clone(), module.head.weight.clone()
    layout.grad.zero_()
    F.cross_entropy(module(torch.ones(4, 1, 2, 3)), torch.zeros(4, dtype=torch.int64)).backward()
    optimizer.step()
    assert torch.equal(module.body[1].weight, frozen)
    assert not torch.equal(module.head.weight, head)


@pytest.mark.parametrize(
    ("values", "finite"),
    [
        ([1.0, -2.0], True),
        ([1e19, 1e19], True),  # their squares add up to 2e38
        ([3e38, 3e38], False),  # their squares overflow
        ([float("inf"), float("-inf")], False),
        ([0.0, float("inf")], False),
        ([float("nan"), 1.0], False),
    ],
)
def test_all_finite(values, finite):
    assert all_finite(torch.tensor(values)) is finite


def test_what_does_not_train_has_no_gradient_whatever_stood_there():
    """A proximal pull, say, is added to the whole row of gradients."""
    module = nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    layout = Layout(module)
    layout.grad.fill_(7)
    layout.lay([torch.ones(1, 2)])
    assert layout.grad.tolist() == [1, 1, 0]
    layout.grad.fill_(7)
    layout.lay([None])
    assert layout.grad.tolist() == [0, 0, 0]
