"""EMNIST, of which there are six: its constants, and its images as one would read them."""

from typing import Literal

from flcluster.errors import UserError

from .images import Images
from .known import Known

EmnistSplit = Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"]
EMNIST_CLASSES = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10}


def emnist(split: str) -> Known:
    """Return the constants of one of EMNIST's splits."""
    if split not in EMNIST_CLASSES:
        raise UserError(f"data.split is {split!r}: it must be one of {', '.join(EMNIST_CLASSES)}")
    return Known("torchvision.datasets.EMNIST", EMNIST_CLASSES[split], (1, 28, 28), (0.1736,), (0.3317,))


def upright(stored: Images, split: str) -> Images:
    """Turn images upright, which the files hold transposed, and let labels start at 0, which ``letters`` does not."""
    first = 1 if split == "letters" else 0
    return Images(stored.pixels.transpose(-2, -1).contiguous(), stored.labels - first)
