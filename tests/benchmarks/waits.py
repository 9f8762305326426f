"""How often a client's update waits for its device: what reads a value that a device may still be computing.

Here the device is the host, so what would wait is counted: ``aten::_local_scalar_dense``, which ``item()``, ``float()``
and ``bool()`` come to, and the copies to the host that bring what a device has found (``fetched``, or ``cpu()``).
Run: python tests/benchmarks/waits.py
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from lightning.fabric import Fabric
from registered import Registered
from told import Told, show
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile

from flcluster.federation import worker as workers
from flcluster.federation.flat import evaluating
from flcluster.federation.jobs import Job
from flcluster.federation.together import several
from flcluster.federation.worker import Worker
from flcluster.modules import MLP

WAITS = {"item", "cpu", "tolist", "__float__", "__bool__", "__int__", "nonzero", "is_nonzero"}


class Counting(TorchFunctionMode):
    """Remembers calls that would wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in WAITS:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def fetching(seen: list[str]) -> Iterator[None]:
    """Remember each time that findings are brought to the host."""
    with ExitStack() as stack:
        for module in (workers, evaluating, several):
            real = module.fetched
            told = lambda found, real=real: seen.append("fetched") or real(found)  # noqa: E731
            stack.enter_context(patch.object(module, "fetched", told))
        yield


def counted(action: Callable[[], object]) -> list[str]:
    """Return what an action would wait for, once it has been done before."""
    action()
    with Counting() as counting, fetching(counting.seen), profile(activities=[ProfilerActivity.CPU]) as profiled:
        action()
    read = [event.name for event in profiled.events() if event.name == "aten::_local_scalar_dense"]
    return counting.seen + read


def rows(quick: bool = False) -> list[Told]:
    """Count the waits of an update with a test set and the losses it began with, one by one and in one pass."""
    clients = 24
    data, worker = Registered(clients), Worker(Fabric(accelerator="cpu", devices=1), MLP(10, (1, 8, 8)), seed=0)
    shards, start = [data.shard(client) for client in range(clients)], worker.layout.snapshot()
    jobs = [Job(m, start, s.train, 2, 20, test=s.test, scores_start=True) for m, s in enumerate(shards)]
    together = several.Several(worker, clients, None)
    return [
        Told("Waits for the device per client update, one by one", len(counted(lambda: worker.train(jobs[0]))), "≤ 1"),
        Told(f"… {clients} clients in one pass", len(counted(lambda: together.train(jobs))) / clients, "≤ 1"),
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    show(rows())
