"""CPU time of a FedAvg round against a bare PyTorch loop of the same work, with and without evaluation.

Ten of a hundred clients with 600 training and 100 test samples each train in batches of 50 from one model, which is
then the mean of theirs. The bare loop is what one would write by hand: same samples, same orders, gradients of the
parameters as autograd returns them, added in one call. All take turns in one process, so that a noisy machine disturbs
them alike; the median of the ratios counts. Run: python tests/benchmarks/rounds.py [--turns 15]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric

from flcluster.algorithms import FedAvg
from flcluster.datamodules import RotatedDataModule
from flcluster.engine.loops.rounds import RoundLoop
from flcluster.engine.process import keep_freed_memory
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.modules import CNN, MLP
from flcluster.modules.classifier import Classifier
from flcluster.seeds import rng

Row = tuple[str, float]
CLIENTS, ROUND, TRAIN, TEST, BATCH = 100, 10, 600, 100, 50


class Noise:
    """Random images in the place of a dataset."""

    def __init__(self, root: str = "", train: bool = True) -> None:
        draw, count = torch.Generator().manual_seed(int(train)), CLIENTS * (TRAIN if train else TEST)
        self.data = torch.randint(256, (count, 28, 28), dtype=torch.uint8, generator=draw)
        self.targets = torch.randint(10, (count,), generator=draw)


def data() -> RotatedDataModule:
    """Divide the noise among the clients."""
    return RotatedDataModule(
        f"{__name__}.Noise", 10, (1, 28, 28), (0.5,), (0.3,), num_clusters=1, num_clients=CLIENTS,
        samples=None, proxy_size=0, test_size=None,
    )  # fmt: skip


def engine(module: Classifier, folder: Path, evaluates: bool) -> Callable[[], object]:
    """Return what runs a round of the engine; without evaluation it would measure all at the end of a session."""
    method: FedAvg[Any] = FedAvg(
        rounds=10_000,
        participants=ROUND,
        batch_size=BATCH,
        local_epochs=1,
        measure="participants" if evaluates else "all",
    )
    fed = Federation(
        Fabric(accelerator="cpu", devices=1), module, data(), lambda width: Bank(folder, width, 2**30), seed=0
    )
    loop: RoundLoop[Any] = RoundLoop(method, fed, session=10_000)
    loop.begin()
    return loop.advance


def bare(module: Classifier, lr: float) -> Callable[[], object]:
    """Return what runs the same round by hand."""
    held, parameters, turn = data(), list(module.parameters()), iter(range(10**6))
    held.setup()

    def round_by_hand() -> None:
        t = next(turn)
        start = [p.detach().clone() for p in parameters]
        total = [torch.zeros_like(p) for p in parameters]
        clients = sorted(rng(0, "select", t, 0).choice(CLIENTS, size=ROUND, replace=False).tolist())
        for client in clients:
            with torch.no_grad():
                torch._foreach_copy_(parameters, start)
            x, y = held.shard(client, t).train.tensors()
            order = torch.from_numpy(rng(0, "train", client, t).permutation(len(y)))
            for a, b in zip(x[order].split(BATCH), y[order].split(BATCH), strict=True):
                gradients = torch.autograd.grad(module.loss(module(a), b), parameters)
                with torch.no_grad():
                    torch._foreach_add_(parameters, gradients, alpha=-lr)
            torch._foreach_add_(total, [p.detach() for p in parameters], alpha=1 / ROUND)
        with torch.no_grad():
            torch._foreach_copy_(parameters, total)

    return round_by_hand


def measure(name: str, module: Classifier, lr: float, turns: int, rounds: int) -> list[Row]:
    """Return the engine's CPU time as a multiple of the bare loop's."""
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "bare": bare(deepcopy(module).to(memory_format=torch.channels_last), lr),
            "engine": engine(deepcopy(module), Path(folder), False),
            "engine, default evaluation": engine(deepcopy(module), Path(folder), True),
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(turns + 1):
            for way, run in ways.items():
                began = time.process_time()
                for _ in range(rounds):
                    run()
                if turn:  # the first warms up
                    times[way].append(time.process_time() - began)
    return [
        (f"{name}, {way}", statistics.median(a / b for a, b in zip(times[way], times["bare"], strict=True)))
        for way in ways
        if way != "bare"
    ]


def rows(turns: int = 15) -> list[Row]:
    """Return every ratio to the bare loop, by name."""
    torch.manual_seed(0)
    shape = (1, 28, 28)
    cnn = CNN(10, shape, padding=2, optimizer="sgd", lr=0.05, weight_decay=0.0)
    mlp = MLP(10, shape, hidden=[200], lr=0.1)
    return [
        *measure("MLP 784-200-10", mlp, 0.1, turns, 4),
        *measure("CNN, 1.7 M parameters", cnn, 0.05, max(3, turns // 3), 1),
    ]


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    for name, ratio in rows(given.turns):
        print(f"{name:<60} {ratio:5.2f}")


if __name__ == "__main__":
    main()
