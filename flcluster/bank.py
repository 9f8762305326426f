"""Rows of many models under a memory budget: in host memory, or in a memory-mapped file beyond it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flcluster.errors import UserError


class Table:
    """``count`` rows of ``width`` floats in host memory. Rows never written read as zeros."""

    def __init__(self, count: int, width: int) -> None:
        self.rows: dict[int, Tensor] = {}
        self.count, self.width = count, width

    def __getitem__(self, index: int) -> Tensor:
        row = self.rows.get(index)
        return torch.zeros(self.width) if row is None else row

    def __setitem__(self, index: int, row: Tensor) -> None:
        self.rows[index] = row.detach().to("cpu", copy=True)

    def __contains__(self, index: int) -> bool:
        return index in self.rows

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {"rows": dict(self.rows)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the rows of a checkpoint."""
        self.rows = {int(i): row.clone() for i, row in saved["rows"].items()}

    def committed(self) -> None:
        """Learn that the last ``save`` is safely on disk."""

    def next_step(self) -> None:
        """Learn that every rank has finished the step before."""


class FileTable(Table):
    """The same in a file. A changed row goes to a free slot; its old slot is free again only after the next checkpoint.

    So the file always holds every row of the last checkpoint, and a killed process never mixes two moments. All ranks
    share the file and write the same bytes to the same slots, hence each reads its own writes without waiting; but a
    rank that is behind within a step may still need the row another has just replaced, so in a ``shared`` file every
    write goes to a free slot and what it replaced is free from the next step on.
    """

    def __init__(self, path: Path, count: int, width: int, shared: bool = False) -> None:
        super().__init__(count, width)
        self.path, self.shared = path, shared
        self.replaced: list[int] = []  # slots to be free from the next step on
        self.slot: dict[int, int] = {}
        self.fresh: set[int] = set()  # rows written since the last checkpoint: their slot may be overwritten
        self.free: list[int] = []
        self.old: list[int] = []  # slots the last checkpoint still needs
        self.freed: list[int] = []  # slots only the checkpoint before the one being written needs
        self.slots = 0
        self.map: np.memmap[Any, np.dtype[np.float32]] | None = None

    def __contains__(self, index: int) -> bool:
        return index in self.slot

    def __getitem__(self, index: int) -> Tensor:
        if index not in self.slot:
            return torch.zeros(self.width)
        assert self.map is not None
        return torch.from_numpy(np.array(self.map[self.slot[index]]))

    def __setitem__(self, index: int, row: Tensor) -> None:
        if index not in self.fresh or self.shared:
            if index in self.slot:
                (self.replaced if index in self.fresh else self.old).append(self.slot[index])
            self.slot[index] = self._take()
            self.fresh.add(index)
        assert self.map is not None
        self.map[self.slot[index]] = row.detach().cpu().numpy()

    def _take(self) -> int:
        if not self.free:
            self._grow(max(16, self.slots // 2))
        return self.free.pop()

    def _grow(self, more: int) -> None:
        self.free = list(range(self.slots + more - 1, self.slots - 1, -1))
        self.slots += more
        self._open()

    def _open(self) -> None:
        bytes_needed = self.slots * self.width * 4
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:  # growing only: another rank may have grown it already
            if file.tell() < bytes_needed:
                os.truncate(self.path, bytes_needed)
        self.map = np.memmap(self.path, dtype=np.float32, mode="r+", shape=(self.slots, self.width))

    def save(self) -> dict[str, Any]:
        """Return which slot holds which row; the rows themselves are in the file."""
        if self.map is not None:
            self.map.flush()
        self.freed, self.old, self.fresh = self.freed + self.old, [], set()
        return {"slot": dict(self.slot), "slots": self.slots}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to the rows of a checkpoint."""
        self.slot = {int(i): int(s) for i, s in saved["slot"].items()}
        self.slots, self.fresh = int(saved["slots"]), set()
        self.old, self.freed, self.replaced = [], [], []
        needed = self.slots * self.width * 4
        if self.slots and (not self.path.exists() or self.path.stat().st_size < needed):
            raise UserError(f"{self.path} is missing or cut short; the checkpoint needs it. Put it back or start anew.")
        used = set(self.slot.values())
        self.free = [s for s in range(self.slots - 1, -1, -1) if s not in used]
        if self.slots:
            self._open()

    def next_step(self) -> None:
        """Free what was replaced in the step before."""
        self.free += self.replaced
        self.replaced = []

    def committed(self) -> None:
        """Free what only the previous checkpoint needed."""
        self.free += self.freed
        self.freed = []


class Bank:
    """Named tables of rows that share one budget.

    Args:
        folder: Where tables go that do not fit the budget.
        width: Numbers in a row.
        budget: Bytes of host memory for all tables together (of each process).
        shared: Whether several processes use the folder.
    """

    def __init__(self, folder: Path, width: int, budget: int, shared: bool = False) -> None:
        self.folder, self.width, self.budget, self.shared = folder, width, budget, shared
        self.tables: dict[str, Table] = {}

    def table(self, name: str, count: int) -> Table:
        """Return the table of that name, made on first use: in memory if it fits what is left of the budget."""
        if name not in self.tables:
            needed = count * self.width * 4
            if needed <= self.budget:
                self.budget -= needed
                self.tables[name] = Table(count, self.width)
            else:
                self.tables[name] = self._file(name, count)
        return self.tables[name]

    @contextmanager
    def scratch(self, count: int) -> Iterator[Table]:
        """Lend a table for a short while, in memory if it fits what is left of the budget; no checkpoint has it."""
        if count * self.width * 4 <= self.budget:
            yield Table(count, self.width)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.folder) as folder:
            yield FileTable(Path(folder) / "scratch.rows", count, self.width)

    def _file(self, name: str, count: int) -> FileTable:
        return FileTable(self.folder / f"{name}.rows", count, self.width, self.shared)

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold of every table."""
        return {
            name: {"count": t.count, "file": isinstance(t, FileTable), **t.save()} for name, t in self.tables.items()
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring back every table as a checkpoint has it, in memory or in the file where it was."""
        for name, entry in saved.items():
            count = int(entry["count"])
            table = self._file(name, count) if entry["file"] else Table(count, self.width)
            if not entry["file"] and name not in self.tables:
                self.budget -= count * self.width * 4
            table.restore(entry)
            self.tables[name] = table

    def committed(self) -> None:
        """Tell every table that the last ``save`` is safely on disk."""
        for table in self.tables.values():
            table.committed()

    def next_step(self) -> None:
        """Tell every table that every rank has finished the step before."""
        for table in self.tables.values():
            table.next_step()
