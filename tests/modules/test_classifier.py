"""What holds for every model: shapes, features and head, state, gradients, flat rows, checkpoints."""

import random

import lightning
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from flcluster.modules import CNN, MLP, Classifier, ResNet18, ShuffleNetV2, ViT

TINY_VIT = {"dim": 24, "depth": 2, "heads": 3, "mlp_dim": 32}
MODELS = {
    "mlp": (MLP, (1, 8, 8), {"hidden": [12]}),
    "mlp_deep": (MLP, (3, 4, 6), {"hidden": [12, 9]}),
    "mlp_linear": (MLP, (1, 4, 4), {"hidden": []}),
    "cnn": (CNN, (1, 28, 28), {"hidden": 16}),
    "cnn_bn": (CNN, (3, 32, 32), {"hidden": 16, "batch_norm": True, "optimizer": "sgd"}),
    "cnn_digits": (CNN, (1, 8, 8), {"kernel_size": 3, "padding": 1, "hidden": 16}),
    "resnet": (ResNet18, (3, 16, 16), {}),
    "resnet_grey": (ResNet18, (1, 8, 8), {}),
    "resnet_large": (ResNet18, (2, 40, 40), {"small_stem": False}),
    "shufflenet": (ShuffleNetV2, (3, 64, 64), {}),
    "shufflenet_small": (ShuffleNetV2, (1, 16, 16), {"width": "x0_5", "small_stem": True}),
    "shufflenet_x1_5": (ShuffleNetV2, (4, 32, 32), {"width": "x1_5"}),
    "vit": (ViT, (3, 32, 32), {}),
    "vit_grey": (ViT, (1, 8, 8), TINY_VIT),
    "vit_patch": (ViT, (3, 32, 32), {"variant": "b_32", "patch_size": 16, **TINY_VIT}),
}
ONE_EACH = ["mlp", "cnn_bn", "resnet", "shufflenet_small", "vit_grey"]


def build(name: str) -> Classifier:
    cls, shape, kwargs = MODELS[name]
    torch.manual_seed(0)
    model = cls(num_classes=5, input_shape=shape, **kwargs)
    with torch.no_grad():  # ViT's head begins at zero
        model.head.weight.normal_(std=0.1)
    return model


def batch(model: Classifier, size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(size, *model.input_shape, generator=generator), torch.arange(size) % model.num_classes


@pytest.mark.parametrize("name", MODELS)
def test_forward_is_head_of_features_and_trains_every_parameter(name):
    model = build(name)
    x, y = batch(model)
    model.eval()
    with torch.no_grad():
        logits, features = model(x), model.features(x)
    assert logits.shape == (3, 5)
    assert features.shape == (3, model.head.in_features)
    assert torch.equal(model.head(features), logits)
    model.train()
    model.loss(model(x), y).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", ONE_EACH)
def test_state_is_the_model_alone_even_after_metrics_ran(name):
    model = build(name)
    x, y = batch(model)
    for metric in (model.train_acc, model.val_acc, model.test_acc):
        metric.update(model(x), y)
    owners = {key.split(".")[0] for key in model.state_dict()}
    assert owners <= {"body", "head"}
    assert {key.split(".")[0] for key, _ in model.named_buffers()} <= {"body"}
    assert not [key for key, _ in model.named_parameters() if "acc" in key]


def test_models_without_norm_have_no_buffers():
    assert all(not list(build(name).buffers()) for name in ("mlp", "cnn", "vit_grey"))


@pytest.mark.parametrize("name", ONE_EACH)
def test_construction_uses_torch_global_rng_only(name):
    random_state, numpy_state = random.getstate(), np.random.get_state()[1].copy()
    first, second = build(name), build(name)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert random.getstate() == random_state
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def flatten(model: Classifier) -> torch.Tensor:
    """Re-point every parameter at a slice of one row, convolutions in channels_last order, as the engine does."""
    parameters = list(model.parameters())
    row = torch.empty(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
    for p, piece in zip(parameters, row.split([p.numel() for p in parameters]), strict=True):
        if p.dim() == 4:
            o, i, h, w = p.shape
            view = piece.view(o, h, w, i).permute(0, 3, 1, 2)
        else:
            view = piece.view(p.shape)
        p.data = view.copy_(p.data)
    return row


@pytest.mark.parametrize("name", ONE_EACH)
def test_parameters_may_be_views_of_one_row(name):
    """In double precision: BatchNorm on four samples carries float32 rounding of the layouts to 1 % of a gradient."""
    plain, flat = build(name).double(), build(name).double()
    row = flatten(flat)
    before = row.clone()
    x, y = batch(plain, 4)
    x = x.double()
    for model, images in ((plain, x), (flat, x.to(memory_format=torch.channels_last))):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.loss(model(images), y).backward()
        optimizer.step()
    for a, b in zip(plain.parameters(), flat.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    assert not torch.equal(row, before), "the step must be seen in the row"


def test_loss_is_cross_entropy_with_any_reduction():
    model = build("mlp")
    x, y = batch(model)
    logits = model(x)
    each = -logits.log_softmax(1)[torch.arange(3), y]
    torch.testing.assert_close(model.loss(logits, y, reduction="none"), each)
    torch.testing.assert_close(model.loss(logits, y, reduction="sum"), each.sum())
    torch.testing.assert_close(model.loss(logits, y), F.cross_entropy(logits, y))


@pytest.mark.parametrize("name", ONE_EACH)
def test_load_from_checkpoint(name, tmp_path):
    model = build(name).eval()
    path = tmp_path / "model.ckpt"
    state = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams)}
    torch.save({**state, "pytorch-lightning_version": lightning.__version__}, path)
    loaded = type(model).load_from_checkpoint(path, map_location="cpu", weights_only=True).eval()
    x, _ = batch(model)
    assert torch.equal(loaded(x), model(x))
    assert loaded.hparams == model.hparams


def test_wrong_images_are_named():
    with pytest.raises(ValueError, match=r"x: expected shape .*1, 8, 8.* got \(2, 1, 8, 9\)"):
        build("mlp")(torch.zeros(2, 1, 8, 9))
