"""Whether clients are trained in one pass, and how many: by what is trained and where, never by a clock."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from flcluster.data import View
from flcluster.federation.layout import ELEMENTWISE
from flcluster.federation.together.dense import is_dense, stack_of
from flcluster.federation.worker import Worker
from flcluster.seeds import torch_seed

MOST = 32
"""Clients in one pass by default: twice as many are a sixth faster, and hold twice as many rows."""
COPIES = 8
"""Rows of a client in training: model, gradient, two moments, anchor, correction, start, result."""
MEMORY = 2**30
"""Bytes that all their rows may take by default. A constant: what a run may hold elsewhere must not change its bits."""
CPU_WORK = 2**20
"""Numbers (parameters times samples of a batch) of a step up to which one pass pays on a CPU: above it the matrices of
one client keep a core busy. Measured by tests/benchmarks/together.py."""
CLOSE = 1e-5
"""How far the losses and gradients of a trial may be from those of one by one, relative to the largest of them."""


@dataclass(frozen=True)
class Wish:
    """What a run says about how many clients are trained in one pass."""

    clients: int | None = 1
    """How many; None: that is for the rule to say."""
    batch: int = 1
    """The method's batch size."""

    def most(self, row_bytes: int) -> int:
        """Return how many clients are trained in one pass where that can be and pays.

        >>> [Wish(None).most(size) for size in (40_000, 6_600_000, 45_000_000)], Wish(7).most(40_000)
        ([32, 20, 2], 7)
        """
        return self.clients or max(1, min(MOST, MEMORY // (COPIES * row_bytes)))

    def work_limit(self, device: torch.device) -> int | None:
        """Return the most work of a step with which jobs are trained in one pass; None: whatever it is."""
        return CPU_WORK if device.type == "cpu" and self.clients is None else None


def why_one_by_one(worker: Worker, view: View, wish: Wish) -> str | None:
    """Say why a module's clients are trained one by one; None if they can be, and by default should be, in one pass.

    Args:
        worker: Trains one by one.
        view: Some samples, of which a few are taken to try the module on.
        wish: What the run says.
    """
    precision = worker.fabric.strategy.precision.precision
    if wish.clients == 1:
        return "engine.together is 1"
    if precision != "32-true":
        return f"fabric.precision is {precision}"
    return unfit(worker) or does_not_pay(worker, wish) or failed_trial(worker, view)


def unfit(worker: Worker) -> str | None:
    """Say what of a module a stack of models cannot do; its trial says the rest."""
    name, optimizer = type(worker.module).__name__, worker.bare_optimizer
    if type(optimizer) not in ELEMENTWISE or optimizer.param_groups[0]["params"][0] is not worker.layout.parameter:
        return f"the optimiser of {name} does not treat every number alone"
    return f"BatchNorm of {name} looks at whole batches" if worker.layout.has_batch_norm else None


def does_not_pay(worker: Worker, wish: Wish) -> str | None:
    """Say why one pass is not faster on this device; None if it is, or if it was asked for all the same."""
    limit, numbers = wish.work_limit(worker.layout.row.device), worker.layout.num_parameters
    if limit is None or is_dense(worker.module):
        return None
    if numbers * wish.batch > limit:
        return f"{numbers:,} parameters and batches of {wish.batch} keep a CPU busy"
    if any(isinstance(part, _ConvNd) for part in worker.module.modules()):
        return "on a CPU convolutions of several clients at once are not faster"
    return None


def failed_trial(worker: Worker, view: View) -> str | None:
    """Compute three models' losses and gradients in one pass and one by one; say what is wrong with that, if anything.

    The models differ, and their batches have three, two and one sample, of which the shorter are filled up.
    """
    if not len(view):
        return "no client has samples to try it on"
    name, first = type(worker.module).__name__, worker.layout.snapshot()
    counters = [(buffer, buffer.clone()) for buffer in worker.module.buffers() if not buffer.is_floating_point()]
    with torch_seed(worker.seed, "trial"):
        try:
            apart = _compared(worker, view, first)
        except Exception as error:  # whatever a module does that cannot be vmapped
            told = " ".join(str(error).split())
            random = "it draws random numbers (dropout)" if "random" in told else f"{type(error).__name__}: {told[:80]}"
            return f"{name} cannot be: {random}"
        finally:
            worker.layout.load(first)
    changed = any(not torch.equal(now, before) for now, before in counters)
    for now, before in counters:
        now.copy_(before)
    if changed:
        return f"{name} counts its batches"
    return None if apart <= CLOSE else f"{name} is another one for several clients at once (by {apart:.1g})"


def _compared(worker: Worker, view: View, first: Tensor) -> float:
    """Return how far losses, gradients and buffers of three models in one pass are from those of one by one."""
    x, y = worker.to_device(*View(tuple((source, index[:3]) for source, index in view.parts)).tensors())
    at = torch.tensor([[0, 1, 2], [1, 2, 1], [2, 2, 2]], device=x.device) % len(y)
    weights = torch.tensor([[1 / 3] * 3, [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], device=x.device)
    rows = torch.stack([first, 0.9 * first, 1.1 * first])
    stack = stack_of(worker.module, worker.layout, worker.loss)
    laid = stack.laid(list(rows), len(rows))
    worker.module.train()
    losses, *found = stack.gradients(x[at], y[at], weights, stack.tensors(laid))
    gradients = torch.zeros(len(rows), worker.layout.num_parameters, device=x.device)
    for place, gradient in zip(stack.parts(gradients), found, strict=True):
        place.copy_(gradient)
    apart = 0.0 if torch.equal(stack.rows(laid), rows) else float("inf")
    for row, own, loss, samples, count in zip(rows, gradients, losses, at, (3, 2, 1), strict=True):
        worker.layout.load(row)
        value = worker.loss(worker.module(x[samples[:count]]), y[samples[:count]])
        slopes = torch.autograd.grad(value, _trained(worker.module), allow_unused=True, materialize_grads=True)
        alone = torch.zeros(1, len(own), device=x.device)
        for place, slope in zip(stack.parts(alone), slopes, strict=True):
            place.copy_(slope)
        apart = max(apart, _distance(own, alone[0]), _distance(loss, value.detach()), _distance(worker.layout.row, row))
    return apart


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for _, parameter in module.named_parameters()]


def _distance(one: Tensor, other: Tensor) -> float:
    """Return the largest difference relative to the largest number; infinity where one is not finite."""
    apart = float((one - other).abs().max() / other.abs().max().clamp_min(1.0))
    return apart if apart == apart else float("inf")
