"""What every reader of data refuses, in one message that says where: labels, counts, numbers and names of files."""

import os
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flcluster.errors import UserError

MOST_CLASSES = 100_000
"""Classes that labels alone can tell of; more are taken for a mistake (a label of 10^12 is no class)."""


LONGEST = 18
"""Digits of a whole number that fits into 64 bits for sure."""


def as_labels(values: Any, where: str) -> Tensor:
    """Return one whole number a sample as int64."""
    try:
        found = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise UserError(f"{where}: the labels are no whole numbers ({error})") from error
    if found.ndim != 1 or found.is_complex():
        raise UserError(f"{where}: the labels have the shape {tuple(found.shape)}; one whole number a sample is needed")
    if found.is_floating_point():
        refuse_first(~(found.isfinite() & (found == found.round())), found, where, "the label", "a whole number")
    return found.long()


def check_counts(samples: int, labels: int, where: str) -> None:
    """Refuse samples without a label, labels without a sample, and nothing at all."""
    if samples != labels:
        raise UserError(f"{where}: {samples} images, but {labels} labels; each image needs one")
    if not samples:
        raise UserError(f"{where}: there are no images")


def check_labels(labels: Tensor, num_classes: int, where: str) -> None:
    """Refuse labels that do not go from 0 to ``num_classes - 1``."""
    wrong = (labels < 0) | (labels >= num_classes)
    if not bool(wrong.any()):
        return
    at, top = int(wrong.nonzero()[0]), int(labels.max())
    advice = f"; use {top + 1} if there are more classes" if int(labels.min()) >= 0 and top < MOST_CLASSES else ""
    raise UserError(
        f"data.num_classes is {num_classes}, but the label of sample {at} (counted from 0) of {where} is "
        f"{int(labels[at])}: labels must go from 0 to {num_classes - 1}{advice}"
    )


def check_stored(pixels: Tensor, labels: Tensor, shape: tuple[int, ...], num_classes: int, where: str) -> None:
    """Refuse stored images that are not bytes of a shape, each with its label."""
    if pixels.dtype != torch.uint8 or tuple(pixels.shape[1:]) != shape:
        raise UserError(f"{where}: the images are {pixels.dtype} of the shape {tuple(pixels.shape[1:])}, not {shape}")
    check_counts(len(pixels), len(labels), where)
    check_labels(as_labels(labels, where), num_classes, where)


def check_finite(values: Any, where: str, first: int = 0) -> None:
    """Refuse NaN and infinity among numbers, by the row; whole numbers pass."""
    found = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if found.is_floating_point() and not bool(torch.isfinite(found).all()):
        rows = torch.isfinite(found.reshape(len(found), -1)).all(1)
        raise UserError(
            f"{where}: row {first + int(rows.logical_not().nonzero()[0])} (counted from 0) has a value that "
            "is not finite (NaN or infinity): replace or remove it"
        )


def refuse_first(wrong: Tensor, values: Tensor, where: str, what: str, must: str) -> None:
    """Refuse values of which some are wrong, by the first of these."""
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise UserError(f"{where}: {what} of sample {at} (counted from 0) is {values[at].item()}, not {must}")


def whole_number(text: str) -> int | None:
    """Return a whole number from 0 that is written in digits; None for anything else.

    >>> whole_number("12"), whole_number("-1"), whole_number("9" * 5000)
    (12, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST else None


def check_classes_told(top: int, where: str, remedy: str) -> None:
    """Refuse a largest label that would make more classes than there can be."""
    if top >= MOST_CLASSES:
        raise UserError(f"{where}: the label {top} would make {top + 1} classes; {remedy}")


def stays_inside(name: str, *folders: Path) -> bool:
    """Whether a path, as it is written, lies in one of some folders. Links are not followed.

    >>> stays_inside("/data/a/../b.png", Path("/data")), stays_inside("/data/../b.png", Path("/data"))
    (True, False)
    """
    whole = PurePosixPath(os.path.abspath(name))
    return any(whole.is_relative_to(os.path.abspath(folder)) for folder in folders)
