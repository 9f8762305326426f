"""What a step costs beside the number of registered clients: 100, 1,000, 10,000 and 100,000 of them.

A FedAvg round of ten participants, a CDFL upload and a FIELDING round without drift, on data that any number of
clients draw when they are asked for, each run in a process of its own, turn by turn, so that a noisy machine disturbs
all alike. Milliseconds of CPU a step, their ratio to a hundred clients, and the most memory a run ever held.
Run: python tests/benchmarks/registered.py [--clients 100 1000 10000 100000] [--turns 7] [--methods FedAvg CDFL]
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from held import experiment, held, take
from told import Told

from flcluster import seeds
from flcluster.data import FederatedDataModule, Shard, View

CLIENTS = (100, 1_000, 10_000, 100_000)
STEPS = {"FedAvg": 20, "CDFL": 40, "Fielding": 20}
"""Steps of a turn: long enough that what happens now and then, garbage collection say, is in every one."""


class Pool:
    """Random images that all clients share."""

    def __init__(self, count: int, classes: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.x = torch.rand(count, 1, 8, 8, generator=draw)
        self.labels = torch.randint(classes, (count,), generator=draw)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and labels."""
        return self.x[index], self.labels[index]


class Registered(FederatedDataModule):
    """As many clients as one likes; what each holds is drawn when it is asked for, and never changes."""

    name, num_classes, input_shape, num_clusters = "Registered", 10, (1, 8, 8), 4
    always_hold = True

    def __init__(self, num_clients: int, samples: int = 100, seed: int = 0) -> None:
        super().__init__()
        self.num_clients, self.samples, self.seed = num_clients, samples, seed
        self.pool_, self.tests = Pool(5_000, 10, 0), Pool(1_000, 10, 1)

    def size(self, client: int, cycle: int = 0) -> int:
        """Return the number of training samples of a client."""
        return self.samples

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Draw what a client holds."""
        draw, mixture = seeds.rng(self.seed, "shard", client), torch.zeros(self.num_clusters)
        mixture[client % self.num_clusters] = 1
        train, test = draw.integers(len(self.pool_), size=self.samples), draw.integers(len(self.tests), size=50)
        return Shard(_view(self.pool_, train), _view(self.tests, test), mixture)

    def label_counts(self, clients: "np.ndarray[Any, Any]", cycle: int) -> "np.ndarray[Any, Any]":
        """Count labels of clients in four groups, without drawing what each holds."""
        noise = seeds.rng(self.seed, "labels").integers(5, size=(self.num_clients, self.num_classes))[clients]
        return noise + 50 * (np.arange(self.num_classes) % self.num_clusters == (clients % self.num_clusters)[:, None])

    def proxy(self, cluster: int) -> View:
        """Return some of the test samples."""
        return _view(self.tests, np.arange(200))

    def cluster_train(self, cluster: int) -> View:
        """Return some of the training samples."""
        return _view(self.pool_, np.arange(500))

    def cluster_test(self, cluster: int) -> View:
        """Return some more of the test samples."""
        return _view(self.tests, np.arange(200, 400))


def _view(source: Pool, index: "np.ndarray[Any, Any]") -> View:
    return View(((source, torch.from_numpy(index)),))


def method(name: str) -> Any:
    """Return a method as it is measured: small, and without an end."""
    from flcluster.algorithms import CDFL, FedAvg, Fielding

    forever, local = {"rounds": 10**6, "participants": 10}, {"local_epochs": 5, "batch_size": 20}
    if name == "CDFL":
        return CDFL(cycles=20, **local)
    return FedAvg(**forever, **local) if name == "FedAvg" else Fielding(**forever, **local, measure="participants")


def serve(pipe: Connection, name: str, clients: int) -> None:
    """Hold a run; for each number that comes take so many steps and answer with the CPU seconds and the memory."""
    from flcluster.modules import MLP

    with tempfile.TemporaryDirectory() as folder:
        model = MLP(10, (1, 8, 8), hidden=(64,), optimizer="sgd", lr=0.05)
        exp = experiment(Registered(clients), model, method(name), Path(folder))
        with held(exp) as run:
            answer(pipe, run)


def answer(pipe: Connection, run: Any) -> None:
    """Take as many steps as are asked for, again and again, and say what they took."""
    from flcluster.engine.process import peak_gb

    pipe.send(None)
    while steps := pipe.recv():
        began = time.process_time()
        take(run, steps)
        pipe.send((time.process_time() - began, peak_gb() or 0.0))


def measured(name: str, clients: Sequence[int], turns: int) -> list[tuple[int, float, float]]:
    """Return clients, median milliseconds of CPU a step, and peak GB."""
    context = multiprocessing.get_context("spawn")
    pipes, workers = [], []
    for count in clients:
        mine, its = context.Pipe()
        workers.append(context.Process(target=serve, args=(its, name, count), daemon=True))
        workers[-1].start()
        mine.recv()
        pipes.append(mine)
    found: list[list[tuple[float, float]]] = [[] for _ in clients]
    for turn in range(turns + 1):
        for pipe, seen in zip(pipes, found, strict=True):
            pipe.send(STEPS[name])
            answer = pipe.recv()
            if turn:  # the first one warms up
                seen.append(answer)
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send(0)
        worker.join()
    each = ((1e3 * statistics.median(s for s, _ in seen) / STEPS[name], max(gb for _, gb in seen)) for seen in found)
    return [(count, ms, gb) for count, (ms, gb) in zip(clients, each, strict=True)]


def rows(quick: bool = False, turns: int = 7) -> list[Told]:
    """Return what a step costs beside that of a hundred clients, and the most memory of all."""
    clients = (20, 60) if quick else CLIENTS
    found = {name: measured(name, clients, 1 if quick else turns) for name in STEPS}
    times = [
        Told(f"{name}: a step with {count:,} registered clients / with {clients[0]:,}", ms / each[0][1], "≤ 1.2")
        for name, each in found.items()
        for count, ms, _ in each[1:]
    ]
    most = [(name, *each[-1]) for name, each in found.items()]
    return times + [Told(f"{name}: most memory with {count:,} clients", gb, "< 1", "GB") for name, count, _, gb in most]


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--methods", nargs="+", default=tuple(STEPS))
    given = parser.parse_args()
    for name in given.methods:
        found = measured(name, given.clients, given.turns)
        for count, ms, gb in found:
            ratio = ms / found[0][1]
            print(f"{name:<10}{count:>9,} clients {ms:8.2f} ms CPU a step   ratio {ratio:5.2f}   peak {gb:.2f} GB")


if __name__ == "__main__":
    main()
