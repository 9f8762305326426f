"""The rotated datasets of the papers, ready-made: constants of the dataset, defaults of CDFL and CCFL."""

from typing import Any, Literal

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

from .rotated import RotatedDataModule


class RotatedDigits(RotatedDataModule):
    """Rotated scikit-learn digits: 1x8x8, 10 classes, 1,197/600 images, no files needed.

    Values 0 to 16 are divided by 16; mean 0.3052, std 0.3764.

    Args:
        samples: Fewest and most training samples of a client; null divides each cluster among its clients.
        proxy_size: Images per cluster that the server holds, taken out of the test split.
        test_size: Test samples of a client; null divides the evaluation split too (with samples null).
    """

    name = "Digits"

    def __init__(
        self,
        samples: tuple[int, int] | None = (40, 120),
        proxy_size: int = 200,
        test_size: int | None = 100,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dataset=DIGITS.dataset,
            num_classes=DIGITS.num_classes,
            input_shape=DIGITS.shape,
            mean=DIGITS.mean,
            std=DIGITS.std,
            samples=samples,
            proxy_size=proxy_size,
            test_size=test_size,
            **kwargs,
        )


class RotatedMNIST(RotatedDataModule):
    """Rotated MNIST: 1x28x28, 10 classes, 60,000/10,000 images; mean 0.1307, std 0.3081."""

    name = "MNIST"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            dataset=MNIST.dataset,
            num_classes=MNIST.num_classes,
            input_shape=MNIST.shape,
            mean=MNIST.mean,
            std=MNIST.std,
            **kwargs,
        )


class RotatedFashionMNIST(RotatedDataModule):
    """Rotated FashionMNIST: 1x28x28, 10 classes, 60,000/10,000 images; mean 0.2860, std 0.3530."""

    name = "FashionMNIST"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            dataset=FASHION_MNIST.dataset,
            num_classes=FASHION_MNIST.num_classes,
            input_shape=FASHION_MNIST.shape,
            mean=FASHION_MNIST.mean,
            std=FASHION_MNIST.std,
            **kwargs,
        )


class RotatedEMNIST(RotatedDataModule):
    """Rotated EMNIST: 1x28x28, upright (the files hold transposed images), labels from 0; mean 0.1736, std 0.3317.

    Args:
        split: Which EMNIST: byclass (62 classes), bymerge or balanced (47), letters (26), digits or mnist (10).
    """

    name = "EMNIST"

    def __init__(self, split: EmnistSplit = "balanced", **kwargs: Any) -> None:
        known = emnist(split)
        super().__init__(
            dataset=known.dataset,
            dataset_kwargs={"split": split},
            num_classes=known.num_classes,
            input_shape=known.shape,
            mean=known.mean,
            std=known.std,
            **kwargs,
        )

    def images(self, split: Literal["train", "test"]) -> Images:
        """Load one split, turn the images upright and start labels at 0."""
        return upright(super().images(split), self.dataset_kwargs["split"])


class RotatedCIFAR10(RotatedDataModule):
    """Rotated CIFAR-10: 3x32x32, 10 classes, 50,000/10,000 images.

    Mean (0.4914, 0.4822, 0.4465), std (0.2470, 0.2435, 0.2616).
    """

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


class RotatedCIFAR100(RotatedDataModule):
    """Rotated CIFAR-100: 3x32x32, 100 classes, 50,000/10,000 images.

    Mean (0.5071, 0.4865, 0.4409), std (0.2673, 0.2564, 0.2762).
    """

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


class RotatedMiniImagenet(RotatedDataModule):
    """Rotated MiniImagenet-100: 3x84x84, 100 classes, 48,000/12,000 images; see :class:`.miniimagenet.MiniImagenet`.

    ImageNet's mean (0.485, 0.456, 0.406) and std (0.229, 0.224, 0.225).

    Args:
        num_classes: Number of class folders.
    """

    name = "MiniImagenet"

    def __init__(self, num_classes: int = 100, **kwargs: Any) -> None:
        super().__init__(
            dataset="flcluster.datamodules.sources.miniimagenet.MiniImagenet",
            dataset_kwargs={"num_classes": num_classes},
            num_classes=num_classes,
            input_shape=(3, 84, 84),
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
            **kwargs,
        )

    def prepare_data(self) -> None:
        """Decode the images once, before other processes look for them."""
        self.images("train")
