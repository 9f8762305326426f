"""Tiny federations: on Gaussian blobs, or on data that are written down in the test."""

from itertools import count

import numpy as np
import torch
from lightning.fabric import Fabric

from flcluster.data import FederatedDataModule, Shard, View, joined
from flcluster.devices.profiles import Devices, Profile
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.modules import MLP

CLASSES, SHAPE, PER_CLASS = 3, (1, 2, 3), 60


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


def spoil(fed, spoils, value):
    """Replace by a value all that is trained in jobs that ``spoils`` says, before anyone looks at it."""
    look = fed.worker._look_once

    def spoiled(job, trained, *others):
        if spoils(job):
            trained.row = torch.full_like(trained.row, value)
        look(job, trained, *others)

    fed.worker._look_once = spoiled


def make_mlp(**kwargs):
    return MLP(CLASSES, SHAPE, **{"hidden": [8], "lr": 0.1, **kwargs})


class Samples:
    """Per class ``PER_CLASS`` points around a corner of a cube; concept k calls class c by the name (c + k) mod C."""

    def __init__(self, classes, concept, noise, seed):
        draw = np.random.default_rng([seed, 7])
        true = np.repeat(np.arange(classes), PER_CLASS)
        x = np.eye(classes, 6)[true] + noise * draw.normal(size=(len(true), 6))
        self.x = torch.tensor(x, dtype=torch.float32).view(-1, *SHAPE)
        self.labels = torch.tensor((true + concept) % classes)

    def __len__(self):
        return len(self.labels)

    def take(self, index):
        return self.x[index], self.labels[index]


class Script(FederatedDataModule):
    """Clients hold what the script says: ``{round: {client: true labels, or (true labels, concept)}}``.

    What arrives replaces what was there, unless ``keep`` is larger than 1: then the last so many arrivals are held.
    ``dropouts`` never take part; ``tested`` data have a global test set.
    """

    input_shape, num_clusters, name = SHAPE, 1, "Script"

    dropouts = ()

    def __init__(self, script, classes=4, clients=None, keep=1, also=None, noise=0.3, dropouts=(), tested=False):
        super().__init__()
        self.script, self.keep, self.also = script, keep, also or {}
        self.dropouts, self.tested = dropouts, tested
        self.num_classes = classes
        self.num_clients = clients or 1 + max(m for change in script.values() for m in change)
        self.sources = {
            split: [Samples(classes, k, noise, seed) for k in range(classes)]
            for seed, split in enumerate(("train", "test", "proxy"))
        }

    def pieces(self, client, cycle):
        """What a client holds: (round, true labels, concept) of each arrival."""
        found = []
        for t in sorted(self.script):
            if t <= cycle and client in self.script[t]:
                what = self.script[t][client]
                labels, concept = what if isinstance(what, tuple) else (what, 0)
                found.append((t, labels, concept))
        return [piece for piece in found[-self.keep :] if piece[1]]

    def view(self, split, client, piece):
        t, labels, concept = piece
        draw = np.random.default_rng([client, t, split == "test"])
        index = [PER_CLASS * c + int(draw.integers(PER_CLASS)) for c in labels]
        return View(((self.sources[split][concept], torch.tensor(index)),))

    def whole(self, split, client, cycle):
        nothing = View(((self.sources[split][0], torch.arange(0)),))
        return joined([self.view(split, client, piece) for piece in self.pieces(client, cycle)] or [nothing])

    def drifted(self, cycle):
        if cycle == 0:
            return np.empty(0, dtype=np.int64)
        changed = set(self.script.get(cycle, {})) | set(self.also.get(cycle, ()))
        return np.array(sorted(changed), dtype=np.int64)

    def size(self, client, cycle=0):
        return sum(len(labels) for _, labels, _ in self.pieces(client, cycle))

    def shard(self, client, cycle=0):
        return Shard(self.whole("train", client, cycle), self.whole("test", client, cycle), torch.ones(1))

    def arrived(self, client, cycle):
        return [(piece[0], self.view("train", client, piece)) for piece in self.pieces(client, cycle)]

    def _all(self, split):
        source = self.sources[split][0]
        return View(((source, torch.arange(len(source))),))

    def proxy(self, cluster):
        return self._all("proxy")

    def cluster_train(self, cluster):
        return self._all("train")

    def cluster_test(self, cluster):
        return self._all("test")

    def global_test(self):
        return self._all("test") if self.tested else None


class Given(Devices):
    """Devices as the test has them."""

    def __init__(self, ms, kbps):
        self.ms, self.kbps = np.array(ms, dtype=float), np.array(kbps, dtype=float)

    def profile(self, clients, seed):
        return Profile(self.ms, self.kbps)


def federations(root):
    """Return what makes federations of one process on blobs; ``budget=0`` keeps every row in a file."""
    numbers = count(1)

    def make(data=None, module=None, seed=11, budget=2**30, callbacks=(), folder=None):
        where = folder or root / f"bank{next(numbers)}"
        return Federation(
            Fabric(accelerator="cpu", devices=1, callbacks=list(callbacks)),
            make_mlp() if module is None else module,
            Blobs() if data is None else data,
            lambda width: Bank(where, width, budget),
            seed,
        )

    return make


def small_federations(root):
    """Return what makes federations of one process on some data, of a small network (softmax regression by default)."""
    make = federations(root)

    def small(data, hidden=(), lr=0.1, seed=11, module=None):
        return make(data, module or MLP(data.num_classes, data.input_shape, hidden=hidden, lr=lr), seed)

    return small
