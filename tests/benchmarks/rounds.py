"""CPU time of a FedAvg round against the best bare PyTorch loop of the same work, with and without evaluation.

Ten of a hundred clients with 600 training and 100 test samples each train in batches of 50 from one model, which is
then the mean of theirs. bare.py has the loops; the fastest of them counts. All take turns in one process, so that a
noisy machine disturbs them alike; the median of the ratios counts. Run: python tests/benchmarks/rounds.py [--turns 15]
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from bare import by_autograd, by_hand, rounds_of
from lightning.fabric import Fabric
from told import Told, in_turns, ratio, show

from flcluster.algorithms import FedAvg
from flcluster.datamodules import RotatedDataModule
from flcluster.engine.loops.rounds import RoundLoop
from flcluster.engine.process import keep_freed_memory
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.federation.together.rule import Wish
from flcluster.modules import CNN, MLP
from flcluster.modules.classifier import Classifier

CLIENTS, ROUND, TRAIN, TEST, BATCH = 100, 10, 600, 100, 50
SHAPE = (1, 28, 28)


class Noise:
    """Random images in the place of a dataset."""

    def __init__(self, root: str = "", train: bool = True) -> None:
        draw, count = torch.Generator().manual_seed(int(train)), CLIENTS * (TRAIN if train else TEST)
        self.data = torch.randint(256, (count, *SHAPE[1:]), dtype=torch.uint8, generator=draw)
        self.targets = torch.randint(10, (count,), generator=draw)


def data() -> RotatedDataModule:
    """Divide the noise among the clients."""
    return RotatedDataModule(
        f"{__name__}.Noise", 10, SHAPE, (0.5,), (0.3,), num_clusters=1, num_clients=CLIENTS,
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
    fabric = Fabric(accelerator="cpu", devices=1)
    fed = Federation(
        fabric, module, data(), lambda width: Bank(folder, width, 2**30), seed=0, together=Wish(None, BATCH)
    )
    loop: RoundLoop[Any] = RoundLoop(method, fed, session=10_000)
    loop.begin()
    return loop.advance


def measure(name: str, module: Classifier, lr: float, turns: int, rounds: int) -> list[Told]:
    """Return the engine's CPU time as a multiple of the best bare loop's."""
    kinds = {"autograd": lambda module: by_autograd(module, lr, BATCH)}
    if isinstance(module, MLP):
        kinds["by hand"] = lambda module: by_hand(lr, BATCH)
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[], object]] = {}
        for evaluates in (False, True):
            for kind, train in kinds.items():
                own = deepcopy(module).to(memory_format=torch.channels_last)
                ways[f"{kind}, {evaluates}"] = rounds_of(own, data(), train(own), ROUND, evaluates)
            ways[f"engine, {evaluates}"] = engine(deepcopy(module), Path(folder), evaluates)
        times = in_turns({way: lambda run=run: [run() for _ in range(rounds)] for way, run in ways.items()}, turns)
    best = min(kinds, key=lambda kind: statistics.median(times[f"{kind}, False"]))
    ours, evaluated = times["engine, False"], times["engine, True"]
    theirs = f"the best bare loop ({best})"
    return [
        Told(f"{name}: a FedAvg round / {theirs}", ratio(ours, times[f"{best}, False"]), GOALS[type(module)][0]),
        Told(f"{name}: … with default evaluation / the same loop", ratio(evaluated, times[f"{best}, False"]),
             GOALS[type(module)][1]),
        Told(f"{name}: … / the same loop, evaluating as much", ratio(evaluated, times[f"{best}, True"])),
    ]  # fmt: skip


GOALS = {CNN: ("≤ 1.02", "≤ 1.08"), MLP: ("≤ 1.05", "")}


def rows(quick: bool = False, turns: int = 15) -> list[Told]:
    """Return every ratio to a bare loop."""
    torch.manual_seed(0)
    cnn = CNN(10, SHAPE, padding=2, optimizer="sgd", lr=0.05, weight_decay=0.0)
    small = CNN(10, SHAPE, channels=(2, 2), hidden=8, optimizer="sgd", lr=0.05, weight_decay=0.0)
    return [
        *measure("CNN, 1.7 M parameters", small if quick else cnn, 0.05, 1 if quick else max(5, turns // 2), 1),
        *measure("MLP 784-200-10", MLP(10, SHAPE, hidden=[200], lr=0.1), 0.1, 1 if quick else turns, 1 if quick else 4),
    ]


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    show(rows(turns=given.turns))


if __name__ == "__main__":
    main()
