"""Predictions as a file: a table of one row a sample, or whatever they are for ``torch.load``."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from flcluster.errors import UserError
from flcluster.files import replacing
from flcluster.records.tensors import save


def columns(found: Any, name: str = "prediction") -> dict[str, Sequence[Any]]:
    """Return predictions as columns of one value a sample.

    >>> import torch
    >>> columns({"label": torch.tensor([1]), "p": torch.tensor([[0.25, 0.75]])})
    {'label': [1], 'p_0': [0.25], 'p_1': [0.75]}
    """
    if isinstance(found, Mapping):
        parts = [columns(part, str(key)) for key, part in found.items()]
    elif isinstance(found, tuple):
        parts = [columns(part, f"{name}_{at}") for at, part in enumerate(found)]
    elif isinstance(found, Tensor):
        flat = found.detach().cpu().float() if found.is_floating_point() else found.detach().cpu()
        flat = flat.reshape(len(flat), -1) if flat.dim() > 1 else flat
        if flat.dim() == 1:
            return {name: flat.tolist()}
        return {f"{name}_{at}": flat[:, at].tolist() for at in range(flat.shape[1])}
    elif isinstance(found, list) and all(isinstance(value, str | int | float) for value in found):
        return {name: found}
    else:
        raise UserError(f"predict_step gives {type(found).__name__}s, which are no columns: write --output FILE.pt")
    return {key: values for part in parts for key, values in part.items()}


def write_csv(found: Any, path: Path) -> None:
    """Write a row for each sample, in their order."""
    table = columns(found)
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UserError(f"predict_step gives numbers of values that differ ({told}): write --output FILE.pt")
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["sample", *table])
        writer.writerows([at, *row] for at, row in enumerate(zip(*table.values(), strict=True)))


def write_pt(found: Any, path: Path) -> None:
    """Write whatever it is for ``torch.load``."""
    with replacing(path) as temporary:
        save(found, temporary)


WRITERS = {".csv": write_csv, ".pt": write_pt}
"""How predictions are written, by the end of the file's name."""
