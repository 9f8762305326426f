"""The datasets we know, each in one record: how it is read, how its images are stored, what its classes are called."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flcluster.errors import UserError

from . import class_names as names
from .checks import check_labels
from .images import Images
from .loading import SPLITS, load, load_by, place_of

Load = Callable[..., tuple[Images, Images]]


@dataclass(frozen=True, kw_only=True)
class Known:
    """An image dataset and all that a datamodule has to know about it.

    Rotated, skewed or as a stream it is then a class of one line, ``known = MINE``.
    """

    name: str
    """What tables call it: the papers' name where a paper uses it."""
    num_classes: int
    shape: tuple[int, int, int]
    """Channels, height and width of the stored images."""
    mean: tuple[float, ...]
    """Per channel, of pixels scaled to [0, 1]."""
    std: tuple[float, ...]
    class_names: tuple[str, ...] = ()
    """By label; ``class 0``, ``class 1``, … if there are not as many as classes."""
    dataset: str = ""
    """Class path of a torchvision-style dataset, or its name in ``torchvision.datasets``."""
    load: Load | None = None
    """Reads the images in place of such a class: ``load(root, download, **dataset_kwargs)`` returns the training and
    the test split."""
    caches: bool = False
    """Whether reading leaves a file beside the data, which one process must have written before others look for it."""

    def read(self, root: Path, kwargs: dict[str, Any], download: bool = False) -> tuple[Images, Images]:
        """Read the training and the test split as they are stored, and refuse labels that are no classes."""
        if self.load is not None:
            train, test = load_by(self.load, self.name, root, kwargs, self.shape, download)
        else:
            train, test = (load(self.dataset, root, split, kwargs, self.shape, download) for split in SPLITS)
        for images, split in zip((train, test), SPLITS, strict=True):
            check_labels(images.labels, self.num_classes, place_of(self.dataset or self.name, root, split, kwargs))
        return train, test


DIGITS = Known(
    name="Digits",
    num_classes=10,
    shape=(1, 8, 8),
    mean=(0.3052,),
    std=(0.3764,),
    class_names=names.DIGITS,
    dataset="flcluster.datamodules.sources.digits.Digits",
)


MNIST = Known(
    name="MNIST",
    num_classes=10,
    shape=(1, 28, 28),
    mean=(0.1307,),
    std=(0.3081,),
    class_names=names.DIGITS,
    dataset="torchvision.datasets.MNIST",
)


FASHION_MNIST = Known(
    name="FashionMNIST",
    num_classes=10,
    shape=(1, 28, 28),
    mean=(0.2860,),
    std=(0.3530,),
    class_names=names.FASHION_MNIST,
    dataset="torchvision.datasets.FashionMNIST",
)


CIFAR10 = Known(
    name="CIFAR-10",
    num_classes=10,
    shape=(3, 32, 32),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    class_names=names.CIFAR10,
    dataset="torchvision.datasets.CIFAR10",
)


CIFAR100 = Known(
    name="CIFAR-100",
    num_classes=100,
    shape=(3, 32, 32),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    class_names=names.CIFAR100,
    dataset="torchvision.datasets.CIFAR100",
)


MINI_IMAGENET = Known(
    name="MiniImagenet",
    num_classes=100,
    shape=(3, 84, 84),
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    dataset="flcluster.datamodules.sources.miniimagenet.MiniImagenet",
    caches=True,
)


EmnistSplit = Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"]


def emnist(split: str) -> Known:
    """Return the record of one of EMNIST's splits, which its images are read by too (``dataset_kwargs``)."""
    if split not in names.EMNIST:
        raise UserError(f"data.split is {split!r}: it must be one of {', '.join(names.EMNIST)}")
    return Known(
        name="EMNIST",
        num_classes=len(names.EMNIST[split]),
        shape=(1, 28, 28),
        mean=(0.1736,),
        std=(0.3317,),
        class_names=names.EMNIST[split],
        dataset="torchvision.datasets.EMNIST",
        load=_load_emnist,
    )


def _load_emnist(root: Path, download: bool, split: str) -> tuple[Images, Images]:
    """Turn images upright, which the files hold transposed, and let labels start at 0, which ``letters`` does not."""
    first = 1 if split == "letters" else 0
    stored = (load("torchvision.datasets.EMNIST", root, s, {"split": split}, (1, 28, 28), download) for s in SPLITS)
    train, test = (Images(held.pixels.transpose(-2, -1).contiguous(), held.labels - first) for held in stored)
    return train, test
