"""FedGen's generator of features: sizes and one forward pass by hand, and its noise."""

import pytest
import torch
from torch import nn

from flcluster.modules import LatentGenerator
from flcluster.seeds import torch_seed


def made(*args, **kwargs):
    with torch_seed(0, "generator"):
        return LatentGenerator(*args, **kwargs)


def test_layers_and_parameter_counts_of_the_default():
    generator = made(10, 512)
    assert [type(layer) for layer in generator.body] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    count = sum(p.numel() for p in generator.parameters())
    assert count == (32 + 10) * 256 + 256 + 2 * 256 + 256 * 512 + 512
    assert generator(generator.noise(6), torch.tensor([0, 9, 3, 3, 1, 0])).shape == (6, 512)


def test_a_forward_pass_by_hand():
    """Noise first, then the one-hot class; BatchNorm by its running values when it does not learn."""
    generator = made(3, 4, noise_dim=2, hidden=5).eval()
    first, norm, _, last = generator.body
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    noise, y = torch.tensor([[0.1, 0.7], [0.9, 0.3]]), torch.tensor([2, 0])
    for eps, label, found in zip(noise, y.tolist(), generator(noise, y), strict=True):
        hidden = first.weight[:, :2] @ eps + first.weight[:, 2 + label] + first.bias
        hidden = (hidden - norm.running_mean) / (norm.running_var + 1e-5).sqrt() * norm.weight + norm.bias
        expected = last.weight @ hidden.clamp(min=0) + last.bias
        torch.testing.assert_close(found, expected)


def test_noise_is_uniform_and_seeded():
    generator = made(3, 4, noise_dim=100)
    with torch_seed(1, "noise"):
        noise = generator.noise(200)
    assert noise.shape == (200, 100) and noise.dtype == torch.float32
    assert 0 <= noise.min() < 0.001 and 0.999 < noise.max() < 1
    assert noise.mean().item() == pytest.approx(0.5, abs=4 * (1 / 12) ** 0.5 / 20_000**0.5)
    assert noise.var().item() == pytest.approx(1 / 12, abs=0.003)
    with torch_seed(1, "noise"):
        assert torch.equal(noise, generator.noise(200))
    assert not torch.equal(noise, generator.noise(200))


def test_classes_differ():
    generator = made(3, 4).eval()
    noise = generator.noise(1).expand(3, -1)
    rows = generator(noise, torch.arange(3))
    assert len(rows.unique(dim=0)) == 3


@pytest.mark.parametrize("argument", ["num_classes", "latent_dim", "noise_dim", "hidden"])
def test_wrong_arguments_are_named(argument):
    with pytest.raises(ValueError, match=argument):
        LatentGenerator(**{"num_classes": 3, "latent_dim": 4, argument: 0})
