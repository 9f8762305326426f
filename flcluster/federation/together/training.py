"""Local training of many clients in one pass."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flcluster.federation.descent import descend
from flcluster.federation.flat.batches import chosen
from flcluster.federation.jobs import Job
from flcluster.federation.together.batches import Schedule, schedule
from flcluster.federation.together.dense import Dense
from flcluster.federation.together.optimise import Optimiser
from flcluster.federation.together.stack import Stack

AT_ONCE = 2**25
"""Bytes of inputs that are gathered in one piece: a few steps of all clients, or all of them."""


@dataclass(eq=False)
class Batch:
    """A step's inputs, labels and weights, ``[C, batch, …]`` each, and the place of its losses, ``[C]``."""

    told: Tensor
    x: Tensor
    y: Tensor
    weights: Tensor

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a loss is computed of."""
        return self.x, self.y, self.weights


@dataclass(frozen=True, eq=False)
class Result:
    """What comes of a job."""

    row: Tensor
    steps: int
    loss: float
    """The mean over all steps."""
    finite: bool


class Descent:
    """The stacked rows of some clients that train alike: the same optimiser, pull and length of a batch.

    Clients that take fewer steps are done earlier: those that still train are always the first rows.

    Args:
        stack: The module.
        jobs: What each trains; they differ in their samples, their start, and in how many steps they take.
        samples: The inputs and labels of each.
        size: Length of a batch.
        seed: The run's.
        like: An optimiser whose settings are taken over.
        lr: Learning rate.
    """

    def __init__(
        self,
        stack: Stack,
        jobs: Sequence[Job],
        samples: Sequence[tuple[Tensor, Tensor]],
        size: int,
        seed: int,
        like: torch.optim.Optimizer,
        lr: float,
    ) -> None:
        self.stack, self.first = stack, jobs[0]
        self.x, self.y = (torch.cat(parts) if len(jobs) > 1 else parts[0] for parts in zip(*samples, strict=True))
        self.plan, self.order = schedule(jobs, [len(y) for _, y in samples], size, seed, stack.room(len(jobs)))
        ordered = [jobs[i] for i in self.order]
        layout, device = stack.layout, self.x.device
        self.rows = stack.laid([job.start for job in ordered], stack.room(len(jobs)))
        self.parameters = self.rows[:, : layout.num_parameters]
        self.gradients = torch.zeros_like(self.parameters)
        self.optimizer = Optimiser(like, self.parameters, self.gradients, lr, self.first.momentum)
        self.anchors = self._laid([job.start if job.anchor is None else job.anchor for job in ordered if job.prox])
        self.corrections = self._laid([job.correction for job in ordered if job.correction is not None])
        bent = self.anchors is not None or self.corrections is not None
        self.direct = stack if isinstance(stack, Dense) and self.optimizer.bare and not bent else None
        """What adds gradients as it computes them, where a step does nothing else with them."""
        self.told = torch.zeros(len(self.plan.index) + 1, len(self.rows), device=device)
        """The loss of each step, and at the end the square norm of the trained row, ``[steps + 1, C]``."""
        self.done = torch.zeros_like(self.rows)
        self._narrow(len(jobs))

    def _laid(self, rows: Sequence[Tensor]) -> Tensor | None:
        """Stack what every client has a row of."""
        return self.stack.laid(rows, *self.gradients.shape) if rows else None

    def run(self) -> list[Result]:
        """Train; return what comes of each job, in their order. The device is waited for once."""
        self.stack.learning(True)
        with torch.no_grad():
            descend(self._batches(), self._loss, self._step, self.x.device)
        rows = self.stack.rows(self.done)
        self.told[-1] = torch.linalg.vecdot(rows, rows)
        told = self.told.cpu().numpy()
        sums = told[:-1].cumsum(0)  # one after the other, as one by one: the same bits whoever trains beside it
        found = {}
        for place, (i, steps) in enumerate(zip(self.order, self.plan.steps, strict=True)):
            mean = float(sums[steps - 1, place]) / steps
            found[i] = Result(rows[place].clone(), steps, mean, math.isfinite(told[-1, place]))
        return [found[i] for i in range(len(found))]

    def _batches(self) -> Iterator[Batch]:
        """Yield the batches of those that still train, and keep the row of whoever is done."""
        for first, last in pieces(self.plan, AT_ONCE // max(1, self.x[:1].nbytes)):
            active = self.plan.active(first)
            self._narrow(active)
            index, weights = (
                torch.from_numpy(part[first:last, : self.width]).to(self.x.device)
                for part in (self.plan.index, self.plan.weights)
            )
            x, y = (chosen(part, index.flatten()).unflatten(0, index.shape) for part in (self.x, self.y))
            yield from map(
                Batch, self.told[first:last, : self.width].unbind(), x.unbind(), y.unbind(), weights.unbind()
            )
            self.done[:active].copy_(self.rows[:active])

    def _narrow(self, active: int) -> None:
        self.width = self.stack.room(active)
        self.tensors = self.stack.tensors(self.rows[: self.width])
        self.places = self.stack.parts(self.gradients[: self.width])
        self.optimizer.narrow(self.width)

    def _loss(self, batch: Batch) -> Tensor:
        """Lay each client's gradients in its row, and return a loss that nobody reads: each client has its own."""
        if self.direct is not None:
            losses, found = self.direct.descend(*batch.given, self.tensors, self.optimizer.group["lr"]), []
        else:
            losses, *found = self.stack.gradients(*batch.given, self.tensors)
        batch.told.copy_(losses)
        for place, gradient in zip(self.places, found, strict=self.direct is None):
            place.copy_(gradient)
        return losses[0]

    def _step(self, loss: Tensor) -> None:
        """Bend the gradients as the jobs say, and step, unless that was done."""
        if self.direct is not None:
            return
        rows, gradients = self.parameters[: self.width], self.gradients[: self.width]
        if self.anchors is not None:
            gradients.add_(rows - self.anchors[: self.width], alpha=self.first.prox)
        if self.corrections is not None:
            gradients.add_(self.corrections[: self.width])
        self.optimizer.step()


def pieces(plan: Schedule, samples: int) -> Iterator[tuple[int, int]]:
    """Cut a schedule where a client is done, and so that a piece holds not more than so many samples."""
    rows, size = plan.index.shape[1:]
    most = max(1, samples // (rows * size))
    ends = sorted(set(plan.steps))
    for first, last in zip([0, *ends], ends, strict=False):
        for at in range(first, last, most):
            yield at, min(at + most, last)
