"""Federations whose data are written down in the test: who holds which labels, of which concept, from which round."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric

from flcluster.cli import main
from flcluster.data import FederatedDataModule, Shard, View, joined
from flcluster.devices.profiles import Devices, Profile
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Trained
from flcluster.modules import MLP

SHAPE, PER_CLASS = (1, 2, 3), 60


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


@pytest.fixture
def script():
    return Script


@pytest.fixture
def federate(tmp_path):
    """Make a federation of one process on some data, with a small network (softmax regression by default)."""
    count = 0

    def make(data, hidden=(), lr=0.1, seed=11, module=None):
        nonlocal count
        count += 1
        where = tmp_path / f"bank{count}"
        return Federation(
            Fabric(accelerator="cpu", devices=1),
            module or MLP(data.num_classes, data.input_shape, hidden=hidden, lr=lr),
            data,
            lambda width: Bank(where, width, 2**30),
            seed,
        )

    return make


@pytest.fixture
def result():
    """Make what comes back from a client."""

    def make(client, row, size=1, **seen):
        row = torch.tensor(row, dtype=torch.float32)
        return Trained(client, row, size, 1, 0.5, 0.1, {"finite": bool(torch.isfinite(row).all()), **seen})

    return make


@pytest.fixture
def spied(monkeypatch):
    """Record the jobs that a federation trains and the rows that come out."""

    def watch(fed):
        log, train = [], fed.train

        def recording(jobs, observe=None):
            jobs = list(jobs)
            for job, trained in zip(jobs, train(jobs, observe), strict=True):
                log.append((job, trained.row.clone()))
                yield trained

        monkeypatch.setattr(fed, "train", recording)
        return log

    return watch


class Given(Devices):
    """Devices as the test has them."""

    def __init__(self, ms, kbps):
        self.ms, self.kbps = np.array(ms, dtype=float), np.array(kbps, dtype=float)

    def profile(self, clients, seed):
        return Profile(self.ms, self.kbps)


@pytest.fixture
def given_devices():
    """Make devices of given milliseconds per sample and kilobits per second."""
    return Given


@pytest.fixture
def broken(monkeypatch):
    """Let the training of some clients end in NaN."""

    def breaks(fed, *clients):
        train = fed.worker.train

        def failing(job):
            trained = train(job)
            if job.client in clients:
                trained.row = torch.full_like(trained.row, math.nan)
            return trained

        monkeypatch.setattr(fed.worker, "train", failing)

    return breaks


@pytest.fixture
def tiny_run():
    """Run the command on a few digits with SGD, or go on with a run (``new=False``), and return the summary."""

    def run(folder, *flags, new=True):
        tiny = str(Path(__file__).parents[1] / "tiny.yaml")
        first = ["--config", tiny, "--model.optimizer", "sgd", "--model.lr", "0.1", "--data.redraw", "false"]
        assert main(["fit", *(first if new else []), "--run_dir", folder, *flags]) == 0
        return json.loads(Path(folder, "summary.json").read_text())

    return run


@pytest.fixture
def resumed():
    """Run the command on label-skewed digits, whole and cut after some steps; compare, and return the whole's summary.

    ``then`` is called when the first part has stopped.
    """

    def run(settings, stops, then=None):
        common = {"seed_everything": 3, "data": "SkewedDigits", "model": "MLP", "model.hidden": [16], "model.lr": 0.1}
        common |= {f"engine.{name}": "false" for name in ("progress", "pictures", "table")} | {"engine.threads": 1}
        flags = [f"--{key}={value}" for key, value in {**common, **settings}.items()]
        assert main(["fit", *flags, "--run_dir", "whole"]) == 0
        in_files = ["--engine.memory_gb", "0"]
        assert main(["fit", *flags, "--run_dir", "cut", *in_files, "--engine.max_updates", str(stops[0])]) == 0
        if then:
            then()
        for until in (*stops[1:], "null"):
            assert json.loads(Path("cut/summary.json").read_text())["status"] != "finished"
            assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", str(until)]) == 0
        for name in ("metrics.csv", "clients.csv"):
            assert Path("cut", name).read_bytes() == Path("whole", name).read_bytes()
        return json.loads(Path("whole/summary.json").read_text())

    return run
