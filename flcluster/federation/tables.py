"""Rows of models in host memory, or in a memory-mapped file that a killed process never leaves half-written."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.errors import UserError, writing
from flcluster.federation.pages import rows_of_zeros
from flcluster.files import reserve

Ints = NDArray[np.int64]


class Table:
    """``count`` rows of ``width`` floats in host memory. Rows never written read as zeros and take no memory."""

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width = count, width
        self.written = np.zeros(count, dtype=np.bool_)
        self.held = rows_of_zeros(count, width)
        self.before: dict[int, Tensor | None] | None = None
        """Rows as they were when ``begin`` was called, where they have changed since; None: nothing is to be undone."""
        self.mixed = False
        """Whether ``rewrite`` has been called since: to remember what it replaces would take the memory of all rows."""

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return self.held[index].clone()

    def __setitem__(self, index: int, row: Tensor) -> None:
        self._remember(index)
        self.held[index] = row.detach()
        self.written[index] = True

    def _remember(self, index: int) -> None:
        if self.before is not None and index not in self.before:
            self.before[index] = self.held[index].clone() if self.written[index] else None

    def begin(self) -> None:
        """Remember from now on what changes, until it is kept or undone."""
        self.before, self.mixed = {}, False

    def keep(self) -> None:
        """Let what has changed stay."""
        self.before = None

    def undo(self) -> None:
        """Bring back what has changed since ``begin``."""
        self._refuse_mixed()
        for index, row in (self.before or {}).items():
            self.held[index] = 0 if row is None else row
            self.written[index] = row is not None
        self.before = None

    def _refuse_mixed(self) -> None:
        if self.mixed:
            raise UserError(
                "a step left numbers that are not finite after it had mixed clients' models, which cannot be taken "
                "back: go on from the last checkpoint (--ckpt_path last), or start anew with a lower model.lr"
            )

    def __contains__(self, index: int) -> bool:
        return bool(self.written[index])

    def block(self, rows: Ints, columns: slice) -> Tensor:
        """Return some columns of some rows that were written, ``[rows, columns]``."""
        return self._store()[torch.from_numpy(self._places(rows)), columns]

    def rewrite(self, rows: Ints, reads: Ints, change: Callable[[Tensor], Tensor], at_once: int) -> None:
        """Replace ``rows`` by what ``change`` makes of the rows ``reads``, ``at_once`` columns at a time.

        ``change`` sees the rows as they were before, and all of them must have been written.
        """
        source, old = self._store(), torch.from_numpy(self._places(reads))
        new = torch.from_numpy(self._room(rows))
        target = self._store()
        for first in range(0, self.width, at_once):
            columns = slice(first, min(first + at_once, self.width))
            target[new, columns] = change(source[old, columns])

    def _store(self) -> Tensor:
        """Return all rows as one matrix."""
        return self.held

    def _places(self, rows: Ints) -> Ints:
        """Return where rows lie in the matrix."""
        return rows

    def _room(self, rows: Ints) -> Ints:
        """Return where new values of rows may be written."""
        self.mixed = self.before is not None
        self.written[rows] = True
        return rows

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        index = torch.from_numpy(np.flatnonzero(self.written))
        return {"rows": {"index": index, "data": self.held if len(index) == self.count else self.held[index]}}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the rows of a checkpoint."""
        index = saved["rows"]["index"]
        self.held[index] = saved["rows"]["data"]
        self.written[index.numpy()] = True

    def committed(self) -> None:
        """Learn that the last ``save`` is safely on disk."""

    def next_step(self) -> None:
        """Learn that every rank has finished the step before."""


