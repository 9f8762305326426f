"""What clients tell of their data, against plain PyTorch on a copy of the module and counts by hand."""

import copy

import numpy as np
import pytest
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F

from flcluster.algorithms.drift.representations import Gradient, InputEmbedding, LabelHistogram, places, projection
from flcluster.clustering.points import shares, unit
from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.flat.evaluating import EVAL_BATCH
from flcluster.federation.layout import Layout
from flcluster.federation.worker import Worker
from flcluster.modules import CNN

SEED = 11


def cnn():
    return CNN(3, (1, 8, 8), channels=(3, 4), kernel_size=3, padding=1, hidden=12, batch_norm=True, optimizer="sgd")


def images(points, n, seed=0, parts=1):
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=draw)
    return points(torch.randn(n, 1, 8, 8, generator=draw) + y.view(-1, 1, 1, 1), y, parts)


def settled(module, view):
    """Give BatchNorm statistics that differ from its first ones, so that train and evaluation mode differ."""
    module.train()
    with torch.no_grad():
        for _ in range(3):
            module(view.tensors()[0])
    return module.eval()


# ---------------------------------------------------------------------------------------------------------- histograms


def test_shares():
    """Counts over their sum; a client without samples has none."""
    found = shares(np.array([[1, 3, 0], [0, 0, 0], [5, 5, 10]]))
    assert found.dtype == np.float32
    assert found.tolist() == [[0.25, 0.75, 0], [0, 0, 0], [0.25, 0.25, 0.5]]


def test_unit():
    found = unit(np.array([[3, 4], [0, 0], [-2, 0]], dtype=np.float32))
    assert found.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0], [-1, 0]]


def test_label_histogram(federation, blobs):
    """The share of each label among the training samples of the round, client by client."""
    data = blobs(num_clients=7)
    fed = federation(data)
    histogram = LabelHistogram()
    assert histogram.shared_model(fed) is None
    assert histogram.passes == 0
    for t in (0, 3):
        found = histogram.of(np.array([1, 4, 6]), t, None, fed)
        for row, client in zip(found, (1, 4, 6), strict=True):
            y = data.shard(client, t).train.tensors()[1].tolist()
            assert row.tolist() == pytest.approx([y.count(c) / len(y) for c in range(3)], abs=1e-6)


# ---------------------------------------------------------------------------------------------------------- embeddings


def test_features_are_what_the_head_reads(fabric, points):
    """In evaluation mode, over several parts and more than one batch, in the view's order."""
    view = images(points, EVAL_BATCH + 30, parts=2)
    module = settled(cnn(), view)
    ordinary = copy.deepcopy(module)
    seen = []
    ordinary.head.register_forward_hook(lambda layer, inputs, output: seen.append(inputs[0]))
    with torch.no_grad():
        ordinary(view.tensors()[0])
    worker = Worker(fabric, module, SEED)
    row = worker.layout.snapshot()
    worker.module.train()
    worker.layout.load(row * 0)
    torch.testing.assert_close(worker.features(row, view), seen[0], rtol=1e-4, atol=1e-5)


def test_embedding_is_the_mean_feature_at_length_one(federation, blobs, mlp, plain):
    fed = federation(blobs(), seed=SEED)
    embedding = InputEmbedding(epochs=0)
    shared = embedding.shared_model(fed)
    model = plain.first_model(SEED, mlp)
    torch.testing.assert_close(shared, plain.vector(model))
    clients = np.array([0, 3, 5])
    found = embedding.of(clients, 2, shared, fed)
    assert found.shape == (3, 8)
    for row, client in zip(found, clients.tolist(), strict=True):
        with torch.no_grad():
            mean = model.body(fed.data.shard(client, 2).train.tensors()[0]).mean(0)
        assert np.linalg.norm(row) == pytest.approx(1, rel=1e-5)
        np.testing.assert_allclose(row, (mean / mean.norm()).numpy(), rtol=1e-4, atol=1e-5)
    assert embedding.passes == 1


