"""ResNet-18, ShuffleNet v2 and ViT against torchvision's own networks and published sizes."""

import pytest
import torch
from torch import nn
from torchvision import models

from flcluster.modules import Classifier, ResNet18, ShuffleNetV2, ViT


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def same_output(model: Classifier, reference: nn.Module, head: str) -> None:
    """Give ``model`` the reference's weights, shaken so that no layer is trivial, and compare logits."""
    generator = torch.Generator().manual_seed(0)
    state = {
        key: value + 0.02 * torch.rand(value.shape, generator=generator) if value.is_floating_point() else value
        for key, value in reference.state_dict().items()
    }
    reference.load_state_dict(state)
    renamed = {
        key.replace(head, "head.") if key.startswith(head) else f"body.{key}": value for key, value in state.items()
    }
    model.load_state_dict(renamed)
    x = torch.randn(2, *model.input_shape, generator=generator)
    with torch.no_grad():
        logits, expected = model.eval()(x), reference.eval()(x)
    assert logits.std() > 0
    torch.testing.assert_close(logits, expected)


def test_resnet_is_torchvisions():
    same_output(ResNet18(7, (3, 64, 64), small_stem=False), models.resnet18(num_classes=7), "fc.")


@pytest.mark.parametrize("width", ["x0_5", "x1_0", "x1_5", "x2_0"])
def test_shufflenet_is_torchvisions(width):
    reference = getattr(models, f"shufflenet_v2_{width}")(num_classes=7)
    same_output(ShuffleNetV2(7, (3, 64, 64), width=width), reference, "fc.")


def test_vit_is_torchvisions():
    reference = models.VisionTransformer(32, 4, 6, 3, 192, 384, num_classes=7)
    same_output(ViT(7, (3, 32, 32)), reference, "heads.head.")


def test_published_sizes():
    assert count(ResNet18(100, (3, 32, 32))) == 11_220_132
    with torch.device("meta"):
        assert count(ResNet18(1000, (3, 224, 224), small_stem=False)) == 11_689_512
        assert count(ShuffleNetV2(1000, (3, 224, 224))) == 2_278_604
        assert count(ViT(1000, (3, 224, 224), variant="b_32")) == 88_224_232


def test_vit_b_16_without_memory():
    with torch.device("meta"):
        model = ViT(1000, (3, 224, 224), variant="b_16")
        assert count(model) == 86_567_656
        assert model(torch.empty(2, 3, 224, 224)).shape == (2, 1000)


def test_other_channels_change_the_stem_only():
    with torch.device("meta"):
        grey, colour = ResNet18(10, (1, 32, 32)), ResNet18(10, (3, 32, 32))
        assert count(colour) - count(grey) == 2 * 64 * 9
        grey, colour = ShuffleNetV2(10, (1, 32, 32)), ShuffleNetV2(10, (3, 32, 32))
        assert count(colour) - count(grey) == 2 * 24 * 9
        grey, colour = ViT(10, (1, 32, 32)), ViT(10, (3, 32, 32))
        assert count(colour) - count(grey) == 2 * 192 * 16


def test_small_stems_keep_the_resolution():
    x = torch.zeros(1, 3, 32, 32)
    resnet = ResNet18(10, (3, 32, 32)).body
    assert resnet.maxpool(resnet.conv1(x)).shape == (1, 64, 32, 32)
    shuffle = ShuffleNetV2(10, (3, 32, 32), small_stem=True).body
    assert shuffle.maxpool(shuffle.conv1(x)).shape == (1, 24, 32, 32)


def test_small_stem_is_initialised_like_torchvisions():
    torch.manual_seed(0)
    weight = ResNet18(10, (3, 8, 8)).body.conv1.weight
    assert weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)
    patches = ViT(10, (1, 8, 8), depth=1).body.conv_proj
    assert patches.weight.std().item() == pytest.approx(16**-0.5, rel=0.1)
    assert not patches.bias.any()


def test_vit_dropout():
    model = ViT(3, (1, 8, 8), dim=8, depth=1, heads=2, mlp_dim=8, dropout=0.5)
    rates = {m.p for m in model.modules() if isinstance(m, nn.Dropout)}
    assert 0.5 in rates
    x = torch.randn(2, 1, 8, 8)
    assert not torch.equal(model.features(x), model.features(x))
    model.eval()
    assert torch.equal(model.features(x), model.features(x))


@pytest.mark.parametrize(
    ("argument", "kwargs"),
    [
        ("input_shape", {"input_shape": (3, 30, 30)}),
        ("input_shape", {"input_shape": (3, 32, 16)}),
        ("input_shape", {"variant": "b_16", "input_shape": (3, 28, 28)}),
        ("variant", {"variant": "huge"}),
        ("heads", {"heads": 5}),
        ("depth", {"depth": 0}),
        ("patch_size", {"patch_size": 0}),
        ("dropout", {"dropout": 1.0}),
    ],
)
def test_vit_errors(argument, kwargs):
    with pytest.raises(ValueError, match=argument):
        ViT(**{"num_classes": 10, "input_shape": (3, 32, 32), **kwargs})


def test_shufflenet_errors():
    with pytest.raises(ValueError, match="width"):
        ShuffleNetV2(10, (3, 32, 32), width="x3_0")
