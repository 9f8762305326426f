"""The one place that knows there are other processes: who does what, and how results travel."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning.fabric import Fabric
from torch import Tensor

T = TypeVar("T")
SMALL = 2**20
"""Bytes of a row up to which many travel in one message: then it is messages that cost, not bytes."""


class Ranks:
    """Collectives over Fabric's processes. With one process every call returns what it was given."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.size: int = fabric.world_size
        self.rank: int = fabric.global_rank

    def agree(self, value: T) -> T:
        """Return rank 0's value on every rank."""
        return self.fabric.broadcast(value, src=0) if self.size > 1 else value

    def either(self, *flags: bool) -> list[bool]:
        """Say for each flag whether any rank raised it."""
        raised = torch.tensor([int(flag) for flag in flags], device=self.fabric.device)
        return [bool(n) for n in self.sum(raised).tolist()]

    def sum(self, mine: Tensor) -> Tensor:
        """Add up tensors; exact where at most one rank has a non-zero value in a place."""
        if self.size > 1:
            dist.all_reduce(mine)
        return mine

    def collect(self, mine: dict[int, Any], count: int) -> list[Any]:
        """Merge ``{index: small object}`` of all ranks into one list."""
        if self.size == 1:
            return [mine[i] for i in range(count)]
        parts: list[dict[int, Any]] = [{} for _ in range(self.size)]
        dist.all_gather_object(parts, mine)
        merged = {i: value for part in parts for i, value in part.items()}
        return [merged[i] for i in range(count)]

    def send_rows(self, mine: dict[int, Tensor], owners: Sequence[int], like: Tensor) -> list[Tensor]:
        """Give every rank every row, each from the rank that has it."""
        if self.size == 1:
            return [mine[i] for i in range(len(owners))]
        if like.nbytes <= SMALL:
            return self._gathered(mine, owners, like)
        rows = [mine[i] if i in mine else torch.empty_like(like) for i in range(len(owners))]
        for row, owner in zip(rows, owners, strict=True):
            dist.broadcast(row, src=owner)
        return rows

    def _gathered(self, mine: dict[int, Tensor], owners: Sequence[int], like: Tensor) -> list[Tensor]:
        """Send all rows in one message a rank, as long as the longest."""
        places = [owners[:i].count(owner) for i, owner in enumerate(owners)]
        block = like.new_empty(1 + max(places, default=0), len(like))
        for i, row in mine.items():
            block[places[i]] = row
        blocks = [torch.empty_like(block) for _ in range(self.size)]
        dist.all_gather(blocks, block)
        rows = zip(owners, places, strict=True)
        return [mine[i] if i in mine else blocks[owner][at].clone() for i, (owner, at) in enumerate(rows)]

    def barrier(self) -> None:
        """Wait for everyone."""
        if self.size > 1:
            self.fabric.barrier()

    def balance(self, sizes: Sequence[int]) -> list[int]:
        """Assign items to ranks, largest first to the least loaded: the same plan on every rank."""
        load, owners = [0] * self.size, [0] * len(sizes)
        for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
            owners[i] = load.index(min(load))
            load[owners[i]] += sizes[i]
        return owners
