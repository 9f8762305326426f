"""What clients' models teach a generator, against K separate modules and autograd; synthetic samples as data."""

import copy
import io

import numpy as np
import pytest
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F

from flcluster.algorithms.generators.losses import class_weights
from flcluster.algorithms.generators.synthesis import Synthetic, sample_file, supervised
from flcluster.algorithms.personal.friends import friend_labels
from flcluster.modules import CNN, MLP, SemanticGenerator
from flcluster.seeds import rng, torch_seed

CLASSES, SHAPE = 4, (1, 8, 8)
COUNTS = torch.tensor([[30, 10, 0, 0], [0, 30, 0, 5], [10, 0, 0, 15]])
"""Who holds what: nobody holds class 2."""


class Fickle(LightningModule):
    """Behaves otherwise in training: dropout, and BatchNorm with running statistics."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Linear(6, CLASSES)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.head(self.dropout(torch.relu(self.norm(self.first(x.flatten(1))))))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


MODULES = {
    "softmax": lambda: MLP(CLASSES, SHAPE, hidden=()),
    "mlp": lambda: MLP(CLASSES, SHAPE, hidden=(6,)),
    "cnn": lambda: CNN(CLASSES, SHAPE, channels=(3, 4), kernel_size=3, padding=1, hidden=5),
    "fickle": Fickle,
}


@pytest.fixture(params=MODULES)
def taught(request, script, federate):
    """A federation, rows of three teachers that differ in all numbers, and the same teachers as modules."""
    fed = federate(script({1: {0: [0, 1, 2, 3]}}), module=MODULES[request.param]())
    draw = torch.Generator().manual_seed(3)
    rows = [0.5 * torch.randn(fed.layout.size, generator=draw).abs_() for _ in range(3)]
    for row in rows:  # variances must be positive, the rest not
        sign = 2 * torch.randint(2, (fed.layout.num_parameters,), generator=draw) - 1
        row[: len(sign)] *= sign
    return fed, rows, [separate(fed, row) for row in rows]


def separate(fed, row):
    """A module of its own, in evaluation mode, whose tensors are no views of the federation's row."""
    module = copy.deepcopy(fed.worker.module)
    module.load_state_dict(fed.layout.state_dict(row))
    return module.eval()


def by_hand(images, y, weights, modules):
    """(1/B) Σ_b Σ_k w_k^{y_b} CE(θ_k(x̂_b), y_b), sample by sample."""
    total = images.new_zeros(())
    for i, label in enumerate(y.tolist()):
        for k, module in enumerate(modules):
            total = total + weights[k, label] * F.cross_entropy(module(images[i : i + 1]), y[i : i + 1])
    return total / len(y)


def batch(seed=0, y=(0, 1, 2, 3, 0, 0, 1, 3, 2), grad=True):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(len(y), *SHAPE, generator=draw).requires_grad_(grad), torch.tensor(y)


# ---------------------------------------------------------------------------------------------------------------- L_cls


@pytest.mark.parametrize("seed", [0, 1])
def test_the_loss_and_its_gradient_are_those_of_separate_teachers(taught, seed):
    """Weights are shares of a class; the mean is over all samples, those that nobody can judge too."""
    fed, rows, modules = taught
    images, y = batch(seed)
    weights = class_weights(COUNTS)
    loss = supervised(images, y, weights, rows, fed)
    (gradient,) = torch.autograd.grad(loss, images)
    expected = by_hand(images, y, weights, modules)
    (expected_gradient,) = torch.autograd.grad(expected, images)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-7)
    assert gradient[y != 2].abs().amax((1, 2, 3)).min() > 0
    assert (gradient[y == 2] == 0).all()


def test_any_weights_will_do(taught):
    """Not only shares: negative ones would be senseless, but a teacher may count twice or hardly."""
    fed, rows, modules = taught
    images, y = batch(2)
    weights = torch.tensor([[2.0, 0.0, 0.3, 1.0], [1e-3, 0.0, 0.0, 1.0], [0.0, 5.0, 0.0, 0.25]])
    loss = supervised(images, y, weights, rows, fed)
    expected = by_hand(images, y, weights, modules)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(
        torch.autograd.grad(loss, images)[0], torch.autograd.grad(expected, images)[0], rtol=1e-4, atol=1e-7
    )


