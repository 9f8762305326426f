"""Images held once in memory as bytes, and sources that turn them into model-ready batches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images as they were stored: ``pixels`` uint8 ``[n, C, H, W]``, ``labels`` int64 ``[n]``."""

    pixels: Tensor
    labels: Tensor
    maximum: int = 255
    """The pixel value that means 1.0."""

    def __len__(self) -> int:
        return len(self.labels)

    def resized(self, size: int | None) -> "Images":
        """Return the images at ``size x size`` (bilinear, antialiased); themselves if they have it, or for None."""
        if size is None or tuple(self.pixels.shape[-2:]) == (size, size):
            return self
        chunks = [F.resize(chunk, [size, size], antialias=True) for chunk in self.pixels.split(CHUNK)]
        return replace(self, pixels=torch.cat(chunks))


def joined_images(train: Images, test: Images) -> Images:
    """Return both splits of a dataset as one, the training images first."""
    return replace(train, pixels=torch.cat([train.pixels, test.pixels]), labels=torch.cat([train.labels, test.labels]))


class ImageSource:
    """Images seen under one rotation, scaled to [0, 1] and normalised when they are taken.

    Any number of sources can share one :class:`Images`: nothing is copied or rotated before ``take``.
    Multiples of 90 degrees are exact; other angles are bilinear, and what comes in from outside is black (0).

    Args:
        images: The stored images.
        mean: Per-channel mean of the [0, 1] pixels.
        std: Per-channel standard deviation of the [0, 1] pixels.
        angle: Degrees, counter-clockwise.
    """

    def __init__(self, images: Images, mean: Sequence[float], std: Sequence[float], angle: float = 0.0) -> None:
        self.images = images
        self.angle = angle % 360
        deviation = torch.tensor(std, dtype=torch.float32)[:, None, None]
        self._shift = -torch.tensor(mean, dtype=torch.float32)[:, None, None] / deviation
        self._scale = 1 / (images.maximum * deviation)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def labels(self) -> Tensor:
        """All labels, without touching a pixel."""
        return self.images.labels

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised float32 inputs and int64 labels at ``index``."""
        x = rotate(self.images.pixels.index_select(0, index), self.angle)
        return self.normalised(x), self.images.labels.index_select(0, index)

    def normalised(self, x: Tensor) -> Tensor:
        """Scale and normalise float pixels in the stored range, in place."""
        return x.mul_(self._scale).add_(self._shift)


def scaling(
    mean: Sequence[float], std: Sequence[float], normalise: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and std that pixels get: a dataset's own, or 0 and 1, which leave them in [0, 1].

    >>> scaling([0.1307], [0.3081], True), scaling([0.1307], [0.3081], False)
    (((0.1307,), (0.3081,)), ((0.0,), (1.0,)))
    """
    return (tuple(mean), tuple(std)) if normalise else ((0.0,) * len(mean), (1.0,) * len(std))


def scaled_name(name: str, normalise: bool) -> str:
    """Return a dataset's name with what is not as usual about its pixels: runs on them are no repeats of the others."""
    return name if normalise else f"{name} (pixels in [0, 1])"


def rotate(pixels: Tensor, angle: float) -> Tensor:
    """Rotate a batch counter-clockwise by ``angle`` degrees; the result is a new float32 tensor in the same range."""
    turns, rest = divmod(angle, 90)
    if rest:
        turned: Tensor = F.rotate(pixels.float(), angle, InterpolationMode.BILINEAR)  # outside is 0
        return turned
    return torch.rot90(pixels, int(turns), (-2, -1)).to(torch.float32, memory_format=torch.contiguous_format)
