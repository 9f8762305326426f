"""What one process does with a module of the user's own: every local training is a ``Trainer.fit``."""

import math
import time
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from flcluster.data import FederatedDataModule, View
from flcluster.errors import UserError
from flcluster.federation.extras import Extras
from flcluster.federation.flat.trying import check_finite
from flcluster.federation.jobs import Job, Observe, Seen, Trained, samples_processed
from flcluster.federation.layout import all_finite
from flcluster.federation.looking import Looking
from flcluster.federation.paths import fed_by, lightning_of
from flcluster.federation.scores.scoring import Scoring, UnscoredError
from flcluster.federation.trainer.as_given import AsGiven, Unchanged, mark
from flcluster.federation.trainer.copied import Copied, tensors_of
from flcluster.federation.trainer.local_training import PROBE, LocalTraining, Shuffled, hook
from flcluster.federation.trainer.quiet import alone, quiet
from flcluster.given import named
from flcluster.seeds import every_seed, rng

SILENT = 3
"""Trainings without a loss from the start on, after which there will be none."""


class LightningWorker(Looking):
    """One module and Trainers for it. Knows nothing of other processes.

    What travels is what trains and what training changes besides, found by a short training at the start. Everything
    else (frozen weights, constants) is kept once, in the module.
    """

    samplewise = False
    """Whether losses of single samples are known: a ``validation_step`` tells means."""

    def __init__(
        self,
        fabric: Fabric,
        module: Any,
        seed: int,
        probe: View,
        batch_size: int,
        scoring: Scoring,
        data: Any = None,
        extras: Extras | None = None,
    ) -> None:
        self.extras = extras or Extras()
        self.fabric, self.seed, self.scoring, self.data = fabric, seed, scoring, data
        self.module = module.to(fabric.device)
        self.package = lightning_of(module)
        self.scaler: Any = None
        self.pinned: dict[View, tuple[Tensor, Tensor]] = {}
        _whole(self.module)
        self.given = AsGiven(self.module, self.package)
        self.silent: int | None = 0
        """Trainings so far that had no loss; None once one had."""
        self.validates = False
        """Whether local trainings validate too: where a schedule watches what only validation logs."""
        self.layout, self.first, self.constants = self._probed(probe, batch_size)
        kept = {*self.constants, *(entry.name for entry in self.layout.entries)}
        self.unchanged = Unchanged(self.module, [name for name in tensors_of(self.module) if name not in kept])

    def _probed(self, view: View, batch_size: int) -> tuple[Copied, Tensor, dict[str, Tensor]]:
        """Train for a moment; return what travels, the module as it was given, and counters to be set back."""
        began, marks = dict[str, Tensor](), dict[str, Any]()

        def remember(module: Any) -> None:
            began.update({name: tensor.detach().clone() for name, tensor in _whole(module).items()})
            marks.update({name: mark(tensor) for name, tensor in _whole(module).items()})

        job = Job(0, torch.zeros(0), view, 1, batch_size, purpose="probe", steps=None)
        local = LocalTraining(job, None, remember)
        trainer = self._fit(job, local)
        # where configure_optimizers returns none, a Trainer has one that does nothing
        self.optimizers = [made for made in trainer.optimizers if type(made).__name__ != "_MockOptimizer"]
        self.schedulers = list(trainer.lr_scheduler_configs)
        if not self.optimizers:
            raise UserError(f"{named(self.module, 'configure_optimizers')} returns no optimiser: nothing would train")
        self._check_learning(local)
        self.validates = self._watches_validation(trainer, view)
        now, buffers = _whole(self.module), dict(self.module.named_buffers())
        for name in now.keys() ^ began.keys():
            raise UserError(f"{type(self.module).__name__} makes or drops {name} in training: make it in __init__")
        for name in now:
            if now[name].shape != began[name].shape:
                raise UserError(
                    f"training changes the shape of {name} in {type(self.module).__name__}: no row holds that"
                )
        trained = [name for name, parameter in self.module.named_parameters() if parameter.requires_grad]
        # what was written to travels, even if the first steps wrote what was there (a momentum encoder's do)
        moved = [name for name in now if mark(now[name]) != marks[name] or not _same(now[name], began[name])]
        moved = [name for name in moved if name not in trained]
        changed = [name for name in moved if _is_real(now[name])]
        counters = [name for name in now if name in moved or (name in buffers and not _is_real(now[name]))]
        with torch.no_grad():
            for name, tensor in now.items():
                tensor.copy_(began[name])
        layout = Copied(self.module, trained, changed, self.fabric.device)
        return layout, layout.snapshot(), {name: began[name] for name in counters if name not in changed}

    def _check_learning(self, local: LocalTraining) -> None:
        """Refuse a module that the short training could not train, on samples that are finite."""
        self._check_heard(local)
        trained = [parameter for parameter in self.module.parameters() if parameter.is_floating_point()]
        if local.first is None or all(all_finite(parameter.detach()) for parameter in trained):
            return
        check_finite(local.first, self.module, "training_step")
        raise UserError(
            f"{named(self.module)}: its weights are not finite after {PROBE} batches: lower its learning rate, or look "
            "at the gradients of its loss"
        )

    def _check_heard(self, local: LocalTraining) -> None:
        """Refuse a module whose first trainings had no loss at all; single batches or clients may have none."""
        if self.silent is None or not self.module.automatic_optimization:
            return
        self.silent = None if local.batches else self.silent + 1
        if self.silent == SILENT:
            raise UserError(f"{named(self.module, 'training_step')} returns no loss: nothing would train")

    def _watches_validation(self, trainer: Any, view: View) -> bool:
        """Say whether a schedule watches what training does not log; refuse if there is nothing to validate on."""
        watched = [config.monitor for config in self.schedulers if config.reduce_on_plateau]
        missing = [name for name in watched if name not in trainer.callback_metrics]
        if missing and not _sets_apart(self.data):
            raise UserError(
                f"a schedule of {type(self.module).__name__} watches {missing[0]}, which training_step does not log, "
                "and clients have nothing to validate on: set data.val_share, or watch what training_step logs"
            )
        return bool(missing)

    def _validation(self, job: Job) -> View | None:
        """What a training validates on: what its client set apart, or what it trains on where nobody did."""
        if not self.validates:
            return None
        apart = self.data.shard(job.client, job.cycle).val if job.purpose == "train" else None
        return apart if apart is not None and len(apart) else job.view

    # what a method may ask ----------------------------------------------------------------------------------------

    @property
    def rates(self) -> list[float]:
        """Learning rates of the first optimiser."""
        return [group["lr"] for group in self.optimizers[0].param_groups]

    @property
    def bare_optimizer(self) -> torch.optim.Optimizer:
        """The first optimiser of the module."""
        found: torch.optim.Optimizer = self.optimizers[0]
        return found

    @property
    def constant_steps(self) -> bool:
        """Whether every step is one of a single optimiser with one learning rate throughout."""
        plain = not self.schedulers and not self.extras.clips
        return len(self.optimizers) == 1 and plain and bool(self.module.automatic_optimization)

    # training -----------------------------------------------------------------------------------------------------

    def train(self, job: Job, observe: Observe[Seen] | None = None) -> Trained[Seen]:
        """Run one job by a Trainer; look at the trained row, and return it."""
        if job.objective is not None or job.recipe is not None:
            raise UserError(
                f"this method trains {type(self.module).__name__} on a loss of its own, which only models of "
                "flcluster.modules can have: use one of those, or another method"
            )
        began = time.perf_counter()
        local = LocalTraining(job, self.layout, self._set_back)
        if len(job.view):
            trainer = self._fit(job, local)
            steps = int(trainer.global_step)
            self._check_heard(local)
        else:
            self.layout.load(job.start)
            steps = 0
        result: Trained[Seen] = Trained(job.client, self.layout.snapshot(), len(job.view), steps, local.mean)
        result.lr = self.rates[0] * job.lr_factor
        norm = self.layout.has_batch_norm
        result.processed = samples_processed(len(job.view), job.epochs, job.batch_size, job.steps, norm)
        result.seconds = time.perf_counter() - began
        self.unchanged.check()
        self._look(job, result, observe)
        return result

    def _set_back(self, module: Any) -> None:
        """Set counters and other constants back: a job must not feel what was trained before it."""
        held = tensors_of(module)
        with torch.no_grad():
            for name, value in self.constants.items():
                held[name].copy_(value)

    def _fit(self, job: Job, local: Any) -> Any:
        order = rng(self.seed, job.purpose, job.client, job.cycle)
        # an epoch's batches are those of the flat loop, and in its order
        plain = job.view.loader(job.batch_size, training=True)
        norm = any("BatchNorm" in type(part).__name__ for part in self.module.modules())
        batches = Shuffled(len(job.view), job.batch_size, order, norm)
        loader: DataLoader[Any] = DataLoader(plain.dataset, batch_sampler=batches, collate_fn=plain.collate_fn)
        length = {"max_epochs": job.epochs} if job.steps is None else {"max_epochs": -1, "max_steps": job.steps}
        loaders, view = {"train": loader}, self._validation(job)
        if view is not None:
            loaders["val"] = view.loader(job.batch_size)
        else:
            length["limit_val_batches"] = 0
        given = {**self.extras.arguments, **length}
        self.given.restore()
        with (
            self.extras.blamed(self.module),
            quiet(all_of_it=local.layout is not None),
            alone(),
            every_seed(self.seed, job.purpose, job.client, job.cycle),
        ):
            trainer = self._trainer([hook(self.package, local), *self.extras.fresh()], **given)
            trainer.fit(self.module, datamodule=self._fed(trainer, **loaders))
        return trainer

    def _fed(self, trainer: Any, **loaders: DataLoader[Any]) -> Any:
        """Return a datamodule that has some loaders, and the data's own hooks on batches."""
        return fed_by(self.package, self.data, trainer, **loaders)

    def _trainer(self, callbacks: list[Any], **more: Any) -> Any:
        single = self.package.strategies.SingleDeviceStrategy
        device = self.fabric.device
        with quiet():
            trainer = self.package.Trainer(
                accelerator="cpu" if device.type == "cpu" else "gpu",
                devices=1,
                strategy=single(device=device),
                precision=self.fabric.strategy.precision.precision,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                num_sanity_val_steps=0,
                use_distributed_sampler=False,
                callbacks=callbacks,
                **more,
            )
        trainer._signal_connector.register_signal_handlers = lambda: None  # the run has its own
        return trainer

    # evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return a model's mean loss and score on a view, as its ``validation_step`` logs them; NaN without data."""
        if len(view) == 0:
            return math.nan, math.nan
        self.layout.load(row)
        with quiet(), alone(), every_seed(self.seed, "validate", 0):
            return self.scoring.measured(self.module, view, self._scored, self.fabric.device)

    def settle_score(self, view: View) -> None:
        """Find out, with the module as it was given and one batch, what it is scored by."""
        self.layout.load(self.first)
        with quiet(), alone(), every_seed(self.seed, "validate", 0):
            one = partial(self._scored, limit_val_batches=1, limit_test_batches=1)
            try:
                self.scoring = self.scoring.settled(self.module, view, one)
            except UnscoredError:  # it trains all the same; methods that compare losses refuse it
                self.scoring = replace(self.scoring, known=True)
        self.layout.load(self.first)

    def needs_losses(self) -> None:
        """Refuse where ``validation_step`` logs no loss."""
        if self.scoring.known and self.scoring.loss is None:
            raise UserError(
                f"this method compares models by their losses, but {type(self.module).__name__}.validation_step logs "
                'none: log one there, under a name with "loss" in it'
            )

    def _scored(self, stage: str, loader: DataLoader[Any], **limits: int) -> Any:
        """Return what a module logs in ``validation_step`` (val) or ``test_step`` (test)."""
        trainer = self._trainer([], **limits)
        run = trainer.validate if stage == "val" else trainer.test
        return run(self.module, datamodule=self._fed(trainer, **{stage: loader}), verbose=False)

    def start_losses(self, row: Tensor, view: View) -> tuple[float, float]:
        """Refuse: the mean of squares takes losses of single samples."""
        raise self._missing("the losses of single samples")

    def per_sample(self, row: Tensor, view: View) -> Tensor:
        """Refuse: a ``validation_step`` tells no losses of single samples."""
        raise self._missing("the losses of single samples")

    def features(self, row: Tensor, view: View) -> Tensor:
        """Refuse: what the head reads is known of our own classifiers only."""
        raise self._missing("what the model's head reads")

    def gradient(self, row: Tensor, view: View) -> Tensor:
        """Refuse: the loss of a batch is inside ``training_step``."""
        raise self._missing("the gradient of the loss")

    def _missing(self, what: str) -> UserError:
        name = type(self.module).__name__
        return UserError(f"this method needs {what}, which {name} does not tell: use a model of flcluster.modules")

    def to_device(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Refuse: what a batch becomes on the device is the Trainer's."""
        raise self._missing("the model's logits of samples")

    def parts(self, view: View) -> list[View]:
        """A view as it is: it is read batch by batch."""
        return [view]

    def pin(self, view: View) -> None:
        """Nothing is kept on the device."""


def _sets_apart(data: Any) -> bool:
    """Say whether clients have samples to validate on."""
    if not isinstance(data, FederatedDataModule):
        return False
    first = data.holding(0)
    return len(first) > 0 and data.shard(int(first[0])).val is not None


def _whole(module: Any) -> dict[str, Tensor]:
    """Return a module's tensors, all of which must be there."""
    held = tensors_of(module)
    for name, tensor in held.items():
        if is_lazy(tensor):
            raise UserError(
                f"{type(module).__name__}.{name} has no shape yet: send a batch through its lazy layers in __init__"
            )
    return held


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal, NaN with NaN."""
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))
