"""What one process does with one model: the only local training loop, and evaluation."""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from lightning import LightningModule
from lightning.fabric import Fabric
from torch import Tensor, nn

from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.descent import descend
from flcluster.federation.jobs import Job, Observe, Recipe, Seen, Trained, samples_processed
from flcluster.federation.layout import Layout
from flcluster.federation.looking import Looking
from flcluster.seeds import rng, torch_seed

EVAL_BATCH = 128


class Worker(Looking):
    """One model bound to one row, an optimiser on it, and loops over batches. Knows nothing of other processes."""

    samplewise, constant_steps = True, True
    """Losses of single samples are known; every step is one of a single optimiser with one learning rate."""

    def __init__(self, fabric: Fabric, module: LightningModule, seed: int) -> None:
        self.fabric, self.seed = fabric, seed
        self.module = module.to(fabric.device)
        self.layout = Layout(self.module)
        self.loss = _loss_of(module)
        optimizer = self.layout.flat_optimizer(_single_optimizer(module))
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.momenta = [group.get("momentum") for group in optimizer.param_groups]
        self.scaler: Any = getattr(fabric.strategy.precision, "scaler", None)
        self.scaler_start = self.scaler.state_dict() if self.scaler else {}
        self.bare_optimizer = optimizer
        self.optimizer: Any = fabric.setup_optimizers(optimizer) if self.scaler else optimizer
        self.counters = [(b, b.clone()) for b in module.buffers() if not b.is_floating_point()]
        self.cut: dict[View, list[View]] = {}
        self.pinned: dict[View, tuple[Tensor, Tensor]] = {}

    # training ---------------------------------------------------------------------------------------------------

    def train(self, job: Job, observe: Observe[Seen] | None = None) -> Trained[Seen]:
        """Run one job; look at the trained row, and return it."""
        began = time.perf_counter()
        x, y = self.to_device(*job.view.tensors())
        self.layout.load(job.start)
        self._reset(job.lr_factor, job.momentum)
        optimizer = self.optimizer if job.recipe is None else self._server_optimizer(job.recipe)
        anchor = job.start if job.anchor is None else job.anchor
        pull = anchor[: self.layout.num_parameters].to(self.layout.row.device) if job.prox else None
        self.module.train()
        with torch_seed(self.seed, job.purpose, job.client, job.cycle):
            loss, steps = descend(
                self._batches(job, x, y, optimizer),
                lambda batch: self._loss(job, *batch),
                lambda value: self._step(value, job, pull, optimizer),
                x.device,
            )
        result: Trained[Seen] = Trained(job.client, self.layout.snapshot(), len(y), steps, loss)
        result.lr = self.rates[0] * job.lr_factor
        result.processed = samples_processed(len(y), job.epochs, job.batch_size, job.steps, self.layout.has_batch_norm)
        result.seconds = time.perf_counter() - began
        self._look(job, result, observe)
        return result

    def _loss(self, job: Job, x: Tensor, y: Tensor) -> Tensor:
        with self.fabric.autocast():
            return self.loss(self.module(x), y) if job.objective is None else job.objective(self, x, y)

    def _step(self, loss: Tensor, job: Job, pull: Tensor | None, optimizer: Any) -> None:
        self.layout.grad.zero_()
        self._backward(loss)
        clip = None if job.recipe is None else job.recipe.clip
        if not (pull is None and job.correction is None and clip is None):
            self._bend(job, pull, clip)
        optimizer.step()

    def _bend(self, job: Job, pull: Tensor | None, clip: float | None) -> None:
        """Add to the gradients, or shorten them, in the scale that they have."""
        scale = self.scaler.get_scale() if self.scaler else 1.0
        if pull is not None:
            self.layout.grad.add_(self.layout.row[: len(pull)] - pull, alpha=job.prox * scale)
        if job.correction is not None:
            self.layout.grad.add_(job.correction.to(self.layout.grad.device), alpha=scale)
        if clip is not None:
            nn.utils.clip_grad_norm_([self.layout.parameter], clip * scale)

    def _server_optimizer(self, recipe: Recipe) -> Any:
        parameters = [p for group in self.bare_optimizer.param_groups for p in group["params"]]
        made = torch.optim.Adam(parameters, lr=recipe.lr)
        return self.fabric.setup_optimizers(made) if self.scaler else made

    @staticmethod
    def _follow(recipe: Recipe, optimizer: Any, done: float) -> None:
        factor = (1 + math.cos(math.pi * done)) / 2 if recipe.cosine else 1.0
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * factor

    def _backward(self, loss: Tensor) -> None:
        if self.scaler:
            self.fabric.backward(loss)
        else:
            loss.backward()

    def _batches(self, job: Job, x: Tensor, y: Tensor, optimizer: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches of each epoch, shuffled, until the job's epochs or steps are done."""
        order = rng(self.seed, job.purpose, job.client, job.cycle)
        cuts = self._cuts(len(y), job.batch_size)
        planned = len(cuts) * job.epochs if job.steps is None or not cuts else job.steps
        for done in range(planned):
            at = cuts[done % len(cuts)]
            if at.start == 0:
                shuffled = torch.from_numpy(order.permutation(len(y))).to(x.device)
                xs, ys = x[shuffled], y[shuffled]  # indexing keeps channels_last, index_select does not
            if job.recipe is not None:
                self._follow(job.recipe, optimizer, done / planned)
            yield xs[at], ys[at]

    def _cuts(self, n: int, size: int) -> list[slice]:
        cuts = [slice(a, min(a + size, n)) for a in range(0, n, size)]
        if self.layout.has_batch_norm and n % size == 1:
            cuts.pop()  # BatchNorm cannot train on a batch of one
        return cuts

    def _reset(self, lr_factor: float, momentum: float | None) -> None:
        self.bare_optimizer.state.clear()
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

    # evaluation -------------------------------------------------------------------------------------------------

    def per_sample(self, row: Tensor, view: View) -> Tensor:
        """Return ``[2, n]``: each sample's loss, and 1 where the prediction is right."""
        self.layout.load(row)
        nothing = torch.zeros(2, 0, device=row.device)
        return torch.cat([nothing, *(self.score(part) for part in self.parts(view))], dim=1)

    def evaluate(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return a model's mean loss and its accuracy on a view."""
        scores = self.per_sample(row, view)
        return mean_loss(scores), accuracy(scores)

    def start_losses(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return the mean of a model's losses on training samples, and the mean of their squares."""
        losses = self.per_sample(row, view)[0].double()
        return float(losses.mean()), float(losses.square().mean())

    @torch.inference_mode()
    def score(self, part: View) -> Tensor:
        """Score the currently loaded model on one part of a view."""
        x, y = self.pinned.get(part) or self.to_device(*part.tensors())
        if self.module.training:
            self.module.eval()
        with self.fabric.autocast():
            logits = self.module(x)
        right = (logits.argmax(1) == y).float()
        return torch.stack([self.loss(logits.float(), y, reduction="none"), right])

    @torch.inference_mode()
    def features(self, row: Tensor, view: View) -> Tensor:
        """Return what the head reads of each sample, ``[n, F]``, in evaluation mode."""
        read = getattr(self.module, "features", None)
        if read is None:
            raise UserError(f"{type(self.module).__name__} has no method features(x): use another representation")
        self.layout.load(row)
        self.module.eval()
        with self.fabric.autocast():
            return torch.cat([read(self.to_device(*part.tensors())[0]).float() for part in self.parts(view)])

    def gradient(self, row: Tensor, view: View) -> Tensor:
        """Return the gradient of a model's mean loss on a view, over the parameters, in evaluation mode."""
        self.layout.load(row)
        self.layout.grad.zero_()
        self.module.eval()
        for part in self.parts(view):
            x, y = self.to_device(*part.tensors())
            with self.fabric.autocast():
                loss = self.loss(self.module(x), y, reduction="sum") / len(view)
            loss.backward()
        return self.layout.grad.clone()

    def parts(self, view: View) -> list[View]:
        """Cut a view into evaluation batches."""
        return self.cut.get(view) or list(view.split(EVAL_BATCH))

    def pin(self, view: View) -> None:
        """Keep a view's tensors on the device: it will be asked for again and again."""
        self.cut[view] = list(view.split(EVAL_BATCH))
        for part in self.cut[view]:
            self.pinned[part] = self.to_device(*part.tensors())

    def to_device(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Move a batch to the device, images in channels_last order."""
        x = x.to(self.fabric.device)
        return (x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x), y.to(self.fabric.device)


def mean_loss(scores: Tensor) -> float:
    """Mean loss of ``[2, n]`` per-sample scores."""
    return float(scores[0].cpu().double().mean())


def accuracy(scores: Tensor) -> float:
    """Share of right predictions in ``[2, n]`` per-sample scores."""
    return float(scores[1].cpu().double().mean())


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
        raise UserError(f"{type(module).__name__}.configure_optimizers must return one torch optimiser, got {made!r}")
    return made
