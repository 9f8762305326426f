"""Clients trained in one pass against the same clients one by one: the numbers behind the rule of engine.together.

Both train the same jobs turn by turn in one process, in CPU time, so that a noisy machine disturbs both alike; medians
count. Run: python tests/benchmarks/together.py
"""

import argparse
import statistics
import time

import torch
from lightning.fabric import Fabric
from told import Told

from flcluster.data import View
from flcluster.engine.process import keep_freed_memory
from flcluster.federation.jobs import Job
from flcluster.federation.together.several import Several
from flcluster.federation.worker import Worker
from flcluster.modules import CNN, MLP
from flcluster.modules.classifier import Classifier

DIGITS, MNIST = (1, 8, 8), (1, 28, 28)


class Samples:
    """Random images."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self.x, self.y = torch.randn(count, *shape), torch.randint(10, (count,))

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return samples."""
        return self.x[index], self.y[index]


def measure(name: str, module: Classifier, sizes: list[int], batch: int, repeats: int) -> float:
    """Print what one client costs both ways, the ratio, and the work of a step; return the ratio."""
    source, ends = Samples(sum(sizes), module.input_shape), torch.tensor(sizes).cumsum(0).tolist()
    worker = Worker(Fabric(accelerator="cpu", devices=1), module, seed=0)
    views = [View(((source, torch.arange(end - n, end)),)) for end, n in zip(ends, sizes, strict=True)]
    jobs = [Job(m, worker.layout.snapshot(), view, epochs=5, batch_size=batch) for m, view in enumerate(views)]
    several = Several(worker, len(jobs), None)
    alone, together = [], []
    for _ in range(repeats):
        began = time.process_time()
        for job in jobs:
            worker.train(job)
        between = time.process_time()
        several.train(jobs)
        alone.append(between - began)
        together.append(time.process_time() - between)
    late = slice(repeats // 2, None)  # once the steps have been recorded
    one, many = (1e3 * statistics.median(found[late]) / len(jobs) for found in (alone, together))
    work = worker.layout.num_parameters * batch
    told = f"{one:7.2f} ms one by one, {many:7.2f} ms in one pass, ratio {one / many:4.1f}"
    print(f"{name:34s} {len(jobs):3d} clients: {told} (first {1e3 * together[0] / len(jobs):.2f} ms; work {work:,})")
    return one / many


def rows(quick: bool = False, repeats: int = 31) -> list[Told]:
    """Return how many times as fast clients are in one pass, once its steps have been recorded."""
    counts = (24, 50)
    found = [
        measure("digits 64-64-10, sgd", MLP(10, DIGITS, hidden=[64]), [100] * n, 20, 2 if quick else repeats)
        for n in counts
    ]
    return [
        Told(f"Digits MLP 64-64-10, {n} clients: one by one / in one pass", ratio, "≥ 6" if n == 24 else "")
        for n, ratio in zip(counts, found, strict=True)
    ]


def main() -> None:
    """Measure dense networks of growing size, unequal clients, and a convolutional network."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=31)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.manual_seed(0)
    for count in (8, 24, 50):
        measure("digits 64-64-10, sgd", MLP(10, DIGITS, hidden=[64]), [100] * count, 20, repeats)
    unequal = torch.randint(40, 101, (24,)).tolist()
    measure("digits 64-64-10, sgd, 40 to 100", MLP(10, DIGITS, hidden=[64]), unequal, 20, repeats)
    measure("digits 64-64-10, adam", MLP(10, DIGITS, hidden=[64], optimizer="adam", lr=0.003), [100] * 24, 20, repeats)
    for width, batch in ((200, 32), (200, 128), (800, 20)):
        measure(
            f"digits 64-{width}-10, sgd, batch {batch}", MLP(10, DIGITS, hidden=[width]), [256] * 20, batch, repeats
        )
    for batch in (5, 50):
        measure(f"784-200-10, sgd, batch {batch}", MLP(10, MNIST, hidden=[200]), [200] * 10, batch, repeats)
    small = CNN(10, DIGITS, channels=(8, 16), kernel_size=3, padding=1, hidden=32, optimizer="sgd", weight_decay=0.0)
    measure("small CNN on digits, sgd", small, [100] * 10, 20, max(3, repeats // 3))


if __name__ == "__main__":
    main()
