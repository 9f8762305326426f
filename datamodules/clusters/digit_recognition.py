"""Digit Recognition (CDFL): one task in three domains."""

from typing import Any

import torch

from flcluster.data import Source
from flcluster.datamodules.sources.checks import check_labels
from flcluster.datamodules.sources.images import Images, ImageSource
from flcluster.datamodules.sources.loading import Split, load, open_dataset, place_of

from .module import ClusteredDataModule

SIZE = 32


CCPD = "flcluster.datamodules.sources.ccpd.CCPDDigits"


class DigitRecognition(ClusteredDataModule):
    """Three clusters of digits, all 3x32x32: MNIST with USPS, SVHN, and the car plates of CCPD.

    Grey images are repeated in every channel; mean 0.5, std 0.5 in every channel, the same for all three domains.

    Args:
        num_clients: Number of clients.
    """

    name = "DigitRecognition"
    mean = std = (0.5,) * 3

    def __init__(self, num_clients: int = 100, **kwargs: Any) -> None:
        super().__init__(num_classes=10, input_shape=(3, SIZE, SIZE), num_clusters=3, num_clients=num_clients, **kwargs)

    def prepare_data(self) -> None:
        """Download MNIST, USPS and SVHN if asked to, and cut the digits of CCPD once."""
        for dataset in ("MNIST", "USPS", "SVHN") if self.download else ():
            open_dataset(dataset, self.root, "train", {}, download=True)
            open_dataset(dataset, self.root, "test", {}, download=True)
        open_dataset(CCPD, self.root, "train", {})

    def sources(self) -> list[tuple[Source, Source]]:
        """Load the three domains."""
        return list(zip(self._domains("train"), self._domains("test"), strict=True))

    def _domains(self, split: Split) -> list[Source]:
        mnist, usps = (
            self._read(*grey, split).resized(SIZE) for grey in (("MNIST", (1, 28, 28)), ("USPS", (1, 16, 16)))
        )
        grey = torch.cat([mnist.pixels, usps.pixels]).expand(-1, 3, -1, -1)  # three channels seen, one stored
        handwritten = Images(grey, torch.cat([mnist.labels, usps.labels]))
        others = [self._read(dataset, self.input_shape, split) for dataset in ("SVHN", CCPD)]
        return [ImageSource(images, self.mean, self.std) for images in (handwritten, *others)]

    def _read(self, dataset: str, shape: tuple[int, ...], split: Split) -> Images:
        images = load(dataset, self.root, split, {}, shape)
        check_labels(images.labels, self.num_classes, place_of(dataset, self.root, split, {}))
        return images
