"""The arguments every model shares: optimisers, defaults, hyper-parameters, errors, the command line."""

import numpy as np
import pytest
import torch
from jsonargparse import ArgumentParser

from flcluster.modules import CNN, MLP, Classifier, ResNet18


@pytest.mark.parametrize(
    ("name", "expected"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_optimizer(name, expected):
    model = MLP(3, (1, 4, 4), optimizer=name, lr=0.25, momentum=0.5, weight_decay=0.125)
    optimizer = model.configure_optimizers()
    assert type(optimizer) is expected
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (0.25, 0.125)
    assert group.get("momentum", 0.5) == 0.5
    assert sum(p.numel() for p in group["params"]) == sum(p.numel() for p in model.parameters())


def test_paper_defaults():
    cnn, resnet = CNN(10, (1, 28, 28)), ResNet18(10, (3, 32, 32))
    assert [cnn.hparams[k] for k in ("optimizer", "lr", "weight_decay")] == ["adam", 0.01, 0.005]
    assert [resnet.hparams[k] for k in ("optimizer", "lr", "momentum", "weight_decay")] == ["sgd", 0.1, 0.9, 5e-4]


def test_hyper_parameters_are_primitives_whatever_the_data_hands_over():
    model = MLP(np.int64(3), torch.zeros(1, 4, 4).shape, hidden=np.array([7]))
    assert dict(model.hparams) == {
        "num_classes": 3,
        "input_shape": (1, 4, 4),
        "hidden": (7,),
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.0,
        "weight_decay": 0.0,
    }
    assert type(model.hparams["num_classes"]) is int
    assert type(model.hparams["input_shape"]) is tuple


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("num_classes", 1),
        ("num_classes", 2.5),
        ("input_shape", ()),
        ("input_shape", (0, 28, 28)),
        ("optimizer", "lbfgs"),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("momentum", 1.0),
        ("weight_decay", -0.1),
        ("hidden", [0]),
    ],
)
def test_wrong_arguments_are_named(argument, value):
    with pytest.raises(ValueError, match=argument):
        MLP(**{"num_classes": 3, "input_shape": (1, 4, 4), argument: value})


def test_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Classifier(2, (1, 4, 4))  # type: ignore[abstract]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its new name needs jsonargparse 4.49
def test_models_by_class_path():
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--model", type=Classifier)
    kwargs = {"num_classes": 4, "input_shape": [1, 8, 8], "channels": [4], "kernel_size": 3}
    config = parser.parse_object({"model": {"class_path": "flcluster.modules.CNN", "init_args": kwargs}})
    model = parser.instantiate_classes(config).model
    assert isinstance(model, CNN)
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 4)


def test_only_a_dense_network_takes_what_is_no_image():
    assert MLP(3, (7,), hidden=[4])(torch.zeros(2, 7)).shape == (2, 3)
    with pytest.raises(ValueError, match=r"expected \(channels, height, width\), got \(28, 28\)"):
        CNN(3, (28, 28))
