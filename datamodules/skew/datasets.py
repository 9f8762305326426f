"""Label-skewed datasets, ready-made: constants of the dataset; images at 32x32 as in AP-FL, small digits apart."""

from typing import Any

from flcluster.datamodules.sources.images import Images
from flcluster.datamodules.sources.known import (
    CIFAR10,
    CIFAR100,
    DIGITS,
    FASHION_MNIST,
    MNIST,
    EmnistSplit,
    emnist,
    upright,
)
from flcluster.datamodules.sources.loading import Split

from .module import LabelSkewDataModule


class SkewedDigits(LabelSkewDataModule):
    """Label-skewed scikit-learn digits: 1x8x8, 10 classes, 1,797 images, no files needed."""

    name = "Digits"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            dataset=DIGITS.dataset,
            num_classes=DIGITS.num_classes,
            input_shape=DIGITS.shape,
            mean=DIGITS.mean,
            std=DIGITS.std,
            **kwargs,
        )


class SkewedMNIST(LabelSkewDataModule):
    """Label-skewed MNIST: 10 classes, 60,000/10,000 images, resized from 28x28.

    Args:
        image_size: Resize the images to this height and width; null leaves them as they are.
    """

    name = "MNIST"

    def __init__(self, image_size: int | None = 32, **kwargs: Any) -> None:
        super().__init__(
            dataset=MNIST.dataset,
            num_classes=MNIST.num_classes,
            input_shape=MNIST.shape,
            mean=MNIST.mean,
            std=MNIST.std,
            image_size=image_size,
            **kwargs,
        )


class SkewedFashionMNIST(LabelSkewDataModule):
    """Label-skewed FashionMNIST: 10 classes, 60,000/10,000 images, resized from 28x28.

    Args:
        image_size: Resize the images to this height and width; null leaves them as they are.
    """

    name = "FashionMNIST"

    def __init__(self, image_size: int | None = 32, **kwargs: Any) -> None:
        super().__init__(
            dataset=FASHION_MNIST.dataset,
            num_classes=FASHION_MNIST.num_classes,
            input_shape=FASHION_MNIST.shape,
            mean=FASHION_MNIST.mean,
            std=FASHION_MNIST.std,
            image_size=image_size,
            **kwargs,
        )


class SkewedEMNIST(LabelSkewDataModule):
    """Label-skewed EMNIST: upright (the files hold transposed images), labels from 0, resized from 28x28.

    Args:
        split: Which EMNIST: byclass (62 classes), bymerge or balanced (47), letters (26), digits or mnist (10).
        image_size: Resize the images to this height and width; null leaves them as they are.
    """

    name = "EMNIST"

    def __init__(self, split: EmnistSplit = "letters", image_size: int | None = 32, **kwargs: Any) -> None:
        known = emnist(split)
        super().__init__(
            dataset=known.dataset,
            dataset_kwargs={"split": split},
            num_classes=known.num_classes,
            input_shape=known.shape,
            mean=known.mean,
            std=known.std,
            image_size=image_size,
            **kwargs,
        )
        if split != "letters":  # "EMNIST" is AP-FL's, which are letters
            self.name = f"EMNIST {split}"

    def images(self, split: Split) -> Images:
        """Load one split, turn the images upright and start labels at 0."""
        return upright(super().images(split), self.dataset_kwargs["split"])


class SkewedCIFAR10(LabelSkewDataModule):
    """Label-skewed CIFAR-10: 3x32x32, 10 classes, 50,000/10,000 images."""

    name = "CIFAR-10"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            dataset=CIFAR10.dataset,
            num_classes=CIFAR10.num_classes,
            input_shape=CIFAR10.shape,
            mean=CIFAR10.mean,
            std=CIFAR10.std,
            **kwargs,
        )


class SkewedCIFAR100(LabelSkewDataModule):
    """Label-skewed CIFAR-100: 3x32x32, 100 classes, 50,000/10,000 images."""

    name = "CIFAR-100"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            dataset=CIFAR100.dataset,
            num_classes=CIFAR100.num_classes,
            input_shape=CIFAR100.shape,
            mean=CIFAR100.mean,
            std=CIFAR100.std,
            **kwargs,
        )