def test_the_gradient_goes_on_into_what_made_the_images(taught):
    """A linear generator: the gradient of its weights is that of one graph through everything, and scales with it."""
    fed, rows, modules = taught
    z, y = batch(3, y=(0, 1, 3, 1))
    weights, found = class_weights(COUNTS), []
    for loss_of in (lambda x: supervised(x, y, weights, rows, fed), lambda x: by_hand(x, y, weights, modules)):
        scale = torch.full((), 0.7, requires_grad=True)
        shift = torch.zeros(SHAPE, requires_grad=True)
        loss = 0.5 * loss_of(torch.tanh(scale * z.detach() + shift)) + scale**2
        found.append(torch.autograd.grad(loss, (scale, shift)))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-7)


def test_classes_that_no_teacher_holds_teach_nothing(taught):
    fed, rows, _ = taught
    images, y = batch(y=(2, 2, 2))
    loss = supervised(images, y, class_weights(COUNTS), rows, fed)
    loss.backward()
    assert loss.item() == 0
    assert (images.grad == 0).all()


def test_teachers_are_frozen(taught):
    """Neither rows nor the module's gradients change, and no statistics of BatchNorm, though it was left in training.

    Nothing random: the same again gives the same.
    """
    fed, rows, _ = taught
    before, buffers = [row.clone() for row in rows], {n: b.clone() for n, b in fed.worker.module.named_buffers()}
    fed.worker.module.train()
    fed.layout.grad.fill_(7.0)
    images, y = batch()
    losses = []
    for _ in range(2):
        loss = supervised(images, y, class_weights(COUNTS), rows, fed)
        loss.backward()
        losses.append(loss.item())
    assert all(torch.equal(row, old) for row, old in zip(rows, before, strict=True))
    assert (fed.layout.grad == 7).all()
    assert losses[0] == losses[1]
    for name, value in fed.worker.module.named_buffers():  # as the last teacher has them
        last = fed.layout.state_dict(rows[-1])[name]
        assert torch.equal(value, last if value.is_floating_point() else buffers[name])


def test_without_gradients_it_is_a_number(taught):
    fed, rows, modules = taught
    images, y = batch(grad=False)
    with torch.no_grad():
        expected = by_hand(images, y, class_weights(COUNTS), modules)
    assert supervised(images, y, class_weights(COUNTS), rows, fed).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_better_image_has_a_smaller_loss(taught):
    """Against an optimiser's idea of it: steps along the gradient on the images lower the loss."""
    fed, rows, _ = taught
    images, y = batch(5, y=(0, 1, 3, 0))
    steps, losses = torch.optim.SGD([images], lr=0.2), []
    for _ in range(15):
        loss = supervised(images, y, class_weights(COUNTS), rows, fed)
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


# -------------------------------------------------------------------------------------------------- samples to train on


@pytest.fixture
def generator():
    with torch_seed(0, "generator"):
        made = SemanticGenerator(
            F.normalize(torch.randn(CLASSES, 5)), (2, 8, 8), noise_dim=3, hidden=4, mean=(0.2, 0.6), std=(0.3, 0.1)
        )
        made.train()
        made(torch.randn(16, 3), torch.arange(16) % CLASSES)  # so that running statistics are not the first ones
    return made


def test_samples_are_drawn_once_and_the_same_for_the_same_draw(generator):
    labels = friend_labels(np.array([6, 0, 2, 1]), 5)
    sources = [Synthetic(generator, labels, rng(seed, "synthetic", 1)) for seed in (1, 1, 2)]
    first, again, other = (source.take(torch.arange(len(source)))[0] for source in sources)
    assert len(sources[0]) == len(labels) == 15
    assert torch.equal(first, again)
    assert not torch.isclose(first, other).all()
    assert torch.equal(first, sources[0].take(torch.arange(15))[0])


