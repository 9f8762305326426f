"""MiniImagenet-100 from a folder per class."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from flcluster.errors import UserError

from .cache import Tensors, cached, open_image
from .checks import MOST_CLASSES, check_stored

SIZE = 84


FOLDER = "mini-imagenet"


SUFFIXES = (".jpg", ".jpeg", ".png")


class MiniImagenet:
    """Images of ``root/mini-imagenet/<class folder>/*.jpg`` (or png) as 84x84 RGB; classes in the order of their names.

    Of each class the first four fifths by file name are for training (480 of 600), the others for testing. Everything
    is decoded once into ``root/mini-imagenet-84.pt``; with that file the folder itself is not needed any more.

    Args:
        root: Folder that holds ``mini-imagenet``.
        train: The training split; otherwise the test split.
        num_classes: How many class folders there must be.
        download: Not used: it cannot be downloaded.
    """

    def __init__(self, root: str, train: bool = True, num_classes: int = 100, download: bool = False) -> None:
        folder, cache = Path(root) / FOLDER, Path(root) / f"{FOLDER}-{SIZE}.pt"
        classes = _list_classes(folder)
        if not classes and not cache.is_file():
            raise UserError(_missing(folder))
        names = [f"{path.parent.name}/{path.name}" for files in classes for path in files]
        held = cached(cache, names, lambda: _decode(classes), _check)
        split = "train" if train else "test"
        self.data, self.targets = held[f"{split}_pixels"], held[f"{split}_labels"]
        if int(self.targets.max()) + 1 != num_classes:
            found = int(self.targets.max()) + 1
            raise UserError(f"{folder.resolve()} has {found} class folders, but data.num_classes is {num_classes}")


def _check(held: Tensors) -> None:
    for split in ("train", "test"):
        check_stored(held[f"{split}_pixels"], held[f"{split}_labels"], (3, SIZE, SIZE), MOST_CLASSES, split)


def _missing(folder: Path) -> str:
    return (
        f"MiniImagenet was not found in {folder.resolve()}. Put its 100 class folders there, with 600 images each "
        f"(<class>/<image>.jpg or .png), or {FOLDER}-{SIZE}.pt from another machine next to {FOLDER}; "
        "it cannot be downloaded"
    )


def _list_classes(folder: Path) -> list[list[Path]]:
    """Return the image files of every class folder, by name."""
    if not folder.is_dir():
        return []
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    classes = [sorted(path for path in f.iterdir() if path.suffix.lower() in SUFFIXES) for f in folders]
    for path, files in zip(folders, classes, strict=True):
        if len(files) < 2:
            raise UserError(f"the class folder {path.resolve()} has {len(files)} images: at least 2 are needed")
    return classes


def _decode(classes: list[list[Path]]) -> Tensors:
    cuts = [len(files) * 4 // 5 or 1 for files in classes]
    train = [files[:cut] for files, cut in zip(classes, cuts, strict=True)]
    test = [files[cut:] for files, cut in zip(classes, cuts, strict=True)]
    return {f"{name}_{key}": value for name, part in (("train", train), ("test", test)) for key, value in _stack(part)}


def _stack(classes: list[list[Path]]) -> list[tuple[str, Tensor]]:
    pixels = torch.empty(sum(map(len, classes)), 3, SIZE, SIZE, dtype=torch.uint8)
    for i, path in enumerate(path for files in classes for path in files):
        image = open_image(path)
        if image.size != (SIZE, SIZE):
            image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        pixels[i] = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    labels = torch.tensor([label for label, files in enumerate(classes) for _ in files])
    return [("pixels", pixels), ("labels", labels)]
