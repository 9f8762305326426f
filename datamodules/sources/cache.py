"""Folders of image files decoded once into a tensor file that lies next to them."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from flcluster.errors import UnwritableError, UserError
from flcluster.files import replacing
from flcluster.records.tensors import save

Tensors = dict[str, Tensor]


def cached(path: Path, files: Sequence[str], build: Callable[[], Tensors]) -> Tensors:
    """Return the tensors at ``path``, mapped into memory, after building them if they are missing or outdated.

    ``files`` are the names the tensors are made of; if there are none (only the cache was copied to this machine),
    an existing cache is trusted.
    """
    print_of_files = zlib.crc32("\n".join(files).encode())
    if path.is_file():
        held = _read(path)
        if not files or int(held["files"]) == print_of_files:
            return held
    _write(path, {**build(), "files": torch.tensor(print_of_files)})
    return _read(path)


def open_image(path: Path) -> Image.Image:
    """Decode one image file to RGB."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{path} is not a readable image ({error}): replace or remove it") from error


def _read(path: Path) -> Tensors:
    try:
        held: Tensors = torch.load(path, mmap=True, weights_only=True)
        int(held["files"])
    except Exception as error:  # a broken file fails in many ways
        raise UserError(
            f"the cache {path} is broken ({type(error).__name__}): delete it, it will be rebuilt"
        ) from error
    return held


def _write(path: Path, tensors: Tensors) -> None:
    try:
        with replacing(path) as draft:
            save(tensors, draft)
    except (UnwritableError, OSError) as error:
        raise UserError(f"cannot write the cache {path} ({error}): the folder must be writable once") from error
