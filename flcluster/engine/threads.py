"""How many threads a process computes with, and how they wait: by a rule that knows the model, not by a clock.

Several threads meet in every operation of a step. For a small model that costs more than it gains, and where other
programs want the cores too, threads that spin while they wait for each other take a hundred times as long.
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning import LightningModule

    from flcluster.data import FederatedDataModule

LARGE = 10**9
"""Operations of one batch's forward pass from which several threads are taken: such a step takes some 20 ms on one."""

SHARE = "FLCLUSTER_SHARE"
"""Variable that tells a run among how many on this machine it is one."""

PASSIVE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
"""What lets threads sleep while they wait: any OpenMP's (PyTorch's wheels have GNU's), and Intel's and LLVM's."""


def wait_passively() -> None:
    """Let threads sleep while they wait, unless something was chosen; for a process that has not loaded PyTorch yet."""
    if "torch" not in sys.modules and not any(name in os.environ for name in (*PASSIVE, "GOMP_SPINCOUNT")):
        os.environ.update(PASSIVE)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(operations: float, available: int) -> int:
    """Return how many of some cores pay for steps of so many operations.

    >>> threads_of(2e7, 8), threads_of(2e9, 8)
    (1, 8)
    """
    return max(1, available) if operations >= LARGE else 1


def share_of(processes: int) -> int:
    """Return how many cores one of several processes of a run has, beside other runs of one comparison."""
    return cores() // max(1, processes) // int(os.environ.get(SHARE, "1"))


def operations_of(module: "LightningModule", data: "FederatedDataModule", batch: int) -> float:
    """Return how many operations a forward pass over a batch takes; of modules by others, two a parameter at least."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    at_least = 2.0 * sum(parameter.numel() for parameter in module.parameters()) * batch
    if not getattr(module, "flat_loop", False):
        return at_least
    learning = module.training
    try:
        example = torch.zeros(1, *data.input_shape)
        with torch.inference_mode(), FlopCounterMode(display=False) as counted:
            module.eval()(example)
    except (RuntimeError, ValueError, TypeError, AttributeError):  # the run will say what is wrong with it
        return at_least
    finally:
        module.train(learning)
    return float(counted.get_total_flops() * batch)


def warning(threads: int) -> str | None:
    """Say what to do where threads spin while they wait and other programs have some of the cores."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    active = os.environ.get("OMP_WAIT_POLICY", "").lower() != "passive" and os.environ.get("GOMP_SPINCOUNT") != "0"
    if threads == 1 or not active or threads <= cores() - busy:
        return None
    return (
        f"{threads} threads spin while they wait for each other, and other programs keep {busy:.1f} of {cores()} cores "
        "busy, which can make a run many times slower: set OMP_WAIT_POLICY=passive before Python starts, or take "
        "engine.threads 1"
    )
