"""Hugging Face datasets from the disk."""

import importlib
from pathlib import Path
from typing import Any

from torch import Tensor

from flcluster.data import Samples
from flcluster.data.views import Collate
from flcluster.datamodules.sources.checks import refuse_first
from flcluster.datamodules.sources.columns import named_classes, shape_in, values_of
from flcluster.errors import UserError

from .brought import Brought, Transform, on_input, owners_in
from .module import OwnDataModule


class HuggingFaceDataModule(OwnDataModule):
    """A dataset that ``save_to_disk`` wrote: its samples are dicts of tensors, its rows lie on the disk.

    With several splits ``train`` trains, ``test`` tests (``validation`` if there is no other) and ``validation``
    validates; with one a share of each client's rows tests. Needs ``pip install 'flcluster[hf]'``.

    Args:
        path: The folder.
        labels: Column of the class; none if null.
        clients: Column that says whose a row is. Without it, give a partition.
        columns: Columns that samples keep; all if not given.
        pair: Give batches ``(input, label)`` of these two columns instead of dicts, as this package's models need.
        collate: Makes a batch of a list of samples: a tokeniser's padding, say; torch's if not given.
        train_transform: Applied to each sample of training (with pair: to its input).
        **kwargs: What every datamodule of one's own takes: partition, num_clients, test_share, val_share and others.
    """

    def __init__(
        self,
        path: str | Path,
        labels: str | None = "label",
        clients: str | None = None,
        columns: list[str] | None = None,
        pair: tuple[str, str] | None = None,
        collate: Collate | None = None,
        train_transform: Transform | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.path, self.name = Path(path).expanduser(), Path(path).name
        self.labels, self.clients, self.columns, self.pair = labels, clients, columns, pair
        self.collate, self.train_transform = collate, train_transform

    def bring(self) -> Brought:
        """Open the dataset."""
        opened = _load(self.path)
        splits: list[Any] = [opened]
        if isinstance(opened, dict):
            if "train" not in opened:
                raise UserError(f"{self.path} has the splits {', '.join(opened)}, but none that is called train")
            sets = [opened.get(name) for name in ("test", "validation")]
            splits = [opened["train"], *(sets if sets[0] is not None else sets[::-1])]
        train, test, val = (*splits, None, None)[:3]
        val = None if self.val_share else val
        held = [
            self._samples(split, i == 0) if split is not None else None for i, split in enumerate((train, test, val))
        ]
        ids, owners = self._ids([train, test, val])
        told = getattr(getattr(train, "features", {}).get(self.labels), "names", None) or ()
        found = [source.labels for source in held if source is not None and source.labels is not None]
        assert held[0] is not None
        return Brought(
            *(held[0], held[1], held[2]),
            *(ids[0], ids[1], ids[2]),
            owners=owners,
            num_classes=len(told) or max((int(labels.max()) + 1 for labels in found), default=0),
            input_shape=shape_in(held[0].dataset),
            class_names=tuple(told),
        )

    def _samples(self, split: Any, training: bool) -> Samples:
        labels = None if self.labels is None else self._classes(split, self.labels)
        rows = split.with_format("torch", columns=list(self.pair or ()) or self.columns)
        dataset = rows if self.pair is None else Pairs(rows, *self.pair)
        return Samples(dataset, self.collate, labels, on_input(self.train_transform) if training else None)

    def _classes(self, split: Any, name: str) -> Tensor | None:
        """Return the class of each row; what lies outside those that the dataset names is refused."""
        where = f"{self.path}, column {name}"
        found = named_classes(values_of(split, name, "data.labels"), where)
        names = getattr(split.features.get(name), "names", None)
        if found is not None and names:
            refuse_first(found >= len(names), found, where, "the label", f"one of the {len(names)} classes")
        return found

    def _ids(self, splits: list[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        if self.clients is None:
            return [None] * len(splits), ()
        return owners_in(
            [None if split is None else values_of(split, self.clients, "data.clients") for split in splits]
        )


class Pairs:
    """Two columns of a dataset as pairs of an input and a label.

    Args:
        rows: The dataset.
        x: Column of the input.
        y: Column of the label.
    """

    def __init__(self, rows: Any, x: str, y: str) -> None:
        self.rows, self.x, self.y = rows, x, y

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        row = self.rows[i]
        return row[self.x], row[self.y]


def _load(path: Path) -> Any:
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise UserError("data: Hugging Face's package datasets is missing: pip install 'flcluster[hf]'") from error
    try:
        return library.load_from_disk(str(path))
    except Exception as error:  # broken files fail in as many ways as there are readers in that library
        raise UserError(
            f"data.path: {path} is no dataset that save_to_disk wrote ({type(error).__name__}: {error})"
        ) from error
