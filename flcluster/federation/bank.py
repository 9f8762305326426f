"""Rows of many models under a memory budget: in host memory, or in a memory-mapped file beyond it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flcluster.errors import UserError, writing
from flcluster.federation.tables import FileTable, Table, damage
from flcluster.files import slug

__all__ = ["Bank", "FileTable", "Table"]


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
        self.tracking = False

    def table(self, name: str, count: int) -> Table:
        """Return the table of that name, made on first use: in memory if it fits what is left of the budget."""
        if name not in self.tables:
            needed = count * self.width * 4
            if needed <= self.budget:
                self.budget -= needed
                self.tables[name] = Table(count, self.width)
            else:
                self.tables[name] = self._file(name, count)
            if self.tracking:
                self.tables[name].begin()
        return self.tables[name]

    @contextmanager
    def tracked(self) -> Iterator["Bank"]:
        """Remember inside the block what changes in all tables, so that ``undo`` can bring it back."""
        self.tracking = True
        for table in self.tables.values():
            table.begin()
        try:
            yield self
        finally:
            self.tracking = False
            for table in self.tables.values():
                table.keep()

    def undo(self) -> None:
        """Bring every table back to where ``tracked`` began."""
        for table in self.tables.values():
            table.undo()

    @contextmanager
    def scratch(self, count: int) -> Iterator[Table]:
        """Lend a table for a short while, in memory if it fits what is left of the budget; no checkpoint has it."""
        if count * self.width * 4 <= self.budget:
            yield Table(count, self.width)
            return
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lent = TemporaryDirectory(dir=self.folder)
        with lent as folder:
            yield FileTable(Path(folder) / "scratch.rows", count, self.width)

    def _file(self, name: str, count: int) -> FileTable:
        return FileTable(self.folder / f"{name}.rows", count, self.width, self.shared)

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold of every table."""
        return {
            name: {"count": t.count, "width": t.width, "file": isinstance(t, FileTable), **t.save()}
            for name, t in self.tables.items()
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring back every table as a checkpoint has it, in memory or in the file where it was."""
        for name, entry in saved.items():
            if slug(name) != name:
                raise UserError(f"the checkpoint has a table {name!r}, which no run of flcluster makes: it is not used")
            count = int(entry["count"])
            table = self._file(name, count) if entry["file"] else Table(count, self.width)
            if not entry["file"] and name not in self.tables:
                self.budget -= count * self.width * 4
            table.restore(entry)
            self.tables[name] = table

    @staticmethod
    def damage(folder: Path, saved: dict[str, Any]) -> str | None:
        """Say what is wrong with the files of rows that a checkpoint tells of, if anything is."""
        of_files = ((name, entry) for name, entry in saved.items() if entry["file"] and "width" in entry)
        found = (damage(folder / f"{name}.rows", int(entry["width"]), entry) for name, entry in of_files)
        return next((why for why in found if why), None)

    def committed(self) -> None:
        """Tell every table that the last ``save`` is safely on disk."""
        for table in self.tables.values():
            table.committed()

    def next_step(self) -> None:
        """Tell every table that every rank has finished the step before."""
        for table in self.tables.values():
            table.next_step()
