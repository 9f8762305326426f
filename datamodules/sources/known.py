"""The datasets we know, once: where they are found, how their images are stored, and their pixels' mean and std."""

from typing import Literal, NamedTuple

from flcluster.errors import UserError

from .images import Images


class Known(NamedTuple):
    """A torchvision-style dataset and what a datamodule has to know about it."""

    dataset: str
    """Class path."""
    num_classes: int
    shape: tuple[int, int, int]
    """Channels, height and width."""
    mean: tuple[float, ...]
    """Per channel, of pixels scaled to [0, 1]."""
    std: tuple[float, ...]


DIGITS = Known("flcluster.datamodules.sources.digits.Digits", 10, (1, 8, 8), (0.3052,), (0.3764,))


MNIST = Known("torchvision.datasets.MNIST", 10, (1, 28, 28), (0.1307,), (0.3081,))


FASHION_MNIST = Known("torchvision.datasets.FashionMNIST", 10, (1, 28, 28), (0.2860,), (0.3530,))


CIFAR10 = Known("torchvision.datasets.CIFAR10", 10, (3, 32, 32), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


CIFAR100 = Known("torchvision.datasets.CIFAR100", 100, (3, 32, 32), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))


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
