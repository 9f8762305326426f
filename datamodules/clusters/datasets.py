"""The rotated datasets of the papers, ready-made: defaults of CDFL and CCFL, smaller ones for the small digits."""

from dataclasses import replace
from typing import Any

from flcluster.datamodules.sources.known import (
    CIFAR10,
    CIFAR100,
    DIGITS,
    FASHION_MNIST,
    MINI_IMAGENET,
    MNIST,
    EmnistSplit,
    emnist,
)

from .rotated import Rotated


class RotatedDigits(Rotated):
    """Rotated scikit-learn digits: 1x8x8, 10 classes, 1,197/600 images, no files needed.

    Values 0 to 16 are divided by 16; mean 0.3052, std 0.3764.

    Args:
        samples: Fewest and most training samples of a client; null divides each cluster among its clients.
        proxy_size: Images per cluster that the server holds, taken out of the test split.
        test_size: Test samples of a client; null divides the evaluation split too (with samples null).
    """

    known = DIGITS

    def __init__(
        self,
        samples: tuple[int, int] | None = (40, 120),
        proxy_size: int = 200,
        test_size: int | None = 100,
        **kwargs: Any,
    ) -> None:
        super().__init__(samples=samples, proxy_size=proxy_size, test_size=test_size, **kwargs)


class RotatedMNIST(Rotated):
    """Rotated MNIST: 1x28x28, 10 classes, 60,000/10,000 images; mean 0.1307, std 0.3081."""

    known = MNIST


class RotatedFashionMNIST(Rotated):
    """Rotated FashionMNIST: 1x28x28, 10 classes, 60,000/10,000 images; mean 0.2860, std 0.3530."""

    known = FASHION_MNIST


class RotatedEMNIST(Rotated):
    """Rotated EMNIST: 1x28x28, upright (the files hold transposed images), labels from 0; mean 0.1736, std 0.3317.

    Args:
        split: Which EMNIST: byclass (62 classes), bymerge or balanced (47), letters (26), digits or mnist (10).
    """

    known = emnist("balanced")

    def __init__(self, split: EmnistSplit = "balanced", **kwargs: Any) -> None:
        self.known = emnist(split)
        super().__init__(dataset_kwargs={"split": split}, **kwargs)


class RotatedCIFAR10(Rotated):
    """Rotated CIFAR-10: 3x32x32, 10 classes, 50,000/10,000 images.

    Mean (0.4914, 0.4822, 0.4465), std (0.2470, 0.2435, 0.2616).
    """

    known = CIFAR10


class RotatedCIFAR100(Rotated):
    """Rotated CIFAR-100: 3x32x32, 100 classes, 50,000/10,000 images.

    Mean (0.5071, 0.4865, 0.4409), std (0.2673, 0.2564, 0.2762).
    """

    known = CIFAR100


class RotatedMiniImagenet(Rotated):
    """Rotated MiniImagenet-100: 3x84x84, 100 classes, 48,000/12,000 images; see :class:`.miniimagenet.MiniImagenet`.

    ImageNet's mean (0.485, 0.456, 0.406) and std (0.229, 0.224, 0.225).

    Args:
        num_classes: Number of class folders.
    """

    known = MINI_IMAGENET

    def __init__(self, num_classes: int = 100, **kwargs: Any) -> None:
        self.known = replace(MINI_IMAGENET, num_classes=num_classes)
        super().__init__(dataset_kwargs={"num_classes": num_classes}, **kwargs)
