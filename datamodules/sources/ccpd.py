"""Digits cut out of the car plates of CCPD, whose file names say where the plate is and what it reads."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from flcluster.errors import UserError

from .cache import Tensors, cached, open_image
from .checks import check_stored

SIZE = 32


FOLDER = "ccpd"


SPLITS = ("train", "test")


ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789O"


DIGITS_FROM = 2
"""The first two characters of a plate are a province and a letter; digits start at the third."""


# A plate measures 440 x 140 mm: characters of 45 x 90 mm, 12 mm apart, 34 mm after the second.
_LEFT_EDGES = (15.5, 72.5, 151.5, 208.5, 265.5, 322.5, 379.5)


_BOXES = [((x - 6) / 440, 19 / 140, (x + 51) / 440, 121 / 140) for x in _LEFT_EDGES]


Point = tuple[float, float]


class CCPDDigits:
    """The digits 0-9 on the plates of ``root/ccpd/{train,test}/*.jpg`` as 32x32 RGB.

    File names are CCPD's own: seven fields separated by ``-``; the fourth holds the plate's four corners (right-bottom,
    left-bottom, left-top, right-top), the fifth its seven characters. Everything is cut out once into
    ``root/ccpd-digits-32.pt``; with that file the folder itself is not needed any more.

    Args:
        root: Folder that holds ``ccpd``.
        train: The training split; otherwise the test split.
    """

    def __init__(self, root: str, train: bool = True) -> None:
        folder, cache = Path(root) / FOLDER, Path(root) / f"{FOLDER}-digits-{SIZE}.pt"
        files = {split: sorted((folder / split).glob("*.jpg")) for split in SPLITS}
        if not all(files.values()) and not cache.is_file():
            raise UserError(
                f"CCPD was not found in {folder.resolve()}. Put CCPD's images there under their own names, as "
                f"{FOLDER}/train/*.jpg and {FOLDER}/test/*.jpg, or {cache.name} from another machine next to {FOLDER}; "
                "it cannot be downloaded"
            )
        names = [f"{split}/{path.name}" for split in SPLITS for path in files[split]] if all(files.values()) else []
        held = cached(cache, names, lambda: _cut_all(files), _check)
        split = "train" if train else "test"
        self.data, self.targets = held[f"{split}_pixels"], held[f"{split}_labels"]


def parse_name(path: Path) -> tuple[list[Point], list[int]]:
    """Read the plate's corners and its character indices from a file name."""
    try:
        fields = path.stem.split("-")
        corners = [(float(x), float(y)) for x, y in (point.split("&") for point in fields[3].split("_"))]
        characters = [int(index) for index in fields[4].split("_")]
        if len(corners) != 4 or len(characters) != len(_BOXES):
            raise ValueError("four corners and seven characters are needed")
        if min(characters) < 0 or max(characters) >= len(ALPHABET):
            raise ValueError(f"characters are numbers from 0 to {len(ALPHABET) - 1}")
    except (ValueError, IndexError) as error:
        raise UserError(f"{path} does not have a name as CCPD gives it ({error}): remove it") from error
    return corners, characters


def cut_digits(path: Path) -> list[tuple[np.ndarray, int]]:
    """Return the 32x32 RGB crops of a plate's digits with their values."""
    corners, characters = parse_name(path)
    found = [(k, ALPHABET[c]) for k, c in enumerate(characters) if k >= DIGITS_FROM and ALPHABET[c].isdigit()]
    if not found:
        return []
    image = open_image(path)
    if not all(_near(x, image.width) and _near(y, image.height) for x, y in corners):
        size = f"{image.width} x {image.height}"
        raise UserError(f"the name of {path} puts the plate outside the image of {size} pixels: remove it")
    return [(_crop(image, corners, _BOXES[k]), int(character)) for k, character in found]


def _check(held: Tensors) -> None:
    for split in SPLITS:
        check_stored(held[f"{split}_pixels"], held[f"{split}_labels"], (3, SIZE, SIZE), 10, split)


def _near(place: float, length: int) -> bool:
    """Whether a corner is in the image, or not far beyond its edge, as that of a plate which is cut off may be."""
    return -0.1 * length <= place <= 1.1 * length  # false for NaN


def _crop(image: Image.Image, corners: list[Point], box: tuple[float, float, float, float]) -> np.ndarray:
    """Warp a box, given in fractions of the plate, to a square."""
    left, top, right, bottom = box
    quad = [_inside(corners, u, v) for u, v in ((left, top), (left, bottom), (right, bottom), (right, top))]
    data = tuple(value for point in quad for value in point)
    return np.array(image.transform((SIZE, SIZE), Image.Transform.QUAD, data, Image.Resampling.BILINEAR))


def _inside(corners: list[Point], u: float, v: float) -> Point:
    """Return the point at fractions (u, v) from the left-top corner of a quadrilateral."""
    right_bottom, left_bottom, left_top, right_top = corners
    weights = (u * v, (1 - u) * v, (1 - u) * (1 - v), u * (1 - v))
    points = (right_bottom, left_bottom, left_top, right_top)
    x, y = (sum(w * p[axis] for w, p in zip(weights, points, strict=True)) for axis in (0, 1))
    return x, y


def _cut_all(files: dict[str, list[Path]]) -> Tensors:
    tensors: dict[str, Tensor] = {}
    for split, paths in files.items():
        cut = [digit for path in paths for digit in cut_digits(path)]
        if not cut:
            raise UserError(f"no plate in {paths[0].parent.resolve()} has a digit")
        tensors[f"{split}_pixels"] = torch.from_numpy(np.stack([pixels for pixels, _ in cut])).permute(0, 3, 1, 2)
        tensors[f"{split}_labels"] = torch.tensor([label for _, label in cut])
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
