"""Tables of numbers and words, from CSV files."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

from .arrays import samples_of
from .brought import Brought, numbered
from .module import OwnDataModule

Columns = dict[str, list[str]]


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
        test_path: str | Path | None = None,
        delimiter: str = ",",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.paths = [Path(file).expanduser() for file in (path, test_path) if file is not None]
        self.label, self.task, self.clients, self.clusters = label, task, clients, clusters
        self.drop, self.delimiter, self.name = tuple(drop), delimiter, self.paths[0].stem
        self.columns: tuple[str, ...] = ()
        """What the inputs are, in their order, once the file is read."""

    def bring(self) -> Brought:
        """Read the files."""
        tables = [read_table(path, self.delimiter) for path in self.paths]
        for path, table in zip(self.paths, tables, strict=True):
            columns = {"label": [self.label], "clients": [self.clients], "clusters": [self.clusters], "drop": self.drop}
            named = [(f"data.{key}: ", name) for key, names in columns.items() for name in names]
            named += [("", name) for name in tables[0]]
            if missing := [each for each in named if each[1] is not None and each[1] not in table]:
                raise UserError(f"{missing[0][0]}{path} has no column {missing[0][1]!r}; it has {', '.join(table)}")
        size = len(tables[0][self.label])
        both = {name: [cell for table in tables for cell in table[name]] for name in tables[0]}
        y, classes = self._targets(both[self.label])
        ids, owners = (None, ()) if self.clients is None else numbered(names_in(both[self.clients]))
        clusters = None if self.clusters is None else numbered(names_in(both[self.clusters]))[0]
        apart = {self.label, self.clients, self.clusters, *self.drop}
        inputs = {name: cells for name, cells in both.items() if name not in apart}
        self._x, self._numeric, self.columns = encoded(inputs, size)
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
        mean, std = np.nanmean(columns[train], axis=0), np.nanstd(columns[train], axis=0)
        scaled = (columns - np.nan_to_num(mean)) / np.where(np.nan_to_num(std) > 0, std, 1.0)
        self._x[:, self._numeric] = np.nan_to_num(scaled)

    def _targets(self, cells: list[str]) -> tuple[torch.Tensor, tuple[str, ...]]:
        if self.task == "classification":
            found, names = numbered(names_in(cells))
            return torch.from_numpy(found), tuple(map(str, names))
        values = numbers(cells)
        if values is None or np.isnan(values).any():
            raise UserError(
                f"data.label: the column {self.label!r} has cells that are no number: data.task is regression"
            )
        return torch.from_numpy(values), ()


def read_table(path: Path, delimiter: str) -> Columns:
    """Read a CSV file as columns of text."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            heading, *rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read ({error})") from error
    except ValueError:
        raise UserError(f"{path} is empty: a heading and rows are needed") from None
    for line, row in enumerate(rows, 2):
        if len(row) != len(heading):
            raise UserError(f"{path}: row {line} has {len(row)} cells, but the heading has {len(heading)}")
    return {name.strip(): [row[i].strip() for row in rows] for i, name in enumerate(heading)}


def numbers(cells: Sequence[str]) -> NDArray[np.float32] | None:
    """Return cells as numbers, an empty one as NaN; None if one is a word.

    >>> numbers(["1", "", "2.5"]), numbers(["1", "red"])
    (array([1. , nan, 2.5], dtype=float32), None)
    """
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float32)
    except ValueError:
        return None


def names_in(cells: Sequence[str]) -> Sequence[str] | Sequence[int]:
    """Return names as whole numbers if all are, so that 10 comes after 9."""
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        return cells


def encoded(columns: Columns, known: int) -> tuple[NDArray[np.float32], list[int], tuple[str, ...]]:
    """Return the inputs, which of their columns are numbers, and what each is; words of the first rows are known.

    >>> x, numeric, names = encoded({"a": ["1", "2"], "b": ["red", "blue"]}, 2)
    >>> x.tolist(), numeric, names
    ([[1.0, 0.0, 1.0], [2.0, 1.0, 0.0]], [0], ('a', 'b=blue', 'b=red'))
    """
    found: list[NDArray[np.float32]] = []
    numeric, names = [], []
    for name, cells in columns.items():
        values = numbers(cells)
        if values is not None:
            numeric.append(len(found))
            found.append(values)
            names.append(name)
            continue
        for word in sorted(set(cells[:known])):
            found.append(np.array([cell == word for cell in cells], dtype=np.float32))
            names.append(f"{name}={word}")
    if not found:
        raise UserError("the table has no column besides the label, the clients and those that are dropped")
    return np.stack(found, axis=1), numeric, tuple(names)