def test_samples_are_a_source_like_any_other(generator):
    """By index, in any order and also twice; a view of all of them; labels in the client's mix."""
    source = Synthetic(generator, friend_labels(np.array([6, 0, 2, 1]), 6), rng(0, "synthetic"))
    x, y = source.view().tensors()
    assert (x.shape, x.dtype, y.dtype) == ((18, 2, 8, 8), torch.float32, torch.int64)
    assert torch.bincount(y, minlength=4).tolist() == [12, 0, 4, 2]
    index = torch.tensor([17, 0, 0, 5])
    some, labels = source.take(index)
    assert torch.equal(some, x[index])
    assert torch.equal(labels, y[index])
    assert not x.requires_grad


def test_samples_are_what_classifiers_read(generator):
    """Pixels in [0, 1], less the mean, over the standard deviation; no two alike, though classes repeat."""
    x, _ = Synthetic(generator, torch.zeros(40, dtype=torch.int64), rng(0, "synthetic")).view().tensors()
    pixels = x * torch.tensor([0.3, 0.1]).view(2, 1, 1) + torch.tensor([0.2, 0.6]).view(2, 1, 1)
    assert pixels.min() >= -1e-6
    assert pixels.max() <= 1 + 1e-6
    assert len(torch.unique(x.flatten(1), dim=0)) == 40


def test_a_sample_does_not_depend_on_its_neighbours(generator):
    """More samples begin like fewer; and the generator is left as it was, its statistics too."""
    before = copy.deepcopy(generator.state_dict())
    y = torch.arange(1203) % CLASSES
    many = Synthetic(generator, y, rng(0, "synthetic")).view().tensors()[0]
    few = Synthetic(generator, y[:700], rng(0, "synthetic")).view().tensors()[0]
    torch.testing.assert_close(many[:500], few[:500], rtol=1e-5, atol=1e-6)
    assert generator.training
    for name, value in generator.state_dict().items():
        assert torch.equal(value, before[name])


def test_no_samples_at_all(generator):
    x, y = Synthetic(generator, torch.zeros(0, dtype=torch.int64), rng(0, "synthetic")).view().tensors()
    assert (len(x), len(y)) == (0, 0)


def test_the_file_of_samples(generator):
    """As many pixel images of every class, its name, and whether somebody taught it."""
    names = ("zero", "one", "Ankle boot", "é")
    seen = torch.tensor([True, False, True, True])
    content = sample_file(generator, names, seen, seed=4)
    assert content == sample_file(generator, names, seen, seed=4)
    found = np.load(io.BytesIO(content), allow_pickle=False)
    assert set(found.files) == {"images", "names", "seen"}
    images = found["images"]
    assert (images.dtype, images.shape[0], images.shape[2:]) == (np.uint8, 4, (2, 8, 8))
    assert images.shape[1] > 1
    assert images.min() < images.max()
    assert found["names"].tolist() == list(names)
    assert (found["seen"].dtype, found["seen"].tolist()) == (np.bool_, [True, False, True, True])
    other = np.load(io.BytesIO(sample_file(generator, names, seen, seed=5)))["images"]
    assert (other != images).any()


def test_the_files_images_are_the_generators_of_that_class():
    """A generator that knows nothing but the class: black, grey and white, whatever the noise."""

    class Shades(SemanticGenerator):
        def forward(self, z, y):
            return (y.float() - 1).view(-1, 1, 1, 1).expand(-1, *self.image_shape)

    shades = Shades(torch.eye(3), (1, 8, 8), noise_dim=2, hidden=2, mean=(0.3,), std=(0.2,))
    found = np.load(io.BytesIO(sample_file(shades, ("a", "b", "c"), torch.ones(3, dtype=torch.bool), 0)))["images"]
    assert (found[0] == 0).all()
    assert np.isin(found[1], (127, 128)).all()
    assert (found[2] == 255).all()
