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

CLIENTS, SAMPLES = 40, 300
STEPS = {"FedAvg": 2, "CDFL": 16, "DFCA": 2}
"""Steps of a turn."""
Answer = tuple[float, float, str]
"""Seconds by the clock and of CPU, and what they were spent on."""


class Noise:
    """Random images in the place of a dataset."""

    def __init__(self, root: str = "", train: bool = True) -> None:
        draw = torch.Generator().manual_seed(int(train))
        self.data = torch.randint(256, (6_000, 28, 28), dtype=torch.uint8, generator=draw)
        self.targets = torch.randint(10, (6_000,), generator=draw)


def experiment(name: str, folder: Path, ranks: int) -> Any:
    """Return a run without an end that nothing is printed of."""
    from flcluster import algorithms
    from flcluster.datamodules import RotatedDataModule
    from flcluster.engine.arguments import EngineConfig, FabricConfig
    from flcluster.engine.run import Experiment
    from flcluster.modules import CNN

    data = RotatedDataModule(
        f"{__name__}.Noise", 10, (1, 28, 28), (0.5,), (0.3,),
        num_clusters=4, num_clients=CLIENTS, samples=(SAMPLES // 2, SAMPLES), proxy_size=400, test_size=200,
    )  # fmt: skip
    local = {"local_epochs": 2, "batch_size": 50}
    given = {
        "FedAvg": {"participants": 10},
        "DFCA": {"participation": 0.3},
        "CDFL": {"cycles": 100, "pretrain_epochs": 1},
    }[name]
    method = getattr(algorithms, name)(**local, **given)
    engine = EngineConfig(threads=1, progress=False, checkpoint_minutes=10**6, max_updates=0)
    where = FabricConfig(accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto")
    return Experiment(0, where, engine, data, CNN(10, (1, 28, 28), hidden=128), method, {}, folder)


def serve(pipe: Connection, name: str, folder: Path, rank: int, ranks: int, port: int, profiled: bool) -> None:
    """Be one process of a run; for each number that comes take so many steps and answer what they cost."""
    if ranks > 1:  # as torchrun tells
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
        os.environ.update({key: str(value) for key, value in told.items()} | {"MASTER_ADDR": "127.0.0.1"})
        os.environ |= {"GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "bench"}
    from flcluster.engine.fit import fabric_of, settle
    from flcluster.engine.process import Interrupt, tell_children_their_parent
    from flcluster.engine.run import ActiveRun

    exp = experiment(name, folder, ranks)
    tell_children_their_parent()
    fabric = fabric_of(exp)
    fabric.launch()
    settle(fabric, exp)
    with Interrupt() as interrupt:
        run = ActiveRun(exp, fabric, interrupt)
        run.begin()
        pipe.send(None)
        while steps := pipe.recv():
            exp.engine.max_updates = run.loop.position + steps
            profile = cProfile.Profile()
            began, used = time.perf_counter(), time.process_time()
            if profiled:
                profile.enable()
            run.drive()
            profile.disable()
            run.fed.ranks.barrier()
            seconds = time.perf_counter() - began, time.process_time() - used
            pipe.send((*seconds, told_of(profile) if profiled else ""))
        run.close()


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

    def __init__(self, name: str, folder: str, ranks: int, profiled: bool) -> None:
        context = multiprocessing.get_context("spawn")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.pipes = []
        for rank in range(ranks):
            mine, its = context.Pipe()
            where = Path(folder) / str(ranks)
            given = (its, name, where, rank, ranks, port, profiled)
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


def measured(name: str, turns: int, profiled: bool = False) -> tuple[float, float]:
    """Return how much faster two processes are than one, and what they compute together against one."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (Run(name, folder, ranks, profiled) for ranks in (1, 2))
        faster, together = [], []
        for turn in range(turns + 1):
            (alone,), both = one.take(STEPS[name]), two.take(STEPS[name])
            if turn:  # the first one warms up
                faster.append(alone[0] / max(wall for wall, _, _ in both))
                together.append(sum(cpu for _, cpu, _ in both) / alone[1])
                print(f"  {alone[:2]} {[answer[:2] for answer in both]}", flush=True)
        if profiled:
            print(*(answer[2] for answer in (alone, *both)), sep="\n\n")
        one.take(0)
        two.take(0)
    return statistics.median(faster), statistics.median(together)


def rows(names: Sequence[str] = tuple(STEPS), turns: int = 5, profiled: bool = False) -> list[tuple[str, float]]:
    """Measure, print a line for each, and return what it is and its ratio."""
    out = []
    for name in names:
        faster, together = measured(name, turns, profiled)
        print(f"{name:<8}two processes are {faster:.2f} times as fast and compute {together:.2f} times as much")
        out += [(f"{name}, two processes: speed", faster), (f"{name}, two processes: CPU time", together)]
    return out


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=tuple(STEPS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="also tell where the time of the last turn went")
    given = parser.parse_args()
    rows(given.methods, given.turns, given.profile)


if __name__ == "__main__":
    main()
