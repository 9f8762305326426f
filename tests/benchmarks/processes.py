"""One process against two, one thread each: FedAvg, CDFL and DFCA on a convolutional network and images of noise.

Both take the same steps, turn by turn, so that a noisy machine disturbs both alike. Two numbers count: how much
faster two are by the clock (2 at best; it needs two free cores), and what two compute together against what one does
(1 at best; it needs none). Run: python tests/benchmarks/processes.py [--methods CDFL] [--turns 3] [--profile]
"""

import argparse
import cProfile
import multiprocessing
import os
import pstats
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from held import experiment, held, take
from told import Told, show

SAMPLES = 300
CLIENTS = {"FedAvg": 40, "CDFL": 400, "DFCA": 12}
"""Registered clients: so many of CDFL's that none uploads twice within what is trained ahead, which is then used up."""
STEPS = {"FedAvg": 2, "CDFL": 16, "DFCA": 1}
"""Steps of a turn; CDFL's are two times what two processes train ahead."""
Answer = tuple[float, float, str]
"""Seconds by the clock and of CPU, and what they were spent on."""


class Noise:
    """Random images in the place of a dataset."""

    def __init__(self, root: str = "", train: bool = True) -> None:
        draw = torch.Generator().manual_seed(int(train))
        self.data = torch.randint(256, (6_000, 28, 28), dtype=torch.uint8, generator=draw)
        self.targets = torch.randint(10, (6_000,), generator=draw)


def run_of(name: str, folder: Path, ranks: int, samples: int) -> Any:
    """Return a run without an end that nothing is printed of."""
    from flcluster import algorithms
    from flcluster.datamodules import RotatedDataModule
    from flcluster.modules import CNN

    data = RotatedDataModule(
        f"{__name__}.Noise", 10, (1, 28, 28), (0.5,), (0.3,),
        num_clusters=4, num_clients=CLIENTS[name], samples=(samples // 2, samples), proxy_size=400, test_size=200,
    )  # fmt: skip
    local = {"local_epochs": 2, "batch_size": 50}
    given = {
        "FedAvg": {"participants": 10},
        "DFCA": {},
        "CDFL": {"cycles": 10, "pretrain_epochs": 1},
    }[name]
    method = getattr(algorithms, name)(**local, **given)
    return experiment(data, CNN(10, (1, 28, 28), hidden=128), method, folder, ranks=ranks)


def serve(
    pipe: Connection, name: str, folder: Path, rank: int, ranks: int, port: int, profiled: bool, samples: int
) -> None:
    """Be one process of a run; for each number that comes take so many steps and answer what they cost."""
    if ranks > 1:  # as torchrun tells
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
        os.environ.update({key: str(value) for key, value in told.items()} | {"MASTER_ADDR": "127.0.0.1"})
        os.environ |= {"GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "bench"}
    with held(run_of(name, folder, ranks, samples)) as run:
        pipe.send(None)
        while steps := pipe.recv():
            profile = cProfile.Profile()
            began, used = time.perf_counter(), time.process_time()
            if profiled:
                profile.enable()
            take(run, steps)
            profile.disable()
            run.fed.ranks.barrier()
            seconds = time.perf_counter() - began, time.process_time() - used
            pipe.send((*seconds, told_of(profile) if profiled else ""))


def told_of(profile: cProfile.Profile) -> str:
    """Return where the time went."""
    from io import StringIO

    text = StringIO()
    stats = pstats.Stats(profile, stream=text)
    stats.sort_stats("tottime").print_stats(14)
    stats.sort_stats("cumtime").print_stats(45)
    return text.getvalue()


class Run:
    """Processes that hold one run."""

    def __init__(self, name: str, folder: str, ranks: int, profiled: bool, samples: int) -> None:
        context = multiprocessing.get_context("spawn")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.pipes = []
        for rank in range(ranks):
            mine, its = context.Pipe()
            where = Path(folder) / str(ranks)
            given = (its, name, where, rank, ranks, port, profiled, samples)
            context.Process(target=serve, args=given, daemon=True).start()
            self.pipes.append(mine)
        self.all()

    def all(self) -> list[Any]:
        """Wait for all processes, and return what each says."""
        return [pipe.recv() for pipe in self.pipes]

    def take(self, steps: int) -> list[Answer]:
        """Take some steps and return what each process says of them."""
        for pipe in self.pipes:
            pipe.send(steps)
        return self.all() if steps else []


def measured(name: str, turns: int, profiled: bool = False, samples: int = SAMPLES) -> tuple[float, float]:
    """Return how much faster two processes are than one, and what they compute together against one."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (Run(name, folder, ranks, profiled, samples) for ranks in (1, 2))
        faster, together = [], []
        for turn in range(turns + 1):
            (alone,), both = one.take(STEPS[name]), two.take(STEPS[name])
            if turn:  # the first one warms up
                faster.append(alone[0] / max(wall for wall, _, _ in both))
                together.append(sum(cpu for _, cpu, _ in both) / alone[1])
        if profiled:
            print(*(answer[2] for answer in (alone, *both)), sep="\n\n")
        one.take(0)
        two.take(0)
    return statistics.median(faster), statistics.median(together)


def rows(
    quick: bool = False, names: Sequence[str] = tuple(STEPS), turns: int = 5, profiled: bool = False
) -> list[Told]:
    """Return by how much two processes are faster, and what they compute in all."""
    out = []
    for name in names[:1] if quick else names:
        faster, together = measured(name, 1 if quick else turns, profiled, 8 if quick else SAMPLES)
        out += [
            Told(f"{name}: one process / two, by the clock", faster, "≥ 1.8"),
            Told(f"{name}: CPU time of two processes / of one", together),
        ]
    return out


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=tuple(STEPS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="also tell where the time of the last turn went")
    given = parser.parse_args()
    show(rows(names=given.methods, turns=given.turns, profiled=given.profile))


if __name__ == "__main__":
    main()
