"""What one process does with one model: the only local training loop."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from lightning import LightningModule
from lightning.fabric import Fabric
from torch import Tensor, nn

from flcluster.errors import UserError
from flcluster.federation.descent import descend, mean_of
from flcluster.federation.flat.batches import Batch, Plan, batches_of, orders_of
from flcluster.federation.flat.evaluating import Evaluating, moments
from flcluster.federation.flat.fetching import fetched, number
from flcluster.federation.flat.stepping import Steps, steps_of
from flcluster.federation.jobs import Job, Observe, Recipe, Seen, Trained, samples_processed
from flcluster.federation.layout import square_norm
from flcluster.given import described, named
from flcluster.seeds import torch_seed


class Worker(Evaluating):
    """One model bound to one row, an optimiser on it, and loops over batches. Knows nothing of other processes."""

    samplewise, constant_steps = True, True
    """Losses of single samples are known; every step is one of a single optimiser with one learning rate."""

    def __init__(self, fabric: Fabric, module: LightningModule, seed: int) -> None:
        super().__init__(fabric, module, _loss_of(module))
        self.seed = seed
        optimizer = self.layout.flat_optimizer(_single_optimizer(module))
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.momenta = [group.get("momentum") for group in optimizer.param_groups]
        self.scaler: Any = getattr(fabric.strategy.precision, "scaler", None)
        self.scaler_start = self.scaler.state_dict() if self.scaler else {}
        self.bare_optimizer = optimizer
        self.steps = self._steps(optimizer)
        self.one = torch.ones(())
        self.counters = [(b, b.clone()) for b in module.buffers() if not b.is_floating_point()]

    # training ---------------------------------------------------------------------------------------------------

    def train(self, job: Job, observe: Observe[Seen] | None = None) -> Trained[Seen]:
        """Run one job; look at the trained row, and return it. The device is waited for once, at the end."""
        began = time.perf_counter()
        x, y = self.to_device(*job.view.tensors())
        self.layout.load(job.start)
        self._reset(job.lr_factor, job.momentum)
        steps = self.steps if job.recipe is None else self._steps(self._server_optimizer(job.recipe))
        steps.begin()
        plan = Plan(job, len(y), self.layout.has_batch_norm)
        orders = orders_of(job, self.seed, len(y), plan.epochs).to(x.device)
        self.learning(True)
        with torch_seed(self.seed, job.purpose, job.client, job.cycle):
            batches, step = batches_of(plan, orders, x, y), self._step_of(job, steps, plan.steps)
            losses = descend(batches, self._loss_of(job), step, x.device)
        result: Trained[Seen] = Trained(job.client, self.layout.snapshot(), len(y), len(losses), math.nan)
        result.lr = self.rates[0] * job.lr_factor
        result.processed = samples_processed(len(y), job.epochs, job.batch_size, job.steps, self.layout.has_batch_norm)
        self._look_once(job, result, losses, observe)
        result.seconds = time.perf_counter() - began
        return result

    def _loss_of(self, job: Job) -> Callable[[Batch], Tensor]:
        """Return the loss of a batch."""
        module, own, objective = self.module, self.loss, job.objective

        def plain(batch: Batch) -> Tensor:
            return own(module(batch[0]), batch[1])

        def given(batch: Batch) -> Tensor:
            with self.autocast():
                return plain(batch) if objective is None else objective(self, *batch)

        return plain if objective is None and self.autocast is nullcontext else given

    def _step_of(self, job: Job, steps: Steps, planned: int) -> Callable[[Tensor], None]:
        """Return what goes down a loss: along its gradient, or along what the job makes of it."""
        anchor = job.start if job.anchor is None else job.anchor
        pull = anchor[: self.layout.num_parameters].to(self.layout.row.device) if job.prox else None
        recipe = job.recipe
        straight = pull is None and job.correction is None and recipe is None
        rates = iter(()) if recipe is None else recipe.rates(planned)

        def directly(loss: Tensor) -> None:
            self.layout.add(self._gradients(loss), -steps.group["lr"])

        def bent(loss: Tensor) -> None:
            self._lay(loss)
            if not straight:
                self._bend(job, pull, None if recipe is None else recipe.clip)
            steps.group["lr"] = next(rates, steps.group["lr"])
            steps.take()

        return directly if straight and steps.direct else bent

    def _gradients(self, loss: Tensor) -> Sequence[Tensor | None]:
        """Return the gradient of each parameter that trains; on the host without what torch does around it."""
        trained = self.layout.training
        if loss.dim() or not loss.is_cpu:
            return torch.autograd.grad(loss, trained, allow_unused=True)
        run = torch.autograd.Variable._execution_engine.run_backward
        found: Sequence[Tensor | None] = run((loss,), (self.one,), False, False, trained, True, accumulate_grad=False)
        return found

    def _lay(self, loss: Tensor) -> None:
        """Lay the gradient of a loss into the layout, in the scale that half precision needs."""
        if self.scaler:
            self.layout.grad.zero_()
            self.fabric.backward(loss)
        else:
            self.layout.lay(self._gradients(loss))

    def _bend(self, job: Job, pull: Tensor | None, clip: float | None) -> None:
        """Add to the gradients, or shorten them, in the scale that they have."""
        scale = self.scaler.get_scale() if self.scaler else 1.0
        if pull is not None:
            self.layout.grad.add_(self.layout.row[: len(pull)] - pull, alpha=job.prox * scale)
        if job.correction is not None:
            self.layout.grad.add_(job.correction.to(self.layout.grad.device), alpha=scale)
        if clip is not None:
            nn.utils.clip_grad_norm_([self.layout.parameter], clip * scale)

    def _server_optimizer(self, recipe: Recipe) -> torch.optim.Optimizer:
        parameters = [p for group in self.bare_optimizer.param_groups for p in group["params"]]
        return torch.optim.Adam(parameters, lr=recipe.lr)

    def _steps(self, optimizer: torch.optim.Optimizer) -> Steps:
        """Return what takes an optimiser's steps; half precision's scaler wants the optimiser itself."""
        if self.scaler:
            return Steps(self.fabric.setup_optimizers(optimizer), self.layout)
        return steps_of(optimizer, self.layout)

    def _reset(self, lr_factor: float, momentum: float | None) -> None:
        for group, lr, own in zip(self.bare_optimizer.param_groups, self.rates, self.momenta, strict=True):
            group["lr"] = lr * lr_factor
            if own is not None:
                group["momentum"] = own if momentum is None else momentum
        if momentum is not None and not isinstance(self.bare_optimizer, torch.optim.SGD):
            raise UserError(
                f"this method sets SGD's momentum, but the model's optimiser is {type(self.bare_optimizer).__name__}"
            )
        for buffer, first in self.counters:  # a job must not feel what was trained before it
            buffer.copy_(first)
        if self.scaler:
            self.scaler.load_state_dict(self.scaler_start)

    # looking ----------------------------------------------------------------------------------------------------

    def _look_once(self, job: Job, result: Trained[Seen], losses: Tensor, observe: Observe[Seen] | None) -> None:
        """Say how training went, whether the result is finite and how good it is, and let the method see it."""
        nothing = losses.new_zeros(0)
        test = nothing if job.test is None else self._scores(job.test)[1]
        seen = None if observe is None else observe(self, job, result)
        start = self.per_sample(job.start, job.view)[0] if job.scores_start else nothing
        looked = seen if isinstance(seen, Tensor) else nothing
        host = fetched([losses, square_norm(result.row), test, start, looked])
        result.loss, result.finite = mean_of(host[0]), math.isfinite(number(host[1]))
        if job.scores_start:
            result.start_loss, result.start_square = moments(host[3])
        if not result.finite:
            return
        if job.test is not None:
            result.accuracy = number(host[2].double().mean())
        result.seen = cast(Seen, host[4]) if isinstance(seen, Tensor) else seen


def _loss_of(module: LightningModule) -> Callable[..., Tensor]:
    """Return the module's ``loss(logits, y, reduction=…)``, or cross-entropy if it has none of its own."""
    loss = getattr(module, "loss", None)
    if loss is None:
        return F.cross_entropy
    if type(loss) is nn.CrossEntropyLoss and loss.reduction == "mean":
        kept = {name: getattr(loss, name) for name in ("weight", "ignore_index", "label_smoothing")}
        return partial(F.cross_entropy, **kept)
    if isinstance(loss, nn.Module):
        raise UserError(
            f"{type(module).__name__}.loss must be a method loss(logits, y, reduction='mean'), not a module"
        )
    return cast(Callable[..., Tensor], loss)


def _single_optimizer(module: LightningModule) -> torch.optim.Optimizer:
    made = module.configure_optimizers()
    if not isinstance(made, torch.optim.Optimizer):
        told = named(module, "configure_optimizers")
        raise UserError(f"{told} must return one torch optimiser, but returned {described(made)}")
    return made
