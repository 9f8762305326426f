"""What every model shares: features and head apart, one loss, and the steps a plain Trainer calls."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torchmetrics.classification import MulticlassAccuracy

Batch = tuple[Tensor, Tensor]
OptimizerName = Literal["sgd", "adam", "adamw"]


def positive_ints(name: str, values: Sequence[int]) -> tuple[int, ...]:
    """Return ``values`` as plain integers, or say which argument ``name`` is wrong."""
    try:
        plain = tuple(operator.index(value) for value in values)
    except TypeError:
        plain = (0,)
    if any(value < 1 for value in plain):
        raise ValueError(f"{name}: expected positive integers, got {values!r}")
    return plain


class Classifier(LightningModule, ABC):
    """Base of every model here: an image classifier whose ``forward`` is ``head(features(x))``.

    flcluster calls ``module(x)`` and ``module.loss(logits, y, reduction=...)`` and keeps the steps below for the
    Trainer. Features and head are apart because embeddings, generators and distillation need the features alone.
    A subclass calls ``super().__init__``, builds ``self.head`` and defines ``features``; its arguments must be
    primitives, which a checkpoint keeps so that ``load_from_checkpoint`` needs the path only.

    Args:
        num_classes: Number of classes, at least 2.
        input_shape: Channels, height and width of an image.
        optimizer: Optimiser of the local training.
        lr: Learning rate.
        momentum: Momentum of SGD; Adam and AdamW do not use it.
        weight_decay: L2 penalty of SGD and Adam, decoupled weight decay of AdamW.
    """

    head: nn.Linear
    flat_loop: ClassVar[bool] = True
    """Whether flcluster's own loop may train it: as long as a subclass leaves the Trainer's hooks as they are."""
    images: ClassVar[bool] = True
    """Whether an input must be an image: channels, height and width."""

    def __init__(
        self,
        num_classes: int,
        input_shape: Sequence[int],
        optimizer: OptimizerName = "sgd",
        lr: float = 0.1,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        if num_classes == 0:
            raise ValueError(
                f"{type(self).__name__} tells classes apart, but these data do not say the class of each sample: use a "
                "module of your own, or say where they are (labels, num_classes)"
            )
        super().__init__()
        (self.num_classes,) = positive_ints("num_classes", (num_classes,))
        self.input_shape = positive_ints("input_shape", input_shape)
        if not self.input_shape or (self.images and len(self.input_shape) != 3):
            wanted = "(channels, height, width)" if self.images else "the shape of an input"
            raise ValueError(f"input_shape: expected {wanted}, got {self.input_shape}")
        _check(self.num_classes, optimizer, lr, momentum, weight_decay)
        self.save_hyperparameters()
        # A datamodule may hand over a torch.Size or NumPy integers, which weights_only=True would refuse.
        self.hparams.update(num_classes=self.num_classes, input_shape=self.input_shape)
        # Metric states are neither buffers nor part of the state dict: a model's row holds the model alone.
        self.train_acc, self.val_acc, self.test_acc = (
            MulticlassAccuracy(self.num_classes, average="micro", validate_args=False) for _ in range(3)
        )
        self.class_names: tuple[str, ...] = ()
        """What the classes are called, where that is known: exported checkpoints tell it."""
        self.normalisation: dict[str, tuple[float, ...]] | None = None
        """``mean`` and ``std`` that pixels in [0, 1] are normalised by before they come in, where that is known."""

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Map images to what the head reads, ``[batch, head.in_features]``."""

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, ``[batch, num_classes]``."""
        if x.shape[1:] != self.input_shape:
            raise ValueError(f"x: expected shape [batch, *{self.input_shape}], got {tuple(x.shape)}")
        logits: Tensor = self.head(self.features(x))
        return logits

    def loss(self, logits: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
        """Return the cross-entropy as a ``mean``, a ``sum`` or (``none``) one value a sample."""
        return F.cross_entropy(logits, y, reduction=reduction)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch; log ``train_loss`` and ``train_acc``."""
        return self._step("train", batch, self.train_acc)

    def validation_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch; log ``val_loss`` and ``val_acc``."""
        return self._step("val", batch, self.val_acc)

    def test_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch; log ``test_loss`` and ``test_acc``."""
        return self._step("test", batch, self.test_acc)

    def predict_step(self, batch: Batch | Tensor, batch_idx: int) -> dict[str, Tensor | list[str]]:
        """Return ``logits``, ``probabilities`` and the most likely ``class``, by name too where names are known."""
        logits = self(batch if isinstance(batch, Tensor) else batch[0])
        found: dict[str, Tensor | list[str]] = {"class": logits.argmax(1)}
        if self.class_names:
            found["class_name"] = [self.class_names[number] for number in logits.argmax(1).tolist()]
        return {**found, "probabilities": logits.softmax(1), "logits": logits}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what classes are called and how pixels are normalised."""
        checkpoint |= {"class_names": list(self.class_names), "normalisation": self.normalisation}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take up what classes are called and how pixels are normalised."""
        self.class_names = tuple(checkpoint.get("class_names") or ())
        self.normalisation = checkpoint.get("normalisation")

    def _step(self, stage: str, batch: Batch, accuracy: MulticlassAccuracy) -> Tensor:
        x, y = batch
        logits = self(x)
        loss = self.loss(logits, y)
        accuracy.update(logits, y)
        size = len(y)
        self.log(f"{stage}_loss", loss, on_step=False, on_epoch=True, batch_size=size, prog_bar=True, sync_dist=True)
        self.log(f"{stage}_acc", accuracy, on_step=False, on_epoch=True, batch_size=size, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Optimizer:
        """Make the optimiser the hyper-parameters name."""
        name, lr, decay = self.hparams["optimizer"], self.hparams["lr"], self.hparams["weight_decay"]
        if name == "sgd":
            return torch.optim.SGD(self.parameters(), lr, momentum=self.hparams["momentum"], weight_decay=decay)
        adam = torch.optim.Adam if name == "adam" else torch.optim.AdamW
        return adam(self.parameters(), lr, weight_decay=decay)


def _check(num_classes: int, optimizer: str, lr: float, momentum: float, weight_decay: float) -> None:
    if num_classes < 2:
        raise ValueError(f"num_classes: expected at least 2, got {num_classes}")
    if optimizer not in ("sgd", "adam", "adamw"):
        raise ValueError(f"optimizer: expected sgd, adam or adamw, got {optimizer!r}")
    if not lr > 0:
        raise ValueError(f"lr: expected a positive number, got {lr}")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum: expected a number in [0, 1), got {momentum}")
    if not weight_decay >= 0:
        raise ValueError(f"weight_decay: expected a number of at least 0, got {weight_decay}")
