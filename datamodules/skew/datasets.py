"""Label-skewed datasets, ready-made: images at 32x32 as in AP-FL, small digits apart."""

from dataclasses import replace
from typing import Any

from flcluster.datamodules.sources.known import (
    CIFAR10,
    CIFAR100,
    DIGITS,
    FASHION_MNIST,
    MNIST,
    EmnistSplit,
    emnist,
)

from .module import Skewed


class SkewedDigits(Skewed):
    """Label-skewed scikit-learn digits: 1x8x8, 10 classes, 1,797 images, no files needed."""

    known = DIGITS


class SkewedAt32(Skewed):
    """A label-skewed dataset whose images are resized to 32x32.

    Args:
        image_size: Resize the images to this height and width; null leaves them as they are.
    """

    def __init__(self, image_size: int | None = 32, **kwargs: Any) -> None:
        super().__init__(image_size=image_size, **kwargs)


class SkewedMNIST(SkewedAt32):
    """Label-skewed MNIST: 10 classes, 60,000/10,000 images, resized from 28x28."""

    known = MNIST


class SkewedFashionMNIST(SkewedAt32):
    """Label-skewed FashionMNIST: 10 classes, 60,000/10,000 images, resized from 28x28."""

    known = FASHION_MNIST


class SkewedEMNIST(SkewedAt32):
    """Label-skewed EMNIST: upright (the files hold transposed images), labels from 0, resized from 28x28.

    Args:
        split: Which EMNIST: byclass (62 classes), bymerge or balanced (47), letters (26), digits or mnist (10).
    """

    known = emnist("letters")

    def __init__(self, split: EmnistSplit = "letters", **kwargs: Any) -> None:
        name = "EMNIST" if split == "letters" else f"EMNIST {split}"  # "EMNIST" is AP-FL's, which are letters
        self.known = replace(emnist(split), name=name)
        super().__init__(dataset_kwargs={"split": split}, **kwargs)


class SkewedCIFAR10(Skewed):
    """Label-skewed CIFAR-10: 3x32x32, 10 classes, 50,000/10,000 images."""

    known = CIFAR10


class SkewedCIFAR100(Skewed):
    """Label-skewed CIFAR-100: 3x32x32, 100 classes, 50,000/10,000 images."""

    known = CIFAR100
