"""What a method adds to a Trainer's training of one client: where it starts, on which batches, what bends gradients."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Sampler

from flcluster.errors import UserError
from flcluster.federation.flat.trying import check_loss
from flcluster.federation.jobs import Job
from flcluster.federation.trainer.copied import Copied, as_real

PROBE = 2
"""Batches of the training that shows what training changes."""


class Shuffled(Sampler[list[int]]):
    """The batches of an epoch, drawn anew each time; with BatchNorm a trailing batch of one is left out."""

    def __init__(self, n: int, size: int, order: np.random.Generator, batch_norm: bool) -> None:
        self.n, self.size, self.order, self.short = n, size, order, batch_norm and n % size == 1

    def __len__(self) -> int:
        return -(-self.n // self.size) - self.short

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = self.order.permutation(self.n)
        for batch in range(len(self)):
            yield shuffled[batch * self.size : (batch + 1) * self.size].tolist()


class LocalTraining:
    """What a method adds to a Trainer: where it starts, learning rates, what bends gradients; and it hears the loss."""

    def __init__(self, job: Job, layout: Copied | None, before: Any) -> None:
        self.job, self.layout, self.before = job, layout, before
        self.total, self.batches = 0.0, 0
        self.first: float | None = None
        """Loss of the first batch that has one, if all numbers of that batch are finite."""

    @property
    def mean(self) -> float:
        """Mean training loss over all batches; NaN if ``training_step`` returns none."""
        return self.total / self.batches if self.batches else math.nan

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        """Load the row, now that the module is set up."""
        self.before(module)
        if self.layout is not None:
            self.layout.load(self.job.start)

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Set learning rates and momentum."""
        if self.layout is None:  # nothing is validated in the short training at the start
            for config in trainer.lr_scheduler_configs:
                config.strict = False
        factor, momentum = self.job.lr_factor, self.job.momentum
        for group in (group for optimizer in trainer.optimizers for group in optimizer.param_groups):
            group["lr"] *= factor
            if momentum is not None and "momentum" not in group:
                raise UserError("this method sets SGD's momentum, and the module's optimiser has none")
            if momentum is not None:
                group["momentum"] = momentum
        if factor != 1:
            for config in trainer.lr_scheduler_configs:
                config.scheduler.base_lrs = [rate * factor for rate in getattr(config.scheduler, "base_lrs", [])]

    def on_before_backward(self, trainer: Any, module: Any, loss: Any) -> None:
        """Refuse, in the short training at the start, a loss that nothing can be learnt from."""
        if self.layout is None:
            check_loss(loss, module, "training_step")

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        """Add the proximal pull and the correction to the gradients of this optimiser's parameters."""
        job, layout = self.job, self.layout
        if layout is None or not (job.prox or job.correction is not None):
            return
        anchor = job.start if job.anchor is None else job.anchor
        stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
        held = dict(module.named_parameters())
        for entry in layout.entries:
            parameter = held.get(entry.name)
            if (
                parameter is None
                or id(parameter) not in stepped
                or parameter.grad is None
                or not parameter.requires_grad
            ):
                continue
            held_now, gradient = as_real(parameter.detach()), as_real(parameter.grad)
            if job.prox:
                gradient.add_(held_now - layout.part(anchor, entry).to(held_now), alpha=job.prox)
            if job.correction is not None:
                gradient.add_(layout.part(job.correction, entry).to(held_now))

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Add up the loss; the short training at the start ends early."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if isinstance(loss, Tensor):
            if self.layout is None and not self.batches and all_tensors_finite(batch):
                self.first = float(loss.detach())
            self.total, self.batches = self.total + float(loss.detach()), self.batches + 1
        if self.layout is None and batch_idx + 1 >= PROBE:
            trainer.should_stop = True


def all_tensors_finite(batch: Any) -> bool:
    """Say whether all numbers of a batch are finite, whatever it is made of.

    >>> import torch
    >>> all_tensors_finite({"x": [torch.ones(2), "a"]}), all_tensors_finite((torch.tensor([math.nan]),))
    (True, False)
    """
    if isinstance(batch, Tensor):
        return bool(batch.isfinite().all())
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
    return all(all_tensors_finite(part) for part in parts)


HOOKS = ("on_fit_start", "on_train_start", "on_before_backward", "on_before_optimizer_step", "on_train_batch_end")


def hook(package: Any, local: LocalTraining) -> Any:
    """Return a callback of the module's own package that does what ``local`` says."""
    callback = package.Callback()
    for name in HOOKS:
        setattr(callback, name, getattr(local, name))
    return callback
