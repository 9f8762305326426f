"""Who has which cluster and how good a model: everyone, at each tenth of a run, and those who moved in between."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.records.csv_file import CsvFile

COLUMNS = ("update", "epoch", "client", "label", "accuracy")


class Population(NamedTuple):
    """All clients at one moment."""

    labels: NDArray[np.int64]
    """The cluster of each client; −1: none."""
    accuracies: NDArray[np.float64]
    """How good the model is that each is served; NaN where that is not known."""


class PopulationFile:
    """``population.csv``: a row for each client now and then, and whenever its cluster changes."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.file: CsvFile | None = None
        self.labels: NDArray[np.int64] | None = None

    def open(self, folder: Path | None, left: Sequence[int] | None) -> None:
        """Say where the file goes, and where a checkpoint left it; it is made when there is something to write."""
        self.folder = folder
        if left is not None and folder is not None:
            self.file = CsvFile(folder / "population.csv", list(COLUMNS), left)

    def write(self, update: int, epoch: int, now: Population, everyone: bool) -> None:
        """Write those who moved since the last time, or everyone."""
        if self.folder is None:
            return
        if self.file is None:
            self.file = CsvFile(self.folder / "population.csv", list(COLUMNS), None)
        fresh = everyone or self.labels is None
        clients = np.arange(len(now.labels)) if fresh else np.flatnonzero(now.labels != self.labels)
        for client in clients.tolist():
            found = update, epoch, client, int(now.labels[client]), float(now.accuracies[client])
            self.file.write(dict(zip(COLUMNS, found, strict=True)))
        self.file.flush()
        self.labels = now.labels.copy()

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {"labels": None if self.labels is None else self.labels.tolist()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped."""
        self.labels = None if saved["labels"] is None else np.array(saved["labels"], dtype=np.int64)

    @property
    def position(self) -> tuple[int, int] | None:
        """The length of the file in bytes, on disk, and their checksum; None if there is none."""
        return None if self.file is None else self.file.position()
