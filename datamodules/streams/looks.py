"""How a client sees its samples: turned, corrupted, under other labels."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torchvision.transforms import functional as F

from flcluster import seeds
from flcluster.data import Source
from flcluster.errors import UserError

CORRUPTIONS = ("contrast", "brightness", "blur", "noise")


NOISE_FIELDS = 64


class LabelledSource(Source, Protocol):
    """A source that shows its labels without building any input."""

    @property
    def labels(self) -> Tensor:
        """All labels."""
        ...


@dataclass(frozen=True, eq=False)
class Look:
    """One client's way of seeing at one time."""

    angle: float = 0.0
    """Degrees, counter-clockwise."""
    corruption: str = "contrast"
    severity: float = 0.0
    """0 (as it is) to 1."""
    labels: Tensor | None = None
    """The label shown for each true label, a permutation."""
    sample: Callable[[Any], Any] | None = None
    """What is done to each whole sample of a user's data, before all else; a class label it leaves alone."""

    @property
    def changes_pixels(self) -> bool:
        """Whether images look other than they are stored."""
        return self.angle % 360 != 0 or self.severity > 0

    @property
    def changes_nothing(self) -> bool:
        """Whether all is seen as it is."""
        return self.labels is None and self.sample is None and not self.changes_pixels


def corrupt(x: Tensor, index: Tensor, kind: str, severity: float) -> Tensor:
    """Corrupt images in [0, 1]; the same sample with the same severity always comes out the same."""
    if kind == "contrast":
        mean = x.mean((-2, -1), keepdim=True)
        return mean + (1 - 0.9 * severity) * (x - mean)
    if kind == "brightness":
        return (x + 0.6 * severity).clamp_(0, 1)
    if kind == "blur":
        reach = min(x.shape[-2:]) // 2 * 2 - 1  # odd, no wider than the image
        size = min(2 * int(2 * _sigma(x, severity) + 1) + 1, max(reach, 1))
        blurred: Tensor = F.gaussian_blur(x, [size, size], [_sigma(x, severity)] * 2)
        return blurred
    if kind == "noise":
        fields = _noise(tuple(x.shape[1:]))
        return (x + 0.5 * severity * fields[index % NOISE_FIELDS]).clamp_(0, 1)
    raise UserError(f"data.shift has no corruption {kind!r}: choose from {', '.join(CORRUPTIONS)}")


def _sigma(x: Tensor, severity: float) -> float:
    """Blur in proportion to the image, so that 8x8 digits and 84x84 photographs suffer alike."""
    return max(0.1, severity * min(x.shape[-2:]) / 12)


@lru_cache(maxsize=4)
def _noise(shape: tuple[int, ...]) -> Tensor:
    """Fields of Gaussian noise that samples share by their number, so that no noise is kept per sample."""
    return torch.from_numpy(seeds.rng(0, "noise fields").standard_normal((NOISE_FIELDS, *shape), dtype="float32"))
