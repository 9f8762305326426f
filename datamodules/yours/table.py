"""Tables of numbers and words, from CSV files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from flcluster.datamodules.sources.checks import MOST_CLASSES
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError, file_named

from .arrays import samples_of
from .brought import Brought, numbered
from .cells import Table, finite, is_number, is_whole, joined, read_table
from .module import OwnDataModule


class CSVDataModule(OwnDataModule):
    """A CSV file with a heading: a sample in each row, one column its class or target.

    Columns of numbers are standardised by the samples that train (an empty cell becomes their mean); other columns
    become one input for each word that the file has (a word that only the test file has is none of them).

    Args:
        path: The file.
        label: Column of the class, or of the target.
        task: Whether the label is a class (of any name) or a number to predict.
        clients: Column that says whose a row is. Without it, give a partition.
        clusters: Column of the true cluster, where it is known.
        drop: Columns that are no input.
        words: Columns that hold words, even where some look like numbers; other columns must be all numbers or none.
        test_path: A file that tests; without it a share of each client's rows does.
        delimiter: What stands between cells.
        **kwargs: What every datamodule of one's own takes: partition, num_clients, test_share, val_share and others.
    """

    def __init__(
        self,
        path: str | Path,
        label: str,
        task: Literal["classification", "regression"] = "classification",
        clients: str | None = None,
        clusters: str | None = None,
        drop: Sequence[str] = (),
        words: Sequence[str] = (),
        test_path: str | Path | None = None,
        delimiter: str = ",",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        file_named("path", path, "data.")
        file_named("test_path", test_path, "data.")
        self.paths = [Path(file).expanduser() for file in (path, test_path) if file is not None]
        self.label, self.task, self.clients, self.clusters = label, task, clients, clusters
        self.drop, self.words, self.delimiter, self.name = tuple(drop), tuple(words), delimiter, self.paths[0].stem
        if len(delimiter) != 1:
            raise UserError(f"data.delimiter is {delimiter!r}: it must be one character")
        self.columns: tuple[str, ...] = ()
        """What the inputs are, in their order, once the file is read."""

    def bring(self) -> Brought:
        """Read the files."""
        tables = [read_table(path, self.delimiter) for path in self.paths]
        columns: dict[str, Sequence[str | None]] = {"drop": self.drop, "words": self.words}
        columns = {"label": [self.label], "clients": [self.clients], "clusters": [self.clusters], **columns}
        asked = [(f"data.{key}: ", name) for key, names in columns.items() for name in names]
        for path, table in zip(self.paths, tables, strict=True):
            if missing := [each for each in asked if each[1] is not None and each[1] not in table.columns]:
                raise UserError(
                    f"{missing[0][0]}{path} has no column {missing[0][1]!r}; it has {', '.join(table.columns)}"
                )
            if less := [name for name in tables[0].columns if name not in table.columns]:
                raise UserError(
                    f"{path} has no column {less[0]!r}, which {self.paths[0]} has; it has {', '.join(table.columns)}"
                )
            if more := [name for name in table.columns if name not in tables[0].columns]:
                raise UserError(f"{path} has the column {more[0]!r}, which {self.paths[0]} has not")
        size, table = len(tables[0].places), joined(tables)
        both = table.columns
        for name in (self.label, self.clients, self.clusters):
            if name is not None:
                table.refuse(name, lambda cell: not cell, "is empty")
        y, classes = self._targets(table, size)
        ids, owners = (None, ()) if self.clients is None else numbered(names_in(both[self.clients]))
        clusters = None if self.clusters is None else numbered(names_in(both[self.clusters]))[0]
        apart = {self.label, self.clients, self.clusters, *self.drop}
        inputs = {name: cells for name, cells in both.items() if name not in apart}
        self._x, self._numeric, self.columns = encoded(Table(inputs, table.places), size, self.words)
        tests = len(tables) > 1
        return Brought(
            train=samples_of(torch.from_numpy(self._x[:size]), y[:size]),
            test=samples_of(torch.from_numpy(self._x[size:]), y[size:]) if tests else None,
            ids=None if ids is None else ids[:size],
            test_ids=ids[size:] if tests and ids is not None else None,
            owners=owners,
            clusters=None if clusters is None else clusters[:size],
            test_clusters=clusters[size:] if tests and clusters is not None else None,
            num_classes=len(classes),
            input_shape=(len(self.columns),),
            class_names=classes,
        )

    def learn(self, train: Ints) -> None:
        """Standardise columns of numbers, test rows too, by the rows that train."""
        columns = self._x[:, self._numeric]
        with np.errstate(over="ignore"):
            mean, std = np.nanmean(columns[train], axis=0), np.nanstd(columns[train], axis=0)
        if len(wide := np.flatnonzero(np.isinf(mean) | np.isinf(std))):
            name = self.columns[self._numeric[wide[0]]]
            raise UserError(f"{self.paths[0]}: the numbers of the column {name!r} are too large: none may be near 1e19")
        scaled = (columns - np.nan_to_num(mean)) / np.where(np.nan_to_num(std) > 0, std, 1.0)
        self._x[:, self._numeric] = np.nan_to_num(scaled)

    def _targets(self, table: Table, known: int) -> tuple[torch.Tensor, tuple[str, ...]]:
        """Return classes, all of which the first rows must have, or values."""
        cells = table.columns[self.label]
        if self.task == "regression":
            values = finite(self.label, table)
            return torch.from_numpy(values), ()
        if self.label not in self.words and any(map(is_whole, set(cells))):
            signs = set(cells) <= {"-1", "1", "+1"}  # the usual numbers of two classes
            table.refuse(
                self.label,
                lambda cell: not (is_whole(cell) and (signs or 0 <= int(cell) < MOST_CLASSES)),
                f"is no whole number from 0 to {MOST_CLASSES - 1}, but other labels are (if they are names, name the "
                "column in data.words)",
            )
        seen = set(cells[:known])
        table.refuse(self.label, lambda cell: cell not in seen, "is a class that no row of training has")
        found, names = numbered(names_in(cells))
        return torch.from_numpy(found), tuple(map(str, names))


def names_in(cells: Sequence[str]) -> Sequence[str] | Sequence[int]:
    """Return names as whole numbers if all are, so that 10 comes after 9."""
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        return cells


def encoded(
    table: Table, known: int, words: Sequence[str] = ()
) -> tuple[NDArray[np.float32], list[int], tuple[str, ...]]:
    """Return the inputs, which of their columns are numbers, and what each is; words of the first rows are known.

    >>> x, numeric, names = encoded(Table({"a": ["1", "2"], "b": ["red", "blue"]}, []), 2)
    >>> x.tolist(), numeric, names
    ([[1.0, 0.0, 1.0], [2.0, 1.0, 0.0]], [0], ('a', 'b=blue', 'b=red'))
    """
    found: list[NDArray[np.float32]] = []
    numeric, names = [], []
    for name, cells in table.columns.items():
        kinds = set(cells)
        if name not in words and (any(map(is_number, kinds)) or kinds == {""}):
            numeric.append(len(found))
            found.append(finite(name, table, empty=True))
            names.append(name)
            continue
        for word in sorted(set(cells[:known])):
            found.append(np.array([cell == word for cell in cells], dtype=np.float32))
            names.append(f"{name}={word}")
    if not found:
        raise UserError("the table has no column besides the label, the clients and those that are dropped")
    return np.stack(found, axis=1), numeric, tuple(names)