class FileTable(Table):
    """The same in a file. A changed row goes to a free slot; its old slot is free again only after the next checkpoint.

    So the file always holds every row of the last checkpoint and of the one before it, and a killed process never mixes
    two moments. All ranks share the file and write the same bytes to the same slots, hence each reads its own writes
    without waiting; but a rank that is behind within a step may still need the row another has just replaced, so in a
    ``shared`` file every write goes to a free slot and what it replaced is free from the next step on.
    """

    def __init__(self, path: Path, count: int, width: int, shared: bool = False) -> None:
        self.count, self.width = count, width
        self.path, self.shared = path, shared
        self.replaced: list[int] = []  # slots to be free from the next step on
        self.moved: dict[int, tuple[int | None, bool]] | None = None
        """Rows that have changed since ``begin``: their slot then, and whether it was fresh."""
        self.mixed = False
        self.slot: dict[int, int] = {}
        self.fresh: set[int] = set()  # rows written since the last checkpoint: their slot may be overwritten
        self.free: list[int] = []
        self.old: list[int] = []  # slots the last checkpoint still needs
        self.leaving: list[int] = []  # slots that the last checkpoint needs, and the one being written does not
        self.previous: list[int] = []  # slots only the checkpoint before the last needs
        self.sums: dict[int, int] = {}  # checksum of each row as the last checkpoint has it
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
        self._move(index)
        assert self.map is not None
        self.map[self.slot[index]] = row.detach().cpu().numpy()

    def _move(self, index: int) -> None:
        """Give a row a slot that may be written to."""
        first = self.moved is not None and index not in self.moved
        if self.moved is not None and first:
            self.moved[index] = self.slot.get(index), index in self.fresh
        if index not in self.fresh or self.shared or first:
            if index in self.slot:
                (self.replaced if index in self.fresh else self.old).append(self.slot[index])
            self.slot[index] = self._take()
            self.fresh.add(index)

    def begin(self) -> None:
        """Remember from now on what changes, until it is kept or undone: what is replaced stays in the file."""
        self.moved, self.mixed = {}, False

    def keep(self) -> None:
        """Let what has changed stay."""
        self.moved = None

    def undo(self) -> None:
        """Bring back what has changed since ``begin``."""
        self._refuse_mixed()
        for index, (slot, fresh) in (self.moved or {}).items():
            self.replaced.append(self.slot.pop(index))
            self.fresh.discard(index)
            if slot is not None:
                (self.replaced if fresh else self.old).remove(slot)
                self.slot[index] = slot
                self.fresh |= {index} if fresh else set()
        self.moved = None

    def _store(self) -> Tensor:
        assert self.map is not None
        return torch.from_numpy(self.map)

    def _places(self, rows: Ints) -> Ints:
        return np.array([self.slot[index] for index in rows.tolist()], dtype=np.int64)

    def _room(self, rows: Ints) -> Ints:
        moved, self.moved = self.moved, None
        for index in rows.tolist():
            self._move(index)
        self.moved, self.mixed = moved, moved is not None
        return self._places(rows)

    def _take(self) -> int:
        if not self.free:
            self._grow(max(16, self.slots // 8))
        return self.free.pop()

    def _grow(self, more: int) -> None:
        self.free = list(range(self.slots + more - 1, self.slots - 1, -1))
        self.slots += more
        self._open()

    def _open(self) -> None:
        reserve(self.path, self.slots * self.width * 4)  # growing only: another rank may have grown it already
        self.map = np.memmap(self.path, dtype=np.float32, mode="r+", shape=(self.slots, self.width))

    def save(self) -> dict[str, Any]:
        """Return which slot holds which row, and what its bytes sum up to; the rows themselves are in the file."""
        if self.map is not None:
            with writing(self.path):
                self.map.flush()
            self.sums |= {index: zlib.crc32(self.map[self.slot[index]].data) for index in self.fresh}
        self.leaving, self.old, self.fresh = self.leaving + self.old, [], set()
        return {"slot": dict(self.slot), "slots": self.slots, "kept": list(self.leaving), "sums": dict(self.sums)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to the rows of a checkpoint; those of the one before it stay."""
        self.slot = {int(i): int(s) for i, s in saved["slot"].items()}
        self.slots, self.fresh = int(saved["slots"]), set()
        self.sums = {int(i): int(n) for i, n in saved.get("sums", {}).items()}
        self.old, self.leaving, self.replaced = [], [], []
        self.previous = [int(s) for s in saved.get("kept", [])]
        if too_short(self.path, self.width, self.slots):
            raise UserError(f"{self.path} is missing or cut short; the checkpoint needs it. Put it back or start anew.")
        used = {*self.slot.values(), *self.previous}
        self.free = [s for s in range(self.slots - 1, -1, -1) if s not in used]
        if self.slots:
            self._open()

    def next_step(self) -> None:
        """Free what was replaced in the step before."""
        self.free += self.replaced
        self.replaced = []

    def committed(self) -> None:
        """Free what only the checkpoint before the one before needed."""
        self.free += self.previous
        self.previous, self.leaving = self.leaving, []


def too_short(path: Path, width: int, slots: int) -> bool:
    """Say whether a file of rows is missing or too short for what it should hold."""
    return slots > 0 and (not path.exists() or path.stat().st_size < slots * width * 4)


def damage(path: Path, width: int, saved: dict[str, Any]) -> str | None:
    """Say what is wrong with the rows in a file that a checkpoint tells of, if anything is."""
    slots = int(saved["slots"])
    if too_short(path, width, slots):
        return f"{path} is missing or cut short"
    rows = np.memmap(path, dtype=np.float32, mode="r", shape=(slots, width)) if slots else None
    for index, told in saved.get("sums", {}).items():
        if rows is None or zlib.crc32(rows[saved["slot"][index]].data) != told:
            return f"{path} is damaged (row {index})"
    return None
