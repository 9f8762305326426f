"""Folders of image files decoded once into a tensor file that lies next to them."""

import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from flcluster.errors import UnwritableError, UserError
from flcluster.files import replacing
from flcluster.records.tensors import save

Tensors = dict[str, Tensor]


PIXELS = 2 * 89_478_485
"""Most pixels that an image is decoded with; Pillow's own limit, beyond which a small file may fill the memory."""


FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""What is read as an image, whatever a file is called; some of Pillow's other formats run programs."""


def cached(path: Path, files: Sequence[str], build: Callable[[], Tensors], check: Callable[[Tensors], None]) -> Tensors:
    """Return the tensors at ``path``, mapped into memory, after building them if they are missing or outdated.

    ``files`` are the names the tensors are made of; if there are none (only the cache was copied to this machine),
    an existing cache is trusted, if it is whole and ``check``, which raises what it likes, finds nothing wrong.
    """
    print_of_files = zlib.crc32("\n".join(files).encode(errors="surrogateescape"))
    if path.is_file():
        held = _read(path, check)
        if not files or int(held["files"]) == print_of_files:
            return held
    _write(path, {**build(), "files": torch.tensor(print_of_files)})
    return _read(path, check)


def open_image(path: Path) -> Image.Image:
    """Decode one image file to RGB; its header is looked at before any pixel is."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > PIXELS:
                raise ValueError(f"it says that it has {image.width} x {image.height} pixels, which are too many")
            if image.mode[0] in "IF":
                raise ValueError("its pixels have more than 8 bits a channel")
            return image.convert("RGB")
    except Exception as error:  # a broken image fails in many ways
        reason = str(error).partition(", could be")[0] or type(error).__name__
        raise UserError(f"{path} is not a readable image ({reason}): replace or remove it") from error


def _read(path: Path, check: Callable[[Tensors], None]) -> Tensors:
    try:
        _intact(path, path.stat().st_mtime_ns, path.stat().st_size)
        held: Tensors = torch.load(path, mmap=True, weights_only=True)
        int(held["files"])
        check(held)
    except Exception as error:  # a broken file fails in many ways
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise UserError(f"the cache {path} is broken ({reason}): delete it, it will be rebuilt") from error
    return held


@lru_cache(maxsize=16)
def _intact(path: Path, changed: int, size: int) -> None:
    """Compare a cache with the checksums in it, once for as long as it does not change."""
    with zipfile.ZipFile(path) as archive:
        if wrong := archive.testzip():
            raise ValueError(f"the checksum of {wrong} in it is wrong")


def _write(path: Path, tensors: Tensors) -> None:
    try:
        with replacing(path) as draft:
            save(tensors, draft)
    except (UnwritableError, OSError) as error:
        raise UserError(f"cannot write the cache {path} ({error}): the folder must be writable once") from error