def test_the_shared_model_is_trained_on_the_servers_proxy_set(federation, blobs, mlp, plain):
    """All clusters' proxies together, from the first initialisation, for so many epochs."""
    data = blobs()
    fed = federation(data, seed=SEED)
    shared = InputEmbedding(epochs=3, batch_size=20).shared_model(fed)
    start = plain.first_model(SEED, mlp)
    x, y = (torch.cat(t) for t in zip(*(data.proxy(k).tensors() for k in range(3)), strict=True))
    with torch.no_grad():
        before = F.cross_entropy(start(x), y)
        fed.layout.load(shared)
        after = F.cross_entropy(fed.worker.module.eval()(x), y)
    assert float(after) < 0.8 * float(before)
    union = View(tuple(part for k in range(3) for part in data.proxy(k).parts))
    expected, _ = plain.train(
        start,
        lambda m: m.configure_optimizers(),
        union,
        seed=SEED,
        client=0,
        epochs=3,
        batch=20,
        purpose="shared model",
    )
    torch.testing.assert_close(shared, plain.vector(expected), rtol=1e-5, atol=1e-5)
    assert torch.equal(shared, InputEmbedding(epochs=3, batch_size=20).shared_model(fed))


def test_a_shared_model_needs_a_proxy_set(federation, blobs, points):
    data = blobs()
    data.proxy = lambda cluster: points(torch.zeros(0, 1, 2, 3), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(UserError, match="proxy_per_class"):
        Gradient(epochs=1).shared_model(federation(data))


def test_a_module_without_features_says_so(fabric, points):
    class Plain(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(6, 3))

        def forward(self, x):
            return self.net(x)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    worker = Worker(fabric, Plain(), SEED)
    with pytest.raises(UserError, match=r"Plain has no method features"):
        worker.features(worker.layout.snapshot(), points(torch.zeros(2, 1, 2, 3), torch.zeros(2, dtype=torch.int64)))


# ----------------------------------------------------------------------------------------------------------- gradients


def autograd(module, view):
    """The gradient of the mean loss of all samples in one batch, by parameter, in evaluation mode."""
    module = copy.deepcopy(module).eval()
    x, y = view.tensors()
    F.cross_entropy(module(x), y).backward()
    return {name: p.grad for name, p in module.named_parameters()}


def test_gradient_of_the_mean_loss(fabric, points):
    """Several parts of unequal size, more than one batch: still the mean over samples; BatchNorm in evaluation mode."""
    view = images(points, EVAL_BATCH + 41, parts=3)
    module = settled(cnn(), view)
    expected = autograd(module, view)
    worker = Worker(fabric, module, SEED)
    row = worker.layout.snapshot()
    worker.module.train()
    worker.layout.load(row * 0)
    found = worker.gradient(row, view)
    assert found.shape == (worker.layout.num_parameters,)
    for entry in worker.layout.entries:
        if entry.name in expected:
            torch.testing.assert_close(entry.view(found), expected[entry.name], rtol=1e-4, atol=1e-6, msg=entry.name)
    again = worker.gradient(row, view)
    assert torch.equal(again, found)  # nothing is added up
    assert torch.equal(worker.layout.snapshot(), row)


@pytest.mark.parametrize("layer", ["head", "body.1", None])
def test_gradient_representation_is_the_layers_part_at_length_one(layer, federation, blobs, mlp, plain):
    fed = federation(blobs(), seed=SEED)
    representation = Gradient(epochs=0, layer=layer, dimensions=None)
    shared = representation.shared_model(fed)
    model = plain.first_model(SEED, mlp)
    found = representation.of(np.array([1, 2]), 0, shared, fed)
    for row, client in zip(found, (1, 2), strict=True):
        grads = autograd(model, fed.data.shard(client, 0).train)
        expected = torch.cat([g.flatten() for name, g in grads.items() if name.startswith(layer or "")])
        np.testing.assert_allclose(row, (expected / expected.norm()).numpy(), rtol=1e-3, atol=1e-5)
    width = {"head": 8 * 3 + 3, "body.1": 6 * 8 + 8, None: 6 * 8 + 8 + 8 * 3 + 3}[layer]
    assert found.shape == (2, width)
    assert representation.passes == 3
    assert Gradient().layer == "head"
    assert Gradient().dimensions == 256


def test_places_leave_buffers_out():
    layout = Layout(cnn())
    everything = places(layout, None)
    assert everything.tolist() == list(range(layout.num_parameters))
    assert places(layout, "head").tolist() == list(range(layout.num_parameters - 12 * 3 - 3, layout.num_parameters))
    with pytest.raises(UserError, match="'tail'"):
        places(layout, "tail")


def test_projection_is_one_signed_place_for_each_coordinate():
    bucket, sign = projection(1000, 16, 3)
    assert bucket.shape == sign.shape == (1000,)
    assert set(bucket.tolist()) == set(range(16))
    assert set(sign.tolist()) == {-1.0, 1.0}
    again, other = projection(1000, 16, 3), projection(1000, 16, 4)
    assert torch.equal(again[0], bucket) and torch.equal(again[1], sign)
    assert not torch.equal(other[0], bucket)


def test_projection_keeps_inner_products_on_average():
    """Over 400 projections of 200 numbers to 16: unbiased, standard error about |x|·|y|/√16/√400 = .0125·|x|·|y|."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 200, generator=draw)
    y = y + 0.5 * x
    products, squares = [], []
    for seed in range(400):
        bucket, sign = projection(200, 16, seed)
        px, py = (torch.zeros(16).index_add_(0, bucket, v * sign) for v in (x, y))
        products.append(float(px @ py))
        squares.append(float(px @ px))
    size = float(x.norm() * y.norm())
    assert np.mean(products) == pytest.approx(float(x @ y), abs=0.06 * size)
    assert np.mean(squares) == pytest.approx(float(x @ x), rel=0.06)


def test_gradient_representation_projects_what_is_too_long(federation, blobs):
    """The projected gradient at length one; the same for every client, call and federation of that seed."""
    fed = federation(blobs(), seed=SEED)
    whole, short = Gradient(epochs=0, layer=None, dimensions=None), Gradient(epochs=0, layer=None, dimensions=16)
    shared = whole.shared_model(fed)
    clients = np.array([0, 2, 4])
    long, found = whole.of(clients, 1, shared, fed), short.of(clients, 1, shared, fed)
    bucket, sign = projection(long.shape[1], 16, SEED)
    for row, full in zip(found, long, strict=True):
        expected = np.zeros(16)
        np.add.at(expected, bucket.numpy(), full * sign.numpy())
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), rtol=1e-4, atol=1e-5)
    assert found.shape == (3, 16)
    other = federation(blobs(), seed=SEED)
    assert short.of(clients, 1, short.shared_model(other), other).tolist() == found.tolist()
    assert Gradient(epochs=0, layer=None, dimensions=1000).of(clients, 1, shared, fed).tolist() == long.tolist()


def test_gradients_see_swapped_labels_and_embeddings_do_not(federation, blobs, points):
    """The same inputs with two labels called by each other's names, in equal numbers: only the gradient changes."""
    data = blobs(num_clients=2)
    x = torch.randn(60, 1, 2, 3, generator=torch.Generator().manual_seed(3))
    y = torch.arange(60) % 3
    x = x + y.view(-1, 1, 1, 1)
    swapped = torch.tensor([1, 0, 2])[y]
    shard = data.shard(0)
    views = [points(x, y), points(x, swapped)]
    data.shard = lambda client, cycle=0: type(shard)(views[client], shard.test, shard.mixture)
    fed = federation(data)
    found = {}
    for representation in (LabelHistogram(), InputEmbedding(epochs=20), Gradient(epochs=20)):
        vectors = representation.of(np.arange(2), 0, representation.shared_model(fed), fed)
        found[type(representation).__name__] = float(np.linalg.norm(vectors[0] - vectors[1]))
    assert found["LabelHistogram"] == 0
    assert found["InputEmbedding"] < 1e-6
    assert found["Gradient"] > 0.1
