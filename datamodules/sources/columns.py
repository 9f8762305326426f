"""Classes and owners of the samples of any dataset, without reading inputs where that can be."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from flcluster.errors import UserError

from .checks import check_classes_told, check_finite, refuse_first

USUAL = ("targets", "labels", "label", "target", "y")
"""What datasets call the classes of their samples."""


def column(dataset: Any, name: str) -> Any | None:
    """Return one value of each sample by the name of an attribute or column; None if the dataset has none such."""
    if isinstance(dataset, Subset):
        whole = column(dataset.dataset, name)
        return None if whole is None else np.asarray(whole)[np.asarray(dataset.indices, dtype=np.int64)]
    if isinstance(dataset, ConcatDataset):
        parts = [column(part, name) for part in dataset.datasets]
        return None if any(part is None for part in parts) else np.concatenate([np.asarray(part) for part in parts])
    if name in (getattr(dataset, "column_names", None) or ()):
        return dataset[name]
    found: Any = getattr(dataset, name, None)
    return found if hasattr(found, "__len__") and len(found) == len(dataset) else None


def values_of(dataset: Any, name: str, what: str) -> np.ndarray:
    """Return one value of each sample: a column of the dataset, or what its samples hold under a key."""
    found = column(dataset, name)
    if found is None and isinstance(dataset[0], Mapping) and name in dataset[0]:
        found = [dataset[i][name] for i in range(len(dataset))]
    if found is None:
        raise UserError(
            f"{what}: {type(dataset).__name__} has no attribute, column or key {name!r} with a value a sample"
        )
    return np.asarray(found)


def labels_in(dataset: Any, name: str | None, read: bool) -> Tensor | None:
    """Return the class of each sample as int64, or None if that is not known.

    Args:
        dataset: Any map-style dataset.
        name: The attribute, column or key that holds classes; the usual names are tried if it is not given.
        read: Whether to go through all samples where nothing else tells.
    """
    if name is not None:
        return named_classes(values_of(dataset, name, "data.labels"), f"data.labels ({name})")
    for usual in USUAL:
        found = classes(column(dataset, usual))
        if found is not None:
            return found
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return classes(dataset.tensors[1])
    if not read or _label(dataset[0]) is None:
        return None
    return classes([_label(dataset[i]) for i in range(len(dataset))])


def classes(found: Any | None) -> Tensor | None:
    """Return values as classes if they are whole numbers from 0 on, one each; else None."""
    try:
        values = torch.as_tensor(found)
    except (TypeError, ValueError, RuntimeError):
        return None
    whole = values.ndim == 1 and not values.is_floating_point() and not values.is_complex()
    return values.long() if whole and (not len(values) or int(values.min()) >= 0) else None


def named_classes(found: np.ndarray, where: str) -> Tensor | None:
    """Return what is said to be classes as such; None for numbers to predict, several labels and words."""
    if found.dtype.kind == "f":
        check_finite(found, where)
    if found.ndim == 1 and found.dtype.kind == "i":
        refuse_first(torch.from_numpy(found < 0), torch.from_numpy(found), where, "the label", "a whole number from 0")
    kept = classes(found)
    if kept is not None and len(kept):
        check_classes_told(int(kept.max()), where, "number them from 0")
    return kept


def shape_in(dataset: Any) -> tuple[int, ...]:
    """Return the shape of what a sample begins with; empty if that is no tensor."""
    sample = dataset[0] if len(dataset) else None
    first = sample[0] if isinstance(sample, tuple | list) and sample else sample
    return tuple(first.shape) if isinstance(first, Tensor | np.ndarray) else ()


def _label(sample: Any) -> Any | None:
    if isinstance(sample, tuple | list):
        return sample[1] if len(sample) > 1 else None
    if isinstance(sample, Mapping):
        return next((sample[name] for name in USUAL if name in sample), None)
    return None
