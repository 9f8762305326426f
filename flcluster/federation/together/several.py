"""What one process does with several clients at once: it trains them in one pass, and looks at them in one."""

import time
from collections.abc import Hashable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from flcluster.data import View
from flcluster.federation.flat.evaluating import accuracy, mean_loss, moments
from flcluster.federation.flat.fetching import fetched, number
from flcluster.federation.jobs import Job, Observe, Seen, Trained, samples_processed
from flcluster.federation.together.batches import batch_for
from flcluster.federation.together.dense import Dense, stack_of
from flcluster.federation.together.scores import on_one, on_own
from flcluster.federation.together.training import Descent
from flcluster.federation.worker import Worker

Samples = tuple[Tensor, Tensor]


class Several:
    """Trains jobs in groups of those that are alike; jobs that need more than a stack can do go one by one.

    Args:
        worker: Trains one by one, and has the module.
        most: How many clients are trained in one pass at most.
        work: The most numbers (parameters times samples of a batch) with which it pays; None: always.
    """

    def __init__(self, worker: Worker, most: int, work: int | None) -> None:
        self.worker, self.most, self.work = worker, most, work
        self.stack = stack_of(worker.module, worker.layout, worker.loss)

    def train(self, jobs: Sequence[Job], observe: Observe[Seen] | None = None) -> list[Trained[Seen]]:
        """Run jobs, look at the trained rows, and return them in the order of the jobs."""
        found: dict[int, Trained[Seen]] = {}
        groups: dict[Hashable, list[tuple[int, Samples]]] = {}
        for i, job in enumerate(jobs):
            if self.takes(job):
                samples = self.worker.to_device(*job.view.tensors())
                groups.setdefault(alike(job, samples), []).append((i, samples))
            else:
                found[i] = self.worker.train(job, observe)
        for group in groups.values():
            most = 1 if self.is_large(jobs[group[0][0]]) else self.most
            for at in range(0, len(group), most):
                places, samples_of = zip(*group[at : at + most], strict=True)
                results = self._trained([jobs[i] for i in places], samples_of, observe)
                found |= dict(zip(places, results, strict=True))
        return [found[i] for i in range(len(jobs))]

    def takes(self, job: Job) -> bool:
        """Say whether a job is one for the stack: that depends on the job alone, not on what there is beside it."""
        plain = job.recipe is None and job.objective is None and len(job.view) > 0
        optimizer = self.worker.bare_optimizer
        plain = plain and (job.momentum is None or type(optimizer) is torch.optim.SGD)
        return plain and (isinstance(self.stack, Dense) or not self.is_large(job))

    def is_large(self, job: Job) -> bool:
        """Say whether the matrices of one client keep the device busy, so that several at once are not faster."""
        work = self.worker.layout.num_parameters * batch_for(len(job.view), job.batch_size)
        return self.work is not None and work > self.work

    def _trained(
        self, jobs: Sequence[Job], samples: Sequence[Samples], observe: Observe[Seen] | None
    ) -> list[Trained[Seen]]:
        began, worker, first = time.perf_counter(), self.worker, jobs[0]
        lr, size = worker.rates[0] * first.lr_factor, batch_for(len(first.view), first.batch_size)
        trained = Descent(self.stack, jobs, samples, size, worker.seed, worker.bare_optimizer, lr).run()
        results: list[Trained[Seen]] = []
        for job, found in zip(jobs, trained, strict=True):
            n = len(job.view)
            result: Trained[Seen] = Trained(job.client, found.row, n, found.steps, found.loss, finite=found.finite)
            result.lr, result.processed = lr, samples_processed(n, job.epochs, job.batch_size, job.steps)
            result.seconds = (time.perf_counter() - began) / len(jobs)
            results.append(result)
        self._look(jobs, results, observe)
        return results

    def _look(self, jobs: Sequence[Job], results: Sequence[Trained[Seen]], observe: Observe[Seen] | None) -> None:
        """Say how good each result is; score where it began; let the method see it."""
        pairs = list(zip(jobs, results, strict=True))
        tested = [(job.test, result) for job, result in pairs if job.test is not None and result.finite]
        scores = on_own(self.stack, self.worker, [each.row for _, each in tested], [test for test, _ in tested])
        asked = [(job, result) for job, result in pairs if job.scores_start]
        starts = on_own(self.stack, self.worker, [job.start for job, _ in asked], [job.view for job, _ in asked])
        beside = cast(Worker, Beside(self, [result.row for result in results]))
        shown = [(job, result) for job, result in pairs if observe is not None and result.finite]
        for job, result in shown:
            result.seen = None if observe is None else observe(beside, job, result)
        seen = [result for _, result in shown if isinstance(result.seen, Tensor)]
        host = iter(fetched([*scores, *(own[0] for own in starts), *(cast(Tensor, each.seen) for each in seen)]))
        for _, result in tested:
            result.accuracy = number(next(host)[1].double().mean())
        for _, result in asked:
            result.start_loss, result.start_square = moments(next(host))
        for result in seen:
            result.seen = cast(Seen, next(host))


def alike(job: Job, samples: Samples) -> Hashable:
    """Return what jobs must have in common to be trained in one pass."""
    x, y = samples
    size = batch_for(len(job.view), job.batch_size)
    pull = (job.prox, job.lr_factor, job.momentum, job.correction is not None)
    return size, pull, x.shape[1:], x.dtype, y.shape[1:], y.dtype


class Beside:
    """The worker as methods see it that look at one row of several.

    What they ask of a view that the server keeps (a proxy set) they will ask of every row: it is computed once for all.
    """

    def __init__(self, several: Several, rows: Sequence[Tensor]) -> None:
        self._stack, self._worker, self._rows = several.stack, several.worker, rows
        self._places = {id(row): place for place, row in enumerate(rows)}
        self._known: dict[View, Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    def per_sample(self, row: Tensor, view: View) -> Tensor:
        """Return ``[2, n]``: each sample's loss, and 1 where the prediction is right."""
        place = self._places.get(id(row))
        if place is None or view not in self._worker.cut:
            return self._worker.per_sample(row, view)
        if view not in self._known:
            self._known[view] = on_one(self._stack, self._worker, self._rows, view)
        return self._known[view][place]

    def evaluate(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return a model's mean loss and its accuracy on a view."""
        scores = self.per_sample(row, view)
        return mean_loss(scores), accuracy(scores)

    def loss_on(self, row: Tensor, view: View) -> float:
        """Return a model's mean loss on a view."""
        return self.evaluate(row, view)[0]

    def mean_losses(self, row: Tensor, views: Sequence[View]) -> Tensor:
        """Return a model's mean loss on each of some views, where the row lies: nothing is waited for."""
        wide = torch.float32 if row.device.type == "mps" else torch.float64
        return torch.stack([self.per_sample(row, view)[0].to(wide).mean() for view in views])
