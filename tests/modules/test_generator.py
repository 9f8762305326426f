"""The semantic generator: sizes by hand, images of every shape, and that it learns from a teacher."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from flcluster.modules import SemanticGenerator
from flcluster.seeds import rng, torch_seed


def made(shape=(1, 8, 8), classes=3, **kwargs):
    with torch_seed(0, "generator"):
        return SemanticGenerator(F.normalize(torch.randn(classes, 5)), shape, **kwargs)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 84, 84), (1, 30, 17), (2, 1, 1)])
def test_images_of_any_shape_within_tanh(shape):
    generator = made(shape, hidden=8)
    images = generator(generator.noise(4, rng(0, "noise")), torch.tensor([0, 1, 2, 1]))
    assert images.shape == (4, *shape)
    assert images.abs().max() <= 1


def test_layers_and_parameter_counts_of_the_default():
    generator = SemanticGenerator(torch.eye(10, 384), (3, 32, 32))
    kinds = [nn.Linear, nn.Unflatten, nn.BatchNorm2d]
    kinds += [nn.Upsample, nn.Conv2d, nn.BatchNorm2d, nn.LeakyReLU] * 2
    assert [type(layer) for layer in generator.body] == [*kinds, nn.Conv2d, nn.Tanh]
    project, dense = 384 * 100 + 100, (20 + 100) * 128 * 64 + 128 * 64
    first, second, last = 128 * 128 * 9 + 128, 128 * 64 * 9 + 64, 64 * 3 * 9 + 3
    norms = 2 * (128 + 128 + 64)
    count = sum(p.numel() for p in generator.parameters())
    assert count == project + dense + first + second + last + norms
    assert generator.body[1].unflattened_size == (128, 8, 8)


@pytest.mark.parametrize(("size", "grid"), [(32, 8), (28, 7), (8, 2), (30, 8)])
def test_the_grid_begins_at_a_quarter(size, grid):
    assert made((1, size, size), hidden=2).body[1].unflattened_size == (2, grid, grid)


def test_vectors_are_kept_but_not_trained():
    generator = made()
    assert "semantics" in generator.state_dict()
    assert "semantics" not in dict(generator.named_parameters())
    other = SemanticGenerator(torch.zeros(3, 5), (1, 8, 8))
    other.load_state_dict(generator.state_dict())
    assert torch.equal(other.semantics, generator.semantics)


def test_a_class_is_seen_through_its_vector_alone():
    """Two classes of one vector look the same from the same noise; another vector looks different."""
    vector = F.normalize(torch.randn(1, 5, generator=torch.Generator().manual_seed(1)))
    generator = SemanticGenerator(torch.cat([vector, vector, -vector]), (1, 8, 8)).eval()
    z = generator.noise(1, rng(0, "noise")).expand(3, -1)
    same, again, other = generator(z, torch.arange(3))
    assert torch.allclose(same, again, atol=1e-6) and not torch.allclose(same, other, atol=1e-2)


def test_the_class_weighs_as_much_as_the_noise_at_the_start():
    generator = SemanticGenerator(
        F.normalize(torch.randn(200, 384, generator=torch.Generator().manual_seed(0))), (1, 8, 8)
    )
    projected = generator.project(generator.semantics)
    assert projected.std().item() == pytest.approx(1, abs=0.05)


def test_samples_depend_on_the_draw_alone():
    """Not on torch's global state, on the mode, or on the images that are drawn beside them."""
    generator, y = made(), torch.tensor([0, 1, 2, 2])
    first = generator.sample(y, rng(3, "synthetic"))
    assert generator.training and not first.requires_grad
    torch.randn(5)
    assert torch.equal(first, generator.sample(y, rng(3, "synthetic")))
    assert torch.allclose(first[:1], generator.sample(y[:1], rng(3, "synthetic")), atol=1e-6)
    assert not torch.allclose(first, generator.sample(y, rng(4, "synthetic")), atol=1e-3)
    generator.eval()
    generator.sample(y, rng(3, "synthetic"))
    assert not generator.training


def test_noise_is_standard_gaussian():
    noise = made(noise_dim=100).noise(200, np.random.default_rng(0))
    assert noise.shape == (200, 100) and noise.dtype == torch.float32
    assert abs(noise.mean().item()) < 4 / np.sqrt(20_000)
    assert noise.std().item() == pytest.approx(1, abs=0.03)


def test_normalised_as_the_data_is():
    """Black (-1) and white (1) become (0 - mean) / std and (1 - mean) / std; by default they stay."""
    generator = made((2, 1, 1), hidden=2, mean=(0.25, 0.5), std=(0.5, 0.1))
    corners = torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1).expand(2, 2, 1, 1)
    found = generator.normalised(corners).flatten(1)
    assert torch.allclose(found, torch.tensor([[-0.5, -5.0], [1.5, 5.0]]))
    assert torch.allclose(made((2, 1, 1)).normalised(corners), corners)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("semantics", torch.zeros(3)),
        ("semantics", torch.zeros(0, 4)),
        ("image_shape", (8, 8)),
        ("image_shape", (1, 0, 8)),
        ("noise_dim", 0),
        ("project_dim", 0),
        ("hidden", 1),
        ("mean", (0.5, 0.5)),
        ("std", (0.0,)),
    ],
)
def test_wrong_arguments_are_named(argument, value):
    arguments = {"semantics": torch.zeros(3, 4), "image_shape": (1, 8, 8), argument: value}
    with pytest.raises(ValueError, match=argument):
        SemanticGenerator(**arguments)


def test_it_learns_what_a_teacher_takes_for_each_class():
    """A fixed random linear teacher of 4 classes; unseen by it before, 30 steps later it names nearly all samples."""
    with torch_seed(1, "teacher"):
        teacher = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
        generator = SemanticGenerator(torch.eye(4), (1, 8, 8), noise_dim=4, hidden=16)
    optimizer, draw, y = torch.optim.Adam(generator.parameters(), 2e-3), rng(0, "noise"), torch.arange(4).repeat(8)
    asked = torch.arange(4).repeat(25)
    before = (teacher(generator.sample(asked, rng(1, "test"))).argmax(1) == asked).float().mean()
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(teacher(generator.normalised(generator(generator.noise(32, draw), y))), y).backward()
        optimizer.step()
    after = (teacher(generator.sample(asked, rng(1, "test"))).argmax(1) == asked).float().mean()
    assert before < 0.6 and after > 0.9
