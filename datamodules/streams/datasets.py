"""Streams from labelled image datasets: any torchvision-style one, and some ready-made."""

from typing import Any, Literal

import numpy as np
import torch

from flcluster.data import FederatedDataModule
from flcluster.datamodules.sources.class_names import class_names
from flcluster.datamodules.sources.images import Images, ImageSource
from flcluster.datamodules.sources.known import CIFAR10, CIFAR100, DIGITS, FASHION_MNIST, MNIST
from flcluster.datamodules.sources.loading import Split, check_image_arguments, check_labels, load, open_dataset

from .arrivals import ArrivalPlan
from .holding import Loaded
from .label_buckets import LabelBuckets
from .module import StreamDataModule


class StreamImages(StreamDataModule):
    """A stream made of any torchvision-style dataset.

    Args:
        dataset: A torchvision-style dataset class: its class path, or its name in ``torchvision.datasets``.
        num_classes: Number of classes.
        input_shape: Channels, height and width of the stored images.
        mean: Per-channel mean of the pixels scaled to [0, 1].
        std: Per-channel standard deviation of the pixels scaled to [0, 1].
        dataset_kwargs: Further arguments of the dataset class.
        image_size: Resize the images to this height and width.
        splits: Make the stream of the training split, or of both splits without the server's proxy set.
    """

    def __init__(
        self,
        dataset: str,
        num_classes: int,
        input_shape: tuple[int, int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        dataset_kwargs: dict[str, Any] | None = None,
        image_size: int | None = None,
        splits: Literal["train", "both"] = "train",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, input_shape=input_shape, **kwargs)
        self.dataset, self.dataset_kwargs = dataset, dict(dataset_kwargs or {})
        if type(self).name == FederatedDataModule.name:
            self.name = dataset.rpartition(".")[2]
        self.mean, self.std = tuple(mean), tuple(std)
        self.image_size, self.stored_shape, self.splits = image_size, self.input_shape, splits
        check_image_arguments(self.input_shape, self.mean, self.std, image_size)
        if image_size is not None:
            self.input_shape = (self.input_shape[0], image_size, image_size)

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by label."""
        return class_names(self.dataset, self.num_classes, self.dataset_kwargs.get("split"))

    def prepare_data(self) -> None:
        """Download both splits if asked to."""
        if self.download:
            open_dataset(self.dataset, self.root, "train", self.dataset_kwargs, download=True)
            open_dataset(self.dataset, self.root, "test", self.dataset_kwargs, download=True)

    def images(self, split: Split) -> Images:
        """Load one split."""
        images = load(self.dataset, self.root, split, self.dataset_kwargs, self.stored_shape)
        check_labels(images, self.num_classes, split, self.name)
        return images if self.image_size is None else images.resized(self.image_size)

    def load(self) -> Loaded:
        """Load the training split, and after it the test split if anything is taken from there."""
        images = self.images("train")
        count = len(images)
        if self.splits == "both" or self.proxy_per_class:
            test = self.images("test")
            pixels, labels = torch.cat([images.pixels, test.pixels]), torch.cat([images.labels, test.labels])
            images = Images(pixels, labels, images.maximum)
        pool = np.arange(len(images) if self.splits == "both" else count)
        return Loaded(ImageSource(images, self.mean, self.std), pool, np.arange(count, len(images)))


class StreamDigits(StreamImages):
    """Scikit-learn's digits as a small stream: 1x8x8, 10 classes, 1,197/600 images, no files needed.

    Args:
        num_clients: Number of clients.
        arrivals: Plan of who gets which sample when; by default 10 buckets of one label each, 100 to 200 samples
            of a client, a bucket every 10 rounds.
        window: Rounds for which a sample is kept.
    """

    name = "Digits"

    def __init__(
        self, num_clients: int = 20, arrivals: ArrivalPlan | None = None, window: int = 20, **kwargs: Any
    ) -> None:
        super().__init__(
            dataset=DIGITS.dataset,
            num_classes=DIGITS.num_classes,
            input_shape=DIGITS.shape,
            mean=DIGITS.mean,
            std=DIGITS.std,
            num_clients=num_clients,
            arrivals=arrivals or LabelBuckets(samples=(100, 200), gap=10),
            window=window,
            **kwargs,
        )


class StreamMNIST(StreamImages):
    """MNIST as a stream: 1x28x28, 10 classes, 60,000/10,000 images."""

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


class StreamFashionMNIST(StreamImages):
    """FashionMNIST as a stream: 1x28x28, 10 classes, 60,000/10,000 images."""

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


class StreamCIFAR10(StreamImages):
    """CIFAR-10 as a stream: 3x32x32, 10 classes, 50,000/10,000 images."""

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


class StreamCIFAR100(StreamImages):
    """CIFAR-100 as a stream: 3x32x32, 100 classes, 50,000/10,000 images."""

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
