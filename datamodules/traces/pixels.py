"""Image files decoded once into one file of bytes that is mapped into memory, however large it is."""

import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from flcluster.datamodules.sources.cache import open_image
from flcluster.errors import UnwritableError, UserError, brief
from flcluster.files import replacing

from .manifest import Manifest

BATCH = 256


Group = tuple[Path, list[tuple[str, str]]]
"""An image file and the boxes that are cut out of it, each with its place in the manifest."""


def cached_pixels(manifest: Manifest, size: int, folder: Path | None = None) -> Tensor:
    """Return the images as uint8 ``[n, 3, size, size]``, mapped from a file that is written at the first call.

    The file lies beside the manifest unless another folder is given. Its name has a print of the manifest's images and
    boxes in it, so a changed manifest makes a new one; with the file the images themselves are not needed.
    """
    path = cache_path(manifest, size, folder)
    shape = (len(manifest), 3, size, size)
    if not path.is_file():
        _write(path, manifest, shape)
    try:
        held = np.load(path, mmap_mode="c", allow_pickle=False)  # never written to, but torch warns of read-only arrays
    except Exception as error:  # a broken file fails in many ways
        raise UserError(f"the cache {path} is broken ({error}): delete it, it will be rebuilt") from error
    if not isinstance(held, np.ndarray):
        raise UserError(f"the cache {path} is broken (an archive): delete it, it will be rebuilt")
    if held.shape != shape or held.dtype != np.uint8:
        raise UserError(f"the cache {path} is of the shape {held.shape}, not {shape}: delete it, it will be rebuilt")
    return torch.from_numpy(held)


def cache_path(manifest: Manifest, size: int, folder: Path | None = None) -> Path:
    """Return where the decoded images of a manifest lie."""
    print_of_rows = zlib.crc32("\n".join(map("\t".join, zip(manifest.images, manifest.boxes, strict=True))).encode())
    return (folder or manifest.path.parent) / f"{manifest.path.stem}-{size}-{print_of_rows:08x}.npy"


def _write(path: Path, manifest: Manifest, shape: tuple[int, ...]) -> None:
    """Decode image after image with all cores; only a batch of them is in memory."""
    try:
        with replacing(path) as draft, draft.open("wb") as file, ThreadPoolExecutor(os.cpu_count()) as pool:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            groups = _groups(manifest)
            while batch := list(islice(groups, BATCH)):
                for pixels in pool.map(lambda group: _cut(group, shape[-1]), batch):
                    file.write(pixels.tobytes())
    except (UnwritableError, OSError) as error:
        raise UserError(
            f"cannot write the cache {path} ({error}): it takes {np.prod(shape) / 2**30:.1f} GB, once; "
            "data.cache puts it into another folder"
        ) from error


def _groups(manifest: Manifest) -> Iterator[Group]:
    """Yield each image file with its boxes; lines that follow each other share one decoding."""
    rows = zip(manifest.images, manifest.boxes, manifest.lines, strict=True)
    for name, same in groupby(rows, key=lambda row: row[0]):
        yield manifest.path.parent / name, [(box, f"{manifest.path}, line {line}") for _, box, line in same]


def _cut(group: Group, size: int) -> NDArray[np.uint8]:
    path, boxes = group
    try:
        image = open_image(path)
    except UserError as error:
        raise UserError(f"{boxes[0][1]}: {error}") from error
    crops = [_crop(image, path, *box).resize((size, size), Image.Resampling.BILINEAR) for box in boxes]
    return np.stack([np.asarray(crop).transpose(2, 0, 1) for crop in crops])


def _crop(image: Image.Image, path: Path, box: str, where: str) -> Image.Image:
    if not box:
        return image
    try:
        left, top, right, bottom = (round(float(edge)) for edge in box.split())
    except (ValueError, OverflowError) as error:
        raise UserError(f"{where}: the box {brief(box)} of {path} is not 'left top right bottom' in pixels") from error
    left, top, right, bottom = max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height)
    if left >= right or top >= bottom:
        raise UserError(
            f"{where}: the box {brief(box)} lies outside {path}, which has {image.width} x {image.height} pixels"
        )
    return image.crop((left, top, right, bottom))
