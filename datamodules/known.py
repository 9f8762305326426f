"""The datasets we know, once: where they are found, how their images are stored, and their pixels' mean and std."""

from typing import NamedTuple


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


DIGITS = Known("flcluster.datamodules.digits.Digits", 10, (1, 8, 8), (0.3052,), (0.3764,))
MNIST = Known("torchvision.datasets.MNIST", 10, (1, 28, 28), (0.1307,), (0.3081,))
FASHION_MNIST = Known("torchvision.datasets.FashionMNIST", 10, (1, 28, 28), (0.2860,), (0.3530,))
CIFAR10 = Known("torchvision.datasets.CIFAR10", 10, (3, 32, 32), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100 = Known("torchvision.datasets.CIFAR100", 100, (3, 32, 32), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
