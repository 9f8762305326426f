"""Sources through a client's eyes: a look is applied to a batch when it is taken."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import functional as F

from flcluster.data import Samples
from flcluster.datamodules.sources.columns import USUAL
from flcluster.datamodules.sources.images import ImageSource, rotate
from flcluster.errors import UserError

from .looks import LabelledSource, Look, corrupt


class Seen:
    """A source through a client's look."""

    def __init__(self, source: LabelledSource, look: Look) -> None:
        if look.changes_pixels and not isinstance(source, ImageSource):
            raise UserError(f"data.shift turns or corrupts images, but this data is a {type(source).__name__}")
        if look.sample is not None:
            raise UserError(f"data.shift changes whole samples, but this data is a {type(source).__name__}")
        self.source, self.look = source, look

    def __len__(self) -> int:
        return len(self.source)

    @property
    def labels(self) -> Tensor:
        """All labels as the client sees them."""
        return _relabelled(self.source.labels, self.look)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and labels at ``index`` as the client sees them."""
        source, look = self.source, self.look
        if not look.changes_pixels:
            x, y = source.take(index)
            return x, _relabelled(y, look)
        assert isinstance(source, ImageSource)
        x = rotate(source.images.pixels.index_select(0, index), (source.angle + look.angle) % 360)
        if look.severity > 0:
            maximum = source.images.maximum
            x = corrupt(x / maximum, index, look.corruption, look.severity) * maximum
        return source.normalised(x), _relabelled(source.images.labels.index_select(0, index), look)


class SeenSamples(Samples):
    """Samples of a user's through a look, each as it is read; what is done for training alone comes after.

    Args:
        source: The samples as they are.
        look: How they are seen.
        label: Key of the class in samples that are dicts; the usual names are tried if not given.
    """

    def __init__(self, source: Samples, look: Look, label: str | None = None) -> None:
        labels = source.labels
        if look.labels is not None:
            if labels is None:
                raise UserError("data.shifts swaps labels, but no class of each sample is known: data.labels names it")
            labels = _relabelled(labels, look)
        super().__init__(source.dataset, source.collate, labels, source.transform)
        self.source, self.look, self.label = source, look, label

    def read(self, index: list[int], training: bool = False) -> list[Any]:
        """Return the samples at ``index`` as the client sees them, transformed if they are for training."""
        read = [self._seen(sample, i) for sample, i in zip(super().read(index), index, strict=True)]
        return [self.transform(sample) for sample in read] if training and self.transform is not None else read

    def _seen(self, sample: Any, number: int) -> Any:
        look = self.look
        if look.sample is not None:
            sample = look.sample(sample)
        if look.changes_pixels:
            key, image = first_of(sample)
            sample = replaced(sample, key, changed(image, look, number))
        return sample if self.labels is None else self._relabelled(sample, number)

    def _relabelled(self, sample: Any, number: int) -> Any:
        """Show the class that the look says, after making sure that the sample holds what is counted as its class."""
        key, look = self._label_of(sample), self.look
        found = None if key is None else _class(sample[key])
        assert self.source.labels is not None and self.labels is not None
        if found is None and look.labels is None:
            return sample
        if found is None:
            raise UserError(
                f"data.shifts swaps labels, but a {type(sample).__name__} of this data holds none (as second of a "
                f"tuple, or under {', '.join(USUAL)}): name its key with labels"
            )
        if found != int(self.source.labels[number]):
            raise UserError(
                f"data.shifts: sample {number} holds the class {found} where its label is "
                f"{int(self.source.labels[number])}; a function of samples must leave classes as they are "
                "(give 'swap0-1' or 'permute1' for that)"
            )
        return sample if look.labels is None else replaced(sample, key, like(int(self.labels[number]), sample[key]))

    def _label_of(self, sample: Any) -> Any | None:
        """Return where a sample has its class: a position, a key, or None."""
        if isinstance(sample, tuple | list):
            return 1 if len(sample) > 1 else None
        if isinstance(sample, Mapping):
            return next((key for key in (self.label, *USUAL) if key in sample), None)
        return None


def seen(source: LabelledSource, look: Look) -> LabelledSource:
    """Return the source through a look; the source itself where nothing is changed."""
    if look.changes_nothing:
        return source
    if isinstance(source, Samples):
        return SeenSamples(source, look)  # streams have labels
    return Seen(source, look)


def first_of(sample: Any) -> tuple[Any, Any]:
    """Return the place and the input of a sample: itself (None), the first of a tuple, an image in a dict."""
    if isinstance(sample, tuple | list):
        return 0, sample[0]
    if isinstance(sample, Mapping):
        return next(((key, value) for key, value in sample.items() if is_image(value)), (None, sample))
    return None, sample


def replaced(sample: Any, key: Any, value: Any) -> Any:
    """Return a sample with another value at a place.

    >>> replaced((1, 2), 1, 5), replaced({"a": 1}, "a", 5), replaced(1, None, 5)
    ((1, 5), {'a': 5}, 5)
    """
    if key is None:
        return value
    if isinstance(sample, Mapping):
        return {**sample, key: value}
    parts = [*sample]
    parts[key] = value
    return type(sample)(*parts) if hasattr(sample, "_fields") else type(sample)(parts)


def like(number: int, old: Any) -> Any:
    """Return a number in the type of another."""
    if isinstance(old, Tensor):
        return torch.full_like(old, number)
    return type(old)(number)


def _class(value: Any) -> int | None:
    whole = isinstance(value, int | np.integer) or (hasattr(value, "ndim") and value.ndim == 0)
    return int(value) if whole and int(value) == value else None


def is_image(value: Any) -> bool:
    """Whether a value has rows and columns to be turned."""
    return isinstance(value, Image.Image) or (isinstance(value, Tensor | np.ndarray) and value.ndim in (2, 3))


def changed(image: Any, look: Look, number: int) -> Any:
    """Turn and corrupt one image, a tensor or array ``[…, height, width]`` or PIL's; its type stays."""
    if not is_image(image):
        shape = f" of shape {tuple(image.shape)}" if hasattr(image, "shape") else ""
        raise UserError(
            f"data.shifts turns or corrupts images, but an input of this data is a {type(image).__name__}{shape}: "
            "give a function of samples, or tensors [channels, height, width]"
        )
    if isinstance(image, Image.Image):
        return F.to_pil_image(changed(F.pil_to_tensor(image), look, number), image.mode)
    pixels = torch.as_tensor(image)
    if look.angle % 180 == 90 and pixels.shape[-1] != pixels.shape[-2]:
        raise UserError(
            f"data.shifts turns images by {look.angle:g} degrees, which must be square then, but one has "
            f"{pixels.shape[-2]} x {pixels.shape[-1]} pixels"
        )
    whole = not pixels.is_floating_point()
    found = rotate(pixels[None] if pixels.ndim == 3 else pixels[None, None], look.angle % 360)
    if look.severity > 0:
        maximum = 255 if whole else 1
        if not 0 <= float(found.min()) <= float(found.max()) <= maximum:
            raise UserError("data.shifts corrupts pixels from 0 to 1 (floats) or to 255, but this data have others")
        found = corrupt(found / maximum, torch.tensor([number]), look.corruption, look.severity) * maximum
    found = (found.round() if whole else found).to(pixels.dtype).reshape(pixels.shape)
    return found.numpy() if isinstance(image, np.ndarray) else found


def _relabelled(labels: Tensor, look: Look) -> Tensor:
    return labels if look.labels is None else look.labels[labels]
