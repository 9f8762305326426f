"""Time per client update of the engine against a plain eager PyTorch loop over the same batches.

Both train the same model from the same start on the same samples in the same order, turn by turn in one process, so
that a noisy machine disturbs both alike; the median of the ratios counts. Run: python tests/benchmarks/overhead.py
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from lightning.fabric import Fabric

from flcluster.data import View
from flcluster.datamodules import Images, ImageSource
from flcluster.engine.process import keep_freed_memory
from flcluster.federation.jobs import Job
from flcluster.federation.worker import Worker
from flcluster.modules import CNN, MLP
from flcluster.modules.classifier import Classifier
from flcluster.seeds import rng

SAMPLES, BATCH = 1250, 128


def random_view(shape: tuple[int, int, int]) -> View:
    """Return a client's worth of random images of a FashionMNIST-like pool."""
    pool = torch.randint(0, 256, (5000, *shape), dtype=torch.uint8)
    labels = torch.randint(0, 10, (5000,))
    source = ImageSource(Images(pool, labels), [0.5] * shape[0], [0.25] * shape[0], angle=90.0)
    return View(((source, torch.randperm(5000)[:SAMPLES]),))


def plain_update(model: Classifier, start: dict[str, torch.Tensor], view: View, job: Job, channels_last: bool) -> float:
    """Do one client update as a user would write it by hand; return the seconds it took."""
    began = time.perf_counter()
    model.load_state_dict(start)
    model.train()
    x, y = view.tensors()
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = model.configure_optimizers()
    order = rng(0, "train", job.client, job.cycle)
    for _ in range(job.epochs):
        for index in torch.from_numpy(order.permutation(len(y))).split(job.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
    return time.perf_counter() - began


def measure(name: str, make: type[Classifier], repeats: int, epochs: int, **kwargs: object) -> None:
    """Print the ratio for one model."""
    shape = (1, 28, 28)
    view = random_view(shape)
    worker = Worker(Fabric(accelerator="cpu", devices=1), make(10, shape, **kwargs), seed=0)  # type: ignore[arg-type]
    job = Job(0, worker.layout.snapshot(), view, epochs, BATCH)
    start = worker.layout.state_dict(job.start)
    plain, last = make(10, shape, **kwargs), make(10, shape, **kwargs)  # type: ignore[arg-type]
    last = last.to(memory_format=torch.channels_last)
    times: dict[str, list[float]] = {"engine": [], "plain": [], "plain, channels_last": []}
    for i in range(repeats + 1):
        seconds = {
            "engine": worker.train(job).seconds,
            "plain": plain_update(plain, start, view, job, False),
            "plain, channels_last": plain_update(last, start, view, job, True),
        }
        if i:  # the first turn warms up
            for key, value in seconds.items():
                times[key].append(value)
    for key in ("plain", "plain, channels_last"):
        ratio = statistics.median(a / b for a, b in zip(times["engine"], times[key], strict=True))
        ours, theirs = statistics.median(times["engine"]), statistics.median(times[key])
        print(f"{name:<10} engine {1e3 * ours:7.1f} ms   {key:<21}{1e3 * theirs:7.1f} ms   ratio {ratio:.2f}")


def main() -> None:
    """Measure the papers' CNN and a small and a large MLP."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    print(f"{SAMPLES} samples, batch {BATCH}, {given.epochs} epochs, {given.threads} thread(s), Adam")
    measure("CNN", CNN, given.repeats, given.epochs)
    measure("MLP 200", MLP, given.repeats, given.epochs, hidden=[200], optimizer="adam", lr=0.001)
    measure("MLP 2048", MLP, given.repeats, given.epochs, hidden=[2048], optimizer="adam", lr=0.001)


if __name__ == "__main__":
    main()
