"""A tiny federation on Gaussian blobs, and plain PyTorch versions of what the engine does, to compare it with.

The plain versions know nothing of rows: a model is a module or a state dict, a loss term goes through autograd.
"""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from flcluster.data import FederatedDataModule, Shard, View
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.modules import MLP
from flcluster.seeds import rng, torch_seed

CLASSES, SHAPE = 3, (1, 2, 3)


class Points:
    """Samples in two tensors."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def take(self, index):
        return self.x[index], self.y[index]


class Blobs(FederatedDataModule):
    """Every cluster places the same three classes elsewhere; a client draws most samples from cluster m % K."""

    num_classes, input_shape, name = CLASSES, SHAPE, "Blobs"

    def __init__(self, num_clusters=3, num_clients=6, samples=(10, 40), seed=5):
        super().__init__()
        self.num_clusters, self.num_clients, self.samples, self.seed = num_clusters, num_clients, samples, seed
        draw = np.random.default_rng(seed)
        centres = draw.normal(0, 2, (num_clusters, CLASSES, *SHAPE))
        self.sources = {
            split: [self._points(draw, centres[k], n) for k in range(num_clusters)]
            for split, n in (("train", 200), ("test", 150), ("proxy", 50))
        }

    def _points(self, draw, centres, n):
        y = draw.integers(CLASSES, size=n)
        x = centres[y] + draw.normal(0, 1.5, (n, *SHAPE))
        return Points(torch.tensor(x, dtype=torch.float32), torch.tensor(y))

    def _draw(self, client, cycle):
        draw = np.random.default_rng([self.seed, client, cycle])
        return draw, int(draw.integers(self.samples[0], self.samples[1] + 1))

    def size(self, client, cycle=0):
        return self._draw(client, cycle)[1]

    def shard(self, client, cycle=0):
        draw, n = self._draw(client, cycle)
        main = client % self.num_clusters
        counts = [1] * self.num_clusters
        counts[main] += n - self.num_clusters
        parts = {
            split: View(
                tuple(
                    (source, torch.tensor(draw.permutation(len(source))[:count]))
                    for source, count in zip(self.sources[split], counts, strict=True)
                )
            )
            for split in ("train", "test")
        }
        return Shard(parts["train"], parts["test"], torch.tensor(counts) / n)

    def _whole(self, split, k):
        source = self.sources[split][k]
        return View(((source, torch.arange(len(source))),))

    def proxy(self, cluster):
        return self._whole("proxy", cluster)

    def cluster_train(self, cluster):
        return self._whole("train", cluster)

    def cluster_test(self, cluster):
        return self._whole("test", cluster)


def view_of(x, y, parts=1):
    """A view of whole tensors, cut into some parts."""
    return View(
        tuple((Points(a, b), torch.arange(len(b))) for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True))
    )


def make_mlp(**kwargs):
    return MLP(CLASSES, SHAPE, **{"hidden": [8], "lr": 0.1, **kwargs})


def first_model(seed, build, i=0):
    """Initialisation i of a run."""
    with torch_seed(seed, "init", i):
        return build()


def train(module, optimizer, view, *, seed, client, cycle=0, epochs=1, batch=16, purpose="train", pulls=()):
    """Train a copy of a module as any PyTorch user would; ``pulls`` are (weight, module): + weight/2 · ‖v − w‖²."""
    module = copy.deepcopy(module)
    x, y = view.tensors()
    steps = optimizer(module)
    order = rng(seed, purpose, client, cycle)
    normed = any(isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)) for m in module.modules())
    anchors = [(weight, [p.detach().clone() for p in other.parameters()]) for weight, other in pulls]
    losses = []
    module.train()
    with torch_seed(seed, purpose, client, cycle):
        for _ in range(epochs):
            for index in torch.from_numpy(order.permutation(len(y))).split(batch):
                if normed and len(index) == 1:
                    continue
                loss = F.cross_entropy(module(x[index]), y[index])
                losses.append(loss.item())
                for weight, anchor in anchors:
                    loss = loss + weight / 2 * sum(
                        ((p - a) ** 2).sum() for p, a in zip(module.parameters(), anchor, strict=True)
                    )
                steps.zero_grad()
                loss.backward()
                steps.step()
    return module.eval(), losses


@torch.no_grad()
def per_sample(module, view):
    """Losses and hits of all samples in one batch."""
    module.eval()
    x, y = view.tensors()
    logits = module(x)
    return F.cross_entropy(logits, y, reduction="none"), (logits.argmax(1) == y).float()


def mean_loss(module, view):
    return float(per_sample(module, view)[0].double().mean())


def accuracy(module, view):
    return float(per_sample(module, view)[1].double().mean())


def mixed(weights, modules):
    """Σ_k weight_k · module_k, parameter by parameter; running statistics are mixed too, batch counters are not."""
    out = copy.deepcopy(modules[0])
    states = [m.state_dict() for m in modules]
    with torch.no_grad():
        for name, value in out.state_dict().items():
            if value.is_floating_point():
                value.copy_(sum(float(w) * state[name].double() for w, state in zip(weights, states, strict=True)))
    return out


def vector(module):
    """All parameters, then all running statistics."""
    statistics = [buffer.flatten() for buffer in module.buffers() if buffer.is_floating_point()]
    return torch.cat([parameters_to_vector(module.parameters()).detach(), *statistics])


@pytest.fixture
def plain():
    """The plain versions."""
    return SimpleNamespace(
        train=train,
        per_sample=per_sample,
        mean_loss=mean_loss,
        accuracy=accuracy,
        mixed=mixed,
        vector=vector,
        first_model=first_model,
    )


@pytest.fixture
def blobs():
    return Blobs


@pytest.fixture
def points():
    return view_of


@pytest.fixture
def mlp():
    return make_mlp


@pytest.fixture
def fabric():
    return Fabric(accelerator="cpu", devices=1)


@pytest.fixture
def federation(tmp_path):
    """Make a federation of one process; ``budget=0`` keeps every row in a file."""
    count = 0

    def make(data=None, module=None, seed=11, budget=2**30, callbacks=(), folder=None):
        nonlocal count
        count += 1
        where = folder or tmp_path / f"bank{count}"
        return Federation(
            Fabric(accelerator="cpu", devices=1, callbacks=list(callbacks)),
            make_mlp() if module is None else module,
            Blobs() if data is None else data,
            lambda width: Bank(where, width, budget),
            seed,
        )

    return make


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny models: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
