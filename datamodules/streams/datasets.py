"""Streams from labelled image datasets: any torchvision-style one, and some ready-made."""

from typing import Any, Literal

import numpy as np

from flcluster.datamodules.sources.images import ImageSource, joined_images
from flcluster.datamodules.sources.known import CIFAR10, CIFAR100, DIGITS, FASHION_MNIST, MNIST
from flcluster.datamodules.sources.module import ByClassPath, ImageDataModule

from .arrivals import ArrivalPlan
from .holding import Loaded
from .label_buckets import LabelBuckets
from .module import StreamDataModule


class Streamed(ImageDataModule, StreamDataModule):
    """A stream made of an image dataset. A subclass says of which: ``known = CIFAR10``.

    Args:
        dataset_kwargs: Further arguments of the dataset class.
        image_size: Resize the images to this height and width.
        splits: Make the stream of the training split, or of both splits without the server's proxy set.
    """

    def __init__(
        self,
        dataset_kwargs: dict[str, Any] | None = None,
        image_size: int | None = None,
        splits: Literal["train", "both"] = "train",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes=self.known.num_classes, input_shape=self.known.shape, **kwargs)
        self._take_up(dataset_kwargs, image_size)
        self.splits = splits

    def load(self) -> Loaded:
        """Load the training split, and after it the test split if anything is taken from there."""
        images, test = self.images()
        count = len(images)
        if self.splits == "both" or self.proxy_per_class:
            images = joined_images(images, test)
        pool = np.arange(len(images) if self.splits == "both" else count)
        return Loaded(ImageSource(images, self.mean, self.std), pool, np.arange(count, len(images)))


class StreamImages(ByClassPath, Streamed):
    """A stream made of any torchvision-style dataset."""


class StreamDigits(Streamed):
    """Scikit-learn's digits as a small stream: 1x8x8, 10 classes, 1,197/600 images, no files needed.

    Args:
        num_clients: Number of clients.
        arrivals: Plan of who gets which sample when; by default 10 buckets of one label each, 100 to 200 samples
            of a client, a bucket every 10 rounds.
        window: Rounds for which a sample is kept.
    """

    known = DIGITS

    def __init__(
        self, num_clients: int = 20, arrivals: ArrivalPlan | None = None, window: int = 20, **kwargs: Any
    ) -> None:
        plan = arrivals or LabelBuckets(samples=(100, 200), gap=10)
        super().__init__(num_clients=num_clients, arrivals=plan, window=window, **kwargs)


class StreamMNIST(Streamed):
    """MNIST as a stream: 1x28x28, 10 classes, 60,000/10,000 images."""

    known = MNIST


class StreamFashionMNIST(Streamed):
    """FashionMNIST as a stream: 1x28x28, 10 classes, 60,000/10,000 images."""

    known = FASHION_MNIST


class StreamCIFAR10(Streamed):
    """CIFAR-10 as a stream: 3x32x32, 10 classes, 50,000/10,000 images."""

    known = CIFAR10


class StreamCIFAR100(Streamed):
    """CIFAR-100 as a stream: 3x32x32, 100 classes, 50,000/10,000 images."""

    known = CIFAR100
