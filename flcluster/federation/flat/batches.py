"""The batches of a local training: all orders of the samples are drawn at once, and few copies are made."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from flcluster.federation.jobs import Job, samples_processed
from flcluster.seeds import rng

AT_ONCE = 2**23
"""Bytes of inputs that are shuffled in one copy: several epochs of a small client."""

Batch = tuple[Tensor, Tensor]


class Plan:
    """How many batches a job has, and how many samples of an epoch they use."""

    def __init__(self, job: Job, n: int, batch_norm: bool) -> None:
        self.size = job.batch_size
        self.used = samples_processed(n, 1, self.size, None, batch_norm)
        """Samples of an epoch; BatchNorm cannot train on a last batch of one."""
        self.each = -(-self.used // self.size)
        """Batches of an epoch."""
        wanted = self.each * job.epochs if job.steps is None else job.steps
        self.steps = wanted if self.each else 0
        self.epochs = -(-self.steps // self.each) if self.each else 0
        """Epochs that are begun."""


def orders_of(job: Job, seed: int, n: int, epochs: int) -> Tensor:
    """Draw the order of a job's samples in each epoch, ``[epochs, n]``."""
    draw, orders = rng(seed, job.purpose, job.client, job.cycle), np.empty((epochs, n), dtype=np.int64)
    for order in orders:
        order[:] = draw.permutation(n)
    return torch.from_numpy(orders)


def batches_of(plan: Plan, orders: Tensor, x: Tensor, y: Tensor) -> Iterator[Batch]:
    """Yield a plan's batches in given orders."""
    together = max(1, AT_ONCE // max(1, x.nbytes))
    epoch = [min(plan.size, plan.used - at) for at in range(0, plan.used, plan.size)]
    left = plan.steps
    for some in orders[:, : plan.used].split(together):
        order, sizes = some.flatten(), epoch * len(some)
        found = zip(chosen(x, order).split(sizes), chosen(y, order).split(sizes), strict=True)
        for _, batch in zip(range(left), found, strict=False):
            yield batch
        left -= len(sizes)


def chosen(x: Tensor, order: Tensor) -> Tensor:
    """Return samples in an order, lying in memory as they did."""
    if x.is_contiguous():
        return x.index_select(0, order)
    if x.dim() == 4:  # index_select alone would lose channels_last
        return x.permute(0, 2, 3, 1).index_select(0, order).permute(0, 3, 1, 2)
    return x[order]
