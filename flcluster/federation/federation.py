"""What a method may ask for: train these jobs, score these models. All rank and device logic is behind it."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import accumulate, islice
from math import prod
from typing import Any, TypeVar, cast

import numpy as np
import torch
from lightning import LightningModule
from lightning.fabric import Fabric
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from flcluster.data import FederatedDataModule, Shard, View
from flcluster.data.handed import view_of
from flcluster.errors import UserError
from flcluster.federation.bank import Bank, Table
from flcluster.federation.extras import Extras
from flcluster.federation.flat.evaluating import EVAL_BATCH, accuracy, mean_loss
from flcluster.federation.flat.trying import try_on
from flcluster.federation.jobs import Job, Observe, Seen, Trained, Training, samples_processed
from flcluster.federation.layout import Layout, check_row, square_norm
from flcluster.federation.lightning_worker import LightningWorker
from flcluster.federation.paths import check_classes, why_batches, why_trainer
from flcluster.federation.ranks import Ranks
from flcluster.federation.scores.accuracies import Accuracies, Hits, Rows
from flcluster.federation.scores.lately import Lately
from flcluster.federation.scores.scoring import Scoring
from flcluster.federation.together.rule import Wish, why_one_by_one
from flcluster.federation.together.several import Several
from flcluster.federation.worker import Worker
from flcluster.given import is_own
from flcluster.score import Score
from flcluster.seeds import torch_seed

T = TypeVar("T")
BankMaker = Callable[[int], Bank]
SHARED = 2e7
"""Samples times parameters from which a pass is shared out: a few milliseconds, where a message takes a few tenths."""

SHARDS = 2**22
"""Samples whose places are remembered, of clients that were asked for lately: 32 MB."""
NUMBERS = 2**20
"""Numbers that go into a pass at most in which it only counts whether samples are told right, if more than a batch."""


class Federation:
    """Clients, their data and the server's means of computing, seen as if there were one process.

    Every rank calls the same methods in the same order and gets the same answers; inside, jobs and evaluation batches
    are shared out. A client's model is never wrapped for data-parallel training: ranks hold different clients.
    """

    def __init__(
        self,
        fabric: Fabric,
        module: LightningModule,
        data: FederatedDataModule,
        bank: BankMaker,
        seed: int,
        scoring: Scoring | None = None,
        given: bool = False,
        extras: Extras | None = None,
        together: Wish | None = None,
    ) -> None:
        self.fabric, self.data, self.seed = fabric, data, seed
        self._wish = together or Wish()
        self.ranks = Ranks(fabric)
        extras = extras or Extras()
        self.by_trainer = extras.why(module) or why_trainer(module) or why_batches(data, module)
        """Why local training is done by Lightning's Trainer; None where the flat loop does it."""
        self.worker: Worker = self._worker(module, scoring or Scoring(), extras)
        self.first = self.layout.snapshot() if given or self.by_trainer else None
        """The module as it was given, where that is the first model."""
        self.bank = bank(self.layout.size)
        self._shards: Lately[Shard] = Lately(SHARDS, lambda shard: 64 + len(shard.train) + len(shard.test))
        self.now = 0.0
        """Virtual time at the start of the current round."""
        self.note: Callable[[str], None] = lambda text: None
        """Says what takes long; the run shows it."""
        self.largest: float | None = None
        """Largest sum of squares of a row that was trained; kept from when it is set to 0."""

    def _worker(self, module: LightningModule, scoring: Scoring, extras: Extras) -> Worker:
        self.score = Score()
        """What models are scored by."""
        if self.by_trainer is None:
            if scoring.metric is not None and "acc" not in scoring.metric.lower():
                name = type(module).__name__
                raise UserError(f"engine.metric is {scoring.metric}, but {name} is scored by accuracy: leave it out")
            check_classes(self.data, module)
            own = Worker(self.fabric, module, self.seed)
            if is_own(type(module)):
                for client in self.data.holding(0)[:1].tolist():
                    try_on(own, self.data.shard(client).train, self.data.num_classes)
            return own
        first = self.data.holding(0)
        probe = self.data.shard(int(first[0])).train if len(first) else self.data.pool("train")
        made = LightningWorker(self.fabric, module, self.seed, probe, self.data.batch_size, scoring, self.data, extras)
        made.tell = lambda text: self.note(text)
        tests = (self.data.shard(client).test for client in first.tolist())
        test = next((view for view in tests if len(view)), self.data.global_test())
        if test is not None and len(test):
            made.settle_score(test)
        self.score = made.scoring.score
        return cast(Worker, made)  # all that Federation and methods ask of a worker, or a refusal in one line

    @cached_property
    def proxies(self) -> list[View]:
        """The server's proxy sets, kept on the device from the first use on."""
        views = [view_of(self.data.proxy(k), self.data, "proxy") for k in range(self.data.num_clusters)]
        if not all(map(len, views)):
            raise UserError("this method needs proxy sets: data.proxy_size must be at least 1")
        for view in views:
            self.worker.pin(view)
        return views

    def shard(self, client: int, cycle: int = 0) -> Shard:
        """Return what a client holds in a cycle; what was asked for lately is not made again."""
        return self._shards.get((client, cycle), lambda: self.data.shard(client, cycle))

    @property
    def layout(self) -> Layout:
        """How a model lies in a row."""
        return self.worker.layout

    @property
    def device(self) -> torch.device:
        """Where rows of the server's state live."""
        return self.layout.row.device

    @property
    def travels(self) -> tuple[list[str], list[str]] | None:
        """What of a module of the user's own trains, and what else training changes; None where all of it travels."""
        if self.by_trainer is None:
            return None
        names = [(entry.name, entry.stop <= self.layout.num_parameters) for entry in self.layout.entries]
        return [name for name, trains in names if trains], [name for name, trains in names if not trains]

    @property
    def module(self) -> LightningModule:
        """The one module there is, with the row in it that was loaded last."""
        return self.worker.module

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser of local training, as the module configures it."""
        return self.worker.bare_optimizer

    @property
    def lr(self) -> float:
        """Learning rate of local training, before any decay."""
        return float(self.worker.rates[0])

    @property
    def constant_steps(self) -> bool:
        """Whether every local step is one of a single optimiser with one learning rate."""
        return self.worker.constant_steps

    @property
    def scales_losses(self) -> bool:
        """Whether half precision leaves out steps whose gradients overflow."""
        return self.worker.scaler is not None

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.ranks.rank == 0

    def table(self, name: str, per_client: int = 1) -> Table:
        """Return one row per client (or several), kept by the bank."""
        return self.bank.table(name, per_client * self.data.num_clients)

    def init_rows(self, count: int, first: int = 0) -> Tensor:
        """Return ``count`` independent random initialisations, ``[count, P]``: numbers ``first``, ``first`` + 1, …"""
        rows = []
        for i in range(first, first + count):
            with torch_seed(self.seed, "init", i):
                rows.append(self._first_row(i))
        return torch.stack(rows)

    def _first_row(self, number: int) -> Tensor:
        """Return a first model; a module of the user's own as it is given (number 0), or what trains drawn anew."""
        if self.first is not None and number == 0:
            return self.first.clone()
        if self.by_trainer is None:
            if self.first is not None:
                self.note(f"first model {number} is drawn anew: the given weights are those of the first")
            return Layout(built_anew(self.worker.module).to(self.device)).row
        assert self.first is not None
        self.layout.load(self.first)
        kept = redrawn(self.worker.module)
        said = f", but for {', '.join(kept)}, which stay as they were given" if kept else ""
        self.note(f"what trains of first model {number} is drawn anew{said}")
        return self.layout.snapshot()

    # training ---------------------------------------------------------------------------------------------------

    @cached_property
    def alone(self) -> str | None:
        """Why clients are trained one by one; None where they are trained in one pass (``engine.together``)."""
        if self.by_trainer is not None:
            return "a Trainer trains one module"
        clients = self.data.holding(0)[:1].tolist()
        views = [self.data.shard(client).train for client in clients] or [self.data.pool("train")]
        return self.ranks.agree(why_one_by_one(self.worker, views[0], self._wish))

    @cached_property
    def together(self) -> int:
        """How many clients each rank trains in one pass; a run that goes on sets what it began with."""
        return 1 if self.alone is not None else self._wish.most(self.layout.row_bytes)

    @cached_property
    def several(self) -> Several | None:
        """What trains them."""
        if self.together == 1 or self.alone is not None:
            return None
        return Several(self.worker, self.together, self._wish.work_limit(self.device))

    @property
    def pace(self) -> str:
        """How many clients are trained in one pass, or why one by one; for the run's first lines."""
        if self.alone is not None:
            return f"one by one ({self.alone})"
        limit = self._wish.work_limit(self.device)
        if limit is not None and self._wish.batch * self.layout.num_parameters > limit:
            return "one client at a time, its gradient written out"
        return f"up to {self.together} clients in one pass"

    @property
    def at_once(self) -> int:
        """How many jobs are worth having at a time."""
        each = 4 if self.ranks.size > 1 else 1
        return max(each, self.together) * self.ranks.size

    def train(self, jobs: Iterable[Job], observe: Observe[Seen] | None = None) -> Training[Seen]:
        """Train jobs over all ranks as one goes through the results, in the order of ``jobs``; few are asked for early.

        ``observe`` looks at a trained row where it was trained; what it returns is ``Trained.seen``.
        """
        return Training(self._train(iter(jobs), observe))

    def _train(self, coming: Iterator[Job], observe: Observe[Seen] | None) -> Iterator[Trained[Seen]]:
        while some := list(islice(coming, self.at_once)):
            yield from self._train_some(some, observe)

    def _train_some(self, jobs: Sequence[Job], observe: Observe[Seen] | None) -> list[Trained[Seen]]:
        for job in jobs:
            check_row(job.start, self.layout.row)
        load = [samples_processed(len(job.view), job.epochs, job.batch_size, job.steps) for job in jobs]
        owners = self.ranks.balance(load)
        own = [i for i, owner in enumerate(owners) if owner == self.ranks.rank]
        mine = dict(zip(own, self._trained([jobs[i] for i in own], observe), strict=True))
        rows = self.ranks.send_rows({i: t.row for i, t in mine.items()}, owners, self.layout.row)
        results: list[Trained[Seen]] = self.ranks.collect({i: t.light() for i, t in mine.items()}, len(jobs))
        for trained, row in zip(results, rows, strict=True):
            trained.row = row
            if self.largest is not None and trained.finite:
                self.largest = max(self.largest, float(square_norm(row)))
        return results

    def _trained(self, jobs: Sequence[Job], observe: Observe[Seen] | None) -> list[Trained[Seen]]:
        """Train this rank's jobs: in one pass, or one by one."""
        if self.several is not None:
            return self.several.train(jobs, observe)
        return [self.worker.train(job, observe) for job in jobs]

    def map(self, of: Callable[[Worker, int], T], views: Sequence[View]) -> list[T]:
        """Compute something for each view, by its number, where the ranks share the views out by size."""
        owners = self.ranks.balance([len(view) for view in views])
        mine = {i: of(self.worker, i) for i in range(len(views)) if owners[i] == self.ranks.rank}
        found: list[T] = self.ranks.collect(mine, len(views))
        return found

    def agree(self, value: T) -> T:
        """Return what the first rank has."""
        agreed: T = self.ranks.agree(value)
        return agreed

    def per_sample(self, rows: Tensor, view: View, size: int = EVAL_BATCH) -> Tensor:
        """Score R models on one view, so many samples at a time: ``[R, 2, n]``, per-sample losses and hits."""
        if not self.worker.samplewise:
            return torch.stack([self.worker.per_sample(row, view) for row in rows])
        parts = self.worker.parts(view, size)
        ends = list(accumulate(len(part) for part in parts))
        units = [(r, p) for r in range(len(rows)) for p in range(len(parts))]
        shared = self.ranks.size > 1 and self._worth_sharing(len(rows) * len(view))
        owners = self.ranks.balance([len(parts[p]) for _, p in units]) if shared else [self.ranks.rank] * len(units)
        out = torch.zeros(len(rows), 2, len(view), device=self.device)
        loaded = -1
        for owner, (r, p) in zip(owners, units, strict=True):
            if owner != self.ranks.rank:
                continue
            if r != loaded:
                self.layout.load(rows[r])
                loaded = r
            out[r, :, ends[p] - len(parts[p]) : ends[p]] = self.worker.score(parts[p])
        return self.ranks.sum(out) if shared else out

    def _worth_sharing(self, samples: int) -> bool:
        """Say whether a pass over so many samples takes longer than to tell the other ranks of its halves.

        What does not, every rank computes for itself: on CPUs alone, which find the same. Where ranks hold devices they
        agree on what one of them found.
        """
        return self.device.type != "cpu" or samples * self.layout.num_parameters >= SHARED

    def loss(self, row: Tensor, view: View) -> float:
        """Return a model's mean loss on a view."""
        if not self.worker.samplewise:
            return self.worker.loss_on(row, view)
        return mean_loss(self.per_sample(row[None], view)[0])

    def accuracy(self, row: Tensor, view: View) -> float:
        """Return a model's accuracy on a view, or whatever it is scored by (``score``)."""
        if not self.worker.samplewise:
            return self.worker.measure(row, view)
        return accuracy(self.per_sample(row[None], view)[0])

    def goodness(self, row: Tensor, view: View) -> float:
        """Return a model's score on a view so that larger is better, for methods that choose by it."""
        return self.score.goodness(self.accuracy(row, view))

    def client_accuracies(self, models: Rows, labels: NDArray[np.int64], cycle: int) -> NDArray[np.float64]:
        """Return each client's accuracy on its own test data with the model it is served; NaN without test data."""
        clients = np.flatnonzero(labels >= 0)
        tests = [self.shard(client, cycle).test for client in clients.tolist()]
        scores = np.full(len(labels), np.nan)
        scores[clients] = self.accuracies(models, labels[clients].tolist(), tests)
        return scores

    def accuracies(self, models: Rows, which: Sequence[int], tests: Sequence[View]) -> NDArray[np.float64]:
        """Return the accuracy on each test set of the model that goes with it; NaN without samples."""
        if self.worker.samplewise:
            return self._accuracies.of(models, which, tests)
        found = self.map(lambda worker, i: worker.measure(models[which[i]].to(self.device), tests[i]), tests)
        return np.array(found, dtype=np.float64)

    @cached_property
    def _accuracies(self) -> Accuracies:
        most = min(SHARED / self.layout.num_parameters, NUMBERS / prod(self.data.input_shape))
        size = max(EVAL_BATCH, int(most))

        def score(row: Tensor, view: View) -> Hits:
            hits: Hits = self.per_sample(row[None].to(self.device), view, size)[0, 1].cpu().numpy() > 0
            return hits

        return Accuracies(score)

    def represent(self, of: Callable[[Worker, View], Tensor], views: Sequence[View]) -> NDArray[np.float32]:
        """Compute one small vector per view, shared out over the ranks, ``[n, D]``."""
        return torch.stack(self.map(lambda worker, i: of(worker, views[i]).cpu(), views)).numpy()

    def cluster_accuracies(self, models: Tensor, named: bool = True) -> list[float]:
        """Return the accuracy on each cluster's evaluation split of the model that stands for it.

        If the models are not ``named`` (model j need not mean cluster j), the best one-to-one matching is taken.
        """
        clusters = range(self.data.num_clusters)
        tests = [view_of(self.data.cluster_test(k), self.data, "cluster_test") for k in clusters]
        if named:
            return [self.accuracy(row, test) for row, test in zip(models, tests, strict=True)]
        table = np.array([[self.accuracy(row, test) for test in tests] for row in models])
        which, cluster = linear_sum_assignment(table, maximize=self.score.higher)
        matched = dict(zip(cluster.tolist(), which.tolist(), strict=True))
        return [float(table[matched[k], k]) if k in matched else math.nan for k in range(len(tests))]


def _rebuilds(kind: type, hparams: dict[str, Any]) -> bool:
    """Say whether hyper-parameters alone build a module: none of them is a module, and none is missing."""
    try:
        inspect.signature(kind).bind(**hparams)
    except TypeError:
        return False
    return not any(isinstance(value, nn.Module) for value in hparams.values())


def redrawn(module: nn.Module) -> list[str]:
    """Draw the layers of a module anew that train and can be; return the parameters that train and stay as they are."""
    kept = []
    for name, part in module.named_modules():
        own = [key for key, parameter in part.named_parameters(recurse=False) if parameter.requires_grad]
        reset = getattr(part, "reset_parameters", None)
        if own and callable(reset):
            reset()
        elif own:
            kept += [f"{name}.{key}".lstrip(".") for key in own]
    return kept


def built_anew(module: LightningModule) -> LightningModule:
    """Construct the same module again with fresh random weights: from its saved hyper-parameters if it has them."""
    hparams = dict(getattr(module, "hparams", None) or {})
    if hparams and _rebuilds(type(module), hparams):
        return type(module)(**hparams)
    copy = deepcopy(module)
    for part in copy.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
    return copy
