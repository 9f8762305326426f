"""Whether clients are trained in one pass, and how many: by what is trained and where, never by a clock."""

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from flcluster.data import View
from flcluster.federation.layout import ELEMENTWISE
from flcluster.federation.together.stack import Stack
from flcluster.federation.worker import Worker
from flcluster.seeds import torch_seed

MOST = 32
"""Clients in one pass by default: twice as many are a sixth faster, and hold twice as many rows."""
COPIES = 8
"""Rows that a client in training has: model, gradient, two moments, anchor, correction, start, result."""
CPU_WORK = 2**20
"""Numbers (parameters times samples of a batch) of a step up to which one pass pays on a CPU: above it the matrices of
one client keep a core busy. Measured by tests/benchmarks/together.py."""
CLOSE = 1e-5
"""How far the losses and gradients of a trial may be from those of one by one, relative to the largest of them."""


def work_limit(device: torch.device, asked: int | None) -> int | None:
    """Return the most work of a step with which jobs are trained in one pass; None: whatever it is."""
    return CPU_WORK if device.type == "cpu" and asked is None else None


def room(row_bytes: int, memory: float) -> int:
    """Return how many clients are trained in one pass by default, of which all rows fit some bytes.

    >>> room(40_000, 2**30), room(6_600_000, 2**30), room(45_000_000, 2**30)
    (32, 20, 2)
    """
    return max(1, min(MOST, int(memory / (COPIES * row_bytes))))


def why_one_by_one(worker: Worker, view: View, asked: int | None) -> str | None:
    """Say why a module's clients are trained one by one; None if they can be, and by default should be, in one pass.

    Args:
        worker: Trains one by one.
        view: A few samples to try it on.
        asked: How many clients are to be trained in one pass; None if that is for this rule to say.
    """
    module, name, device = worker.module, type(worker.module).__name__, worker.layout.row.device
    precision = worker.fabric.strategy.precision.precision
    optimizer = worker.bare_optimizer
    if precision != "32-true":
        return f"fabric.precision is {precision}"
    if type(optimizer) not in ELEMENTWISE or optimizer.param_groups[0]["params"][0] is not worker.layout.parameter:
        return f"the optimiser of {name} does not treat every number alone"
    if worker.layout.has_batch_norm:
        return f"BatchNorm of {name} looks at whole batches"
    if asked is None and device.type == "cpu" and worker.layout.num_parameters > CPU_WORK:
        return f"{name} has {worker.layout.num_parameters:,} parameters, which keep a CPU busy"
    if asked is None and device.type == "cpu" and any(isinstance(part, _ConvNd) for part in module.modules()):
        return f"on a CPU convolutions of {name} are not faster for several clients"
    return failed_trial(worker, view) if len(view) else "no client has samples to try it on"


def failed_trial(worker: Worker, view: View) -> str | None:
    """Compute three models' losses and gradients in one pass and one by one; say what is wrong with that, if anything.

    The models differ, and their batches have three, two and one sample, of which the shorter are filled up.
    """
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
    stack = Stack(worker.module, worker.layout, worker.loss)
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
