"""A module of a user's own is tried before anything is trained: what it returns must be what training goes down."""

from typing import Any

from torch import Tensor

from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.worker import Worker
from flcluster.given import OURS, described, named
from flcluster.seeds import every_seed

SAMPLES = 2
"""Of a client, on which a module is tried."""


def try_on(worker: Worker, view: View, num_classes: int) -> None:
    """Refuse a module whose logits or loss are wrong, by its class and file; nothing of it is changed."""
    module, mode, first = worker.module, worker.module.training, worker.layout.snapshot()
    part = next(((source, index[:SAMPLES]) for source, index in view.parts if len(index)), None)
    if part is None:
        return
    x, y = worker.to_device(*View((part,)).tensors())
    with every_seed(worker.seed, "try"), worker.autocast():
        worker.learning(False)
        logits = module(x)
        if str(getattr(worker.loss, "func", worker.loss).__module__).partition(".")[0] in OURS:
            _check_logits(logits, y, num_classes, module)
        loss = worker.loss(logits, y)
    worker.learning(mode)
    worker.layout.load(first)
    check_loss(loss, module, "forward")
    if bool(x.isfinite().all()):
        check_finite(float(loss.detach()), module, "forward")


def _check_logits(logits: Any, y: Tensor, num_classes: int, module: Any) -> None:
    classified = not y.is_floating_point() and y.dim() == 1
    if not isinstance(logits, Tensor) or logits.dim() < 2 or len(logits) != len(y):
        refuse(module, "forward", f"must return logits ({len(y)}, {num_classes}) of {len(y)} samples", logits)
    if classified and (logits.dim() != 2 or logits.shape[1] < num_classes):
        refuse(module, "forward", f"must return a logit for each of {num_classes} classes", logits)


def check_loss(loss: Any, module: Any, method: str) -> None:
    """Refuse a loss that nothing can be learnt from."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        refuse(module, method, "must give a loss that is one number", loss)
    if not loss.requires_grad:
        raise UserError(
            f"{named(module, method)} gives a loss without a gradient, so nothing would train: is something detached, "
            "computed under no_grad, or are all parameters frozen?"
        )


def check_finite(loss: float, module: Any, method: str) -> None:
    """Refuse a loss of the first samples that is not finite, though they are: every upload would be refused."""
    if not abs(loss) < float("inf"):
        raise UserError(
            f"{named(module, method)} gives a loss of {loss} on its first samples, which are finite: look for a "
            "logarithm or a division of 0, or weights that are not finite"
        )


def refuse(module: Any, method: str, must: str, value: object) -> None:
    """Refuse what a module returns."""
    raise UserError(f"{named(module, method)} {must}, but gives {described(value)}")
