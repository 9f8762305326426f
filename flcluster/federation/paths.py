"""Which of two ways a module is trained: by the one flat loop, or by a Trainer of Lightning's own."""

import sys
from types import ModuleType
from typing import Any

import lightning.pytorch
import torch

from flcluster.errors import UserError
from flcluster.given import is_own, named

NOT_HOOKS = {"forward", "configure_optimizers", "loss", "features", "predict_step", "extra_repr", "__init__"}
"""What a classifier of ours may have of its own and still be trained by the flat loop."""


def lightning_of(module: Any) -> ModuleType:
    """Return the package that a module is made with: ``lightning.pytorch``, or the other one, ``pytorch_lightning``."""

    other = sys.modules.get("pytorch_lightning")
    if other is not None and isinstance(module, other.LightningModule):
        return other
    return lightning.pytorch


BATCH_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
"""What a datamodule may do to a batch on its way to the model."""

LIGHTNINGS = ".core.hooks"
"""Where both packages of Lightning have the hooks that do nothing of a datamodule's own."""


def hooks_of(data: Any) -> list[str]:
    """Return the hooks on batches that a datamodule has of its own, or the one that it wraps (``hooked``) has."""
    hooked = getattr(data, "hooked", data)
    found = {hook: str(getattr(getattr(hooked, hook, None), "__module__", LIGHTNINGS)) for hook in BATCH_HOOKS}
    return [hook for hook, where in found.items() if not where.endswith(LIGHTNINGS)]


def fed_by(package: Any, data: Any, trainer: Any, **loaders: Any) -> Any:
    """Return a datamodule of a package of Lightning's that has some loaders, and the data's own hooks on batches."""
    made = package.LightningDataModule()
    for stage, loader in loaders.items():
        setattr(made, f"{stage}_dataloader", lambda loader=loader: loader)
    if data is not None:
        data.trainer = trainer
        for hook in hooks_of(data):
            setattr(made, hook, getattr(data, hook))
    return made


def why_batches(data: Any, module: Any) -> str | None:
    """Say why the data must be read batch by batch, as a Trainer does; None if all samples can be had at once."""
    if hooks_of(data):
        why = f"{type(getattr(data, 'hooked', data)).__name__} has hooks on batches"
    elif getattr(data, "train_transform", None) is not None:
        why = "data.train_transform is for every batch anew"
    else:
        return None
    if type(module).training_step is lightning_of(module).LightningModule.training_step:
        raise UserError(f"{why}: that takes a Trainer, and {type(module).__name__} has no training_step")
    return why


def why_trainer(module: Any) -> str | None:
    """Say why a module must be trained by Lightning's Trainer; None if the flat loop does the same.

    The flat loop is for classifiers that say so (``flat_loop``) in a base class whose hooks they leave as they are, and
    for modules without a ``training_step``.
    """
    kind = type(module)
    if kind.training_step is lightning_of(module).LightningModule.training_step:
        return None  # no Trainer could train it: its forward gives logits, and the flat loop takes their cross-entropy
    base = next((each for each in kind.__mro__ if vars(each).get("flat_loop")), None)
    if base is None:
        return f"{kind.__name__} is a module of your own"
    own = {
        name
        for each in kind.__mro__[: kind.__mro__.index(base)]
        for name, value in vars(each).items()
        if callable(value)
    }
    hooks = sorted(name for name in own - NOT_HOOKS if hasattr(lightning.pytorch.LightningModule, name))
    if hooks:
        return f"{kind.__name__} has its own {', '.join(hooks)}"
    if any(not parameter.requires_grad for parameter in module.parameters()):
        return f"some parameters of {kind.__name__} are frozen"
    if "configure_optimizers" in own and not isinstance(module.configure_optimizers(), torch.optim.Optimizer):
        return f"{kind.__name__} has schedulers or several optimisers"
    return None


def check_classes(data: Any, module: Any) -> None:
    """Refuse the flat loop for data without classes, unless the module has a loss of its own."""
    kind, loss = type(module), getattr(module, "loss", None)
    where = next((each for each in kind.__mro__ if "loss" in vars(each)), None)
    own = where is not None and not vars(where).get("flat_loop")
    if (own and not isinstance(loss, torch.nn.CrossEntropyLoss)) or getattr(data, "knows_classes", True):
        return
    told = named(data) if is_own(type(data)) else data.name
    raise UserError(
        f"{kind.__name__} is trained by the cross-entropy of its logits, but {told} does not tell the class of "
        "each sample: use a module with a training_step and a validation_step of its own"
    )
