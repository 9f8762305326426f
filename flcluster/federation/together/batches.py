"""Which samples every client of a stack trains on at every step: the batches of one by one, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcluster.federation.jobs import Job
from flcluster.seeds import rng

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The batches of some clients, the one with most steps first."""

    index: Index
    """The place of every sample among the samples of all clients, ``[steps, clients, batch]``."""
    weights: NDArray[np.float32]
    """What each counts in the loss of its batch, ``[steps, clients, batch]``; nothing, to fill up."""
    steps: list[int]
    """How many steps each client takes, never rising."""

    def active(self, step: int) -> int:
        """Return how many clients, the first ones, take a step."""
        return sum(steps > step for steps in self.steps)


def batches_of(job: Job, n: int, size: int, seed: int) -> tuple[Index, Index]:
    """Return the samples of each of a job's batches, ``[steps, size]``, and how many of them the batch has.

    Orders are those of one by one. A short batch is filled up with its own first sample, so that nothing comes in that
    it does not hold.
    """
    cuts = -(-n // job.batch_size)
    planned = cuts * job.epochs if job.steps is None else job.steps
    draw = rng(seed, job.purpose, job.client, job.cycle)
    index = np.zeros((-(-planned // cuts), cuts, size), dtype=np.int64)
    last = n - (cuts - 1) * job.batch_size
    for epoch in index:
        order = draw.permutation(n)
        if cuts > 1:
            epoch[:-1] = order[: n - last].reshape(cuts - 1, size)
        epoch[-1, :last], epoch[-1, last:] = order[n - last :], order[n - last]
    lengths = np.full(index.shape[:2], job.batch_size)
    lengths[:, -1] = last
    return index.reshape(-1, size)[:planned], lengths.reshape(-1)[:planned]


def schedule(jobs: Sequence[Job], sizes: Sequence[int], size: int, seed: int, rows: int) -> tuple[Schedule, list[int]]:
    """Lay the batches of some jobs side by side; also return the order that the jobs are taken in.

    Args:
        jobs: The jobs, whose samples lie one after the other.
        sizes: How many samples each has.
        size: Length of a batch; shorter ones are filled up.
        seed: The run's.
        rows: Clients that there is room for, at least as many as jobs; those that are none count nothing.
    """
    found = [batches_of(job, n, size, seed) for job, n in zip(jobs, sizes, strict=True)]
    order = sorted(range(len(jobs)), key=lambda i: -len(found[i][0]))
    steps, first = [len(found[i][0]) for i in order], np.cumsum([0, *sizes])
    index = np.zeros((steps[0], rows, size), dtype=np.int64)
    counts = np.ones((steps[0], rows, 1), dtype=np.float32)
    for place, i in enumerate(order):
        samples, lengths = found[i]
        np.add(samples, first[i], out=index[: len(samples), place])
        counts[: len(samples), place, 0] = lengths
    weights = (np.arange(size) < counts) / counts
    return Schedule(index, weights.astype(np.float32), steps), order


def rows_for(count: int) -> int:
    """Return how many rows a stack of some clients has: few widths are enough, and less than a quarter is unused.

    >>> [rows_for(count) for count in (1, 2, 3, 5, 9, 20, 24, 25, 40)]
    [2, 2, 3, 5, 10, 20, 24, 28, 40]
    """
    step = 1 << max(0, (count - 1).bit_length() - 3)
    return max(2, -(-count // step) * step)


def batch_for(n: int, batch_size: int) -> int:
    """Return the length of the batches of a client with ``n`` samples: that of the job, or less where it has fewer.

    It depends on nothing but the client, as all that happens to its row.

    >>> [batch_for(n, 50) for n in (1, 5, 8, 30, 40, 50, 600)]
    [8, 8, 8, 32, 50, 50, 50]
    """
    return min(batch_size, max(8, 1 << (n - 1).bit_length()))
