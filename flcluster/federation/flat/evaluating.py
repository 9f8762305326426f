"""What one process asks of one model: losses and hits, features, gradients, batch by batch."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from lightning import LightningModule
from lightning.fabric import Fabric
from lightning.fabric.plugins.precision import Precision
from torch import Tensor, nn

from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.flat.fetching import fetched, number
from flcluster.federation.layout import Layout
from flcluster.federation.looking import Looking

EVAL_BATCH = 128


class Evaluating(Looking):
    """One model bound to one row, and loops over batches that train nothing."""

    def __init__(self, fabric: Fabric, module: LightningModule, loss: Callable[..., Tensor]) -> None:
        self.fabric, self.loss = fabric, loss
        self.module = module.to(fabric.device)
        self.layout = Layout(self.module)
        precision = type(fabric.strategy.precision)
        plain = precision.forward_context is Precision.forward_context
        self.autocast: Callable[[], AbstractContextManager[Any]] = nullcontext if plain else fabric.autocast
        self.cut: dict[View, list[View]] = {}
        self.pinned: dict[View, tuple[Tensor, Tensor]] = {}
        modules = list(module.modules())
        self._plain = modules if all(type(part).train is nn.Module.train for part in modules) else None
        """All parts of the module, if each is told by a flag alone whether it learns."""

    def learning(self, mode: bool) -> None:
        """Set the module to training or evaluation."""
        if self._plain is None:
            self.module.train(mode)
            return
        for part in self._plain:
            part.training = mode

    def per_sample(self, row: Tensor, view: View) -> Tensor:
        """Return ``[2, n]``: each sample's loss, and 1 where the prediction is right."""
        self.layout.load(row)
        return self._scores(view)

    def _scores(self, view: View) -> Tensor:
        """Score the currently loaded model on a view, ``[2, n]``."""
        found = [self.score(part) for part in self.parts(view)]
        return torch.cat(found, dim=1) if found else torch.zeros(2, 0, device=self.layout.row.device)

    def mean_losses(self, row: Tensor, views: Sequence[View]) -> Tensor:
        """Return a model's mean loss on each of some views, where the row lies: nothing is waited for."""
        self.layout.load(row)
        wide = torch.float32 if row.device.type == "mps" else torch.float64
        return torch.stack([self._scores(view)[0].to(wide).mean() for view in views])

    def evaluate(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return a model's mean loss and its accuracy on a view."""
        (scores,) = fetched([self.per_sample(row, view)])
        return mean_loss(scores), accuracy(scores)

    def start_losses(self, row: Tensor, view: View) -> tuple[float, float]:
        """Return the mean of a model's losses on training samples, and the mean of their squares."""
        (losses,) = fetched([self.per_sample(row, view)[0]])
        return moments(losses)

    @torch.inference_mode()
    def score(self, part: View) -> Tensor:
        """Score the currently loaded model on one part of a view."""
        x, y = self.pinned.get(part) or self.to_device(*part.tensors())
        if self.module.training:
            self.learning(False)
        with self.autocast():
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
        self.learning(False)
        with self.autocast():
            return torch.cat([read(self.to_device(*part.tensors())[0]).float() for part in self.parts(view)])

    def gradient(self, row: Tensor, view: View) -> Tensor:
        """Return the gradient of a model's mean loss on a view, over the parameters, in evaluation mode."""
        self.layout.load(row)
        self.layout.grad.zero_()
        self.learning(False)
        for part in self.parts(view):
            x, y = self.to_device(*part.tensors())
            with self.autocast():
                loss = self.loss(self.module(x), y, reduction="sum") / len(view)
            loss.backward()
        return self.layout.grad.clone()

    def parts(self, view: View, size: int = EVAL_BATCH) -> list[View]:
        """Cut a view into evaluation batches."""
        return self.cut.get(view) or list(view.split(size))

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
    return number(scores[0].cpu().double().mean())


def accuracy(scores: Tensor) -> float:
    """Share of right predictions in ``[2, n]`` per-sample scores."""
    return number(scores[1].cpu().double().mean())


def moments(losses: Tensor) -> tuple[float, float]:
    """Return the mean of losses that are on the host, and the mean of their squares."""
    wide = losses.double()
    return number(wide.mean()), number(wide.square().mean())
