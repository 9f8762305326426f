"""The papers' CNNs and MLPs: sizes by hand."""

import pytest
import torch
from torch import nn

from flcluster.modules import CNN, MLP


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def dense(model: CNN) -> nn.Linear:
    return next(m for m in model.body if isinstance(m, nn.Linear))


@pytest.mark.parametrize(
    ("shape", "kwargs", "flat"),
    [
        ((3, 32, 32), {}, 1600),  # AP-FL: 64 x 5 x 5
        ((1, 28, 28), {}, 1024),  # 64 x 4 x 4
        ((1, 28, 28), {"padding": 2}, 3136),  # 64 x 7 x 7
        ((1, 8, 8), {"kernel_size": 3, "padding": 1}, 256),  # 64 x 2 x 2
        ((1, 28, 20), {}, 512),  # 64 x 4 x 2
        ((1, 30, 30), {"channels": [4, 8, 16], "kernel_size": 3}, 64),  # 30 -> 14 -> 6 -> 2
    ],
)
def test_flatten(shape, kwargs, flat):
    model = CNN(10, shape, hidden=8, **kwargs)
    assert dense(model).in_features == flat
    assert model(torch.zeros(1, *shape)).shape == (1, 10)


def test_parameter_counts():
    cnn = (25 * 1 * 32 + 32) + (25 * 32 * 64 + 64) + (1024 * 512 + 512) + (512 * 10 + 10)
    assert count(CNN(10, (1, 28, 28))) == cnn == 582_026
    assert count(CNN(10, (1, 28, 28), batch_norm=True)) == cnn + 2 * (32 + 64)
    assert count(MLP(10, (1, 28, 28), hidden=[2048])) == 784 * 2048 + 2048 + 2048 * 10 + 10
    assert count(MLP(10, (1, 28, 28))) == 784 * 200 + 200 + 200 * 10 + 10


def test_order_of_a_block():
    plain = [type(m) for m in CNN(10, (1, 28, 28)).body]
    block = [nn.Conv2d, nn.ReLU, nn.MaxPool2d]
    tail = [nn.Flatten, nn.Linear, nn.ReLU]
    assert plain == [*block, *block, *tail]
    norm = [type(m) for m in CNN(10, (1, 28, 28), batch_norm=True).body]
    assert norm == [*block, nn.BatchNorm2d, *block, nn.BatchNorm2d, *tail]


def test_too_small_an_image():
    with pytest.raises(ValueError, match=r"input_shape: .*\(1, 8, 8\) are too small.*block 2 of 2"):
        CNN(10, (1, 8, 8))
    with pytest.raises(ValueError, match="block 1 of 2"):
        CNN(10, (1, 28, 4))


@pytest.mark.parametrize(
    ("argument", "value"), [("channels", [32, 0]), ("kernel_size", 0), ("padding", -1), ("hidden", 0)]
)
def test_wrong_arguments_are_named(argument, value):
    with pytest.raises(ValueError, match=argument):
        CNN(10, (1, 28, 28), **{argument: value})
