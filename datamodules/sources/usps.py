"""USPS from the compressed text that LIBSVM's site publishes, read line by line."""

import bz2
from pathlib import Path

import numpy as np
import torch
from torchvision import datasets as tv
from torchvision.datasets.utils import download_url

from flcluster.errors import UserError

PIXELS = 256


MOST_BYTES = 2**28
"""Beyond this a file is no USPS, whose larger half is 22 MB of text."""


class USPS:
    """Grey 16x16 digits: lines of a label from 1 to 10 and 256 values ``index:value`` in [-1, 1].

    Pixels are what torchvision makes of them, which reads such files without looking at indices and values.

    Args:
        root: Folder that holds ``usps.bz2`` and ``usps.t.bz2``.
        train: The training split; otherwise the test split.
        download: Download what is missing.
    """

    def __init__(self, root: str, train: bool = True, download: bool = False) -> None:
        url, name, digest = tv.USPS.split_list["train" if train else "test"]
        path = Path(root) / name
        if download and not path.exists():
            download_url(url, root, name, md5=digest)
        rows = np.stack([_row(line, f"{path}, line {number}") for number, line in enumerate(_lines(path), start=1)])
        self.data = ((rows[:, 1:].reshape(-1, 16, 16) + 1) / 2 * 255).astype(np.uint8)
        self.targets = torch.from_numpy(rows[:, 0]).long() - 1


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name}")
    try:
        with bz2.open(path) as file:
            text = file.read(MOST_BYTES + 1)
        lines = text.decode("ascii").splitlines()
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): replace it") from error
    if len(text) > MOST_BYTES or not lines:
        raise UserError(f"{path} is {'empty' if not lines else 'far larger than USPS, once unpacked'}: replace it")
    return lines


def _row(line: str, where: str) -> np.ndarray:
    """Return a label and its 256 values, float32."""
    try:
        label, *cells = line.replace(":", " ").split()
        row = np.array([label, *cells[1::2]], dtype=np.float32)
    except ValueError as error:
        raise UserError(f"{where}: it must be a label and 256 pairs index:value ({error})") from error
    whole = cells[::2] == _INDICES and len(row) == 1 + PIXELS
    if not (whole and label.isdigit() and 1 <= row[0] <= 10 and (np.abs(row[1:]) <= 1).all()):
        raise UserError(
            f"{where}: it must be a label from 1 to 10 and the values of indices 1 to {PIXELS}, each in [-1, 1]"
        )
    return row


_INDICES = [str(index) for index in range(1, PIXELS + 1)]
