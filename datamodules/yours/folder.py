"""Folders of images, a folder for each class, read batch by batch."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate
from torchvision.datasets import ImageFolder
from torchvision.transforms import functional as F

from flcluster.data import Samples
from flcluster.datamodules.sources.cache import cached, open_image
from flcluster.datamodules.sources.checks import stays_inside
from flcluster.datamodules.sources.loading import check_image_arguments
from flcluster.errors import UserError

from .brought import Brought, Transform, on_input, owners_in
from .module import OwnDataModule


class ImageFolderDataModule(OwnDataModule):
    """Images in a folder for each class, as ``torchvision.datasets.ImageFolder`` reads them.

    ``root`` holds ``train`` and ``test``, perhaps ``val`` too, with the classes' folders in each; or those folders
    themselves, and then a share of each client's images tests. Images are decoded when a batch is made.

    Args:
        root: The folder.
        image_size: Height and width that images are resized to.
        mean: Per-channel mean of pixels in [0, 1]; that of the training images if not given, kept in a file in root.
        std: Per-channel standard deviation of pixels in [0, 1]; like mean.
        clients: Regular expression; what its first group finds in an image's path in root is its client. Without it,
            give a partition.
        train_transform: Applied to each image of training, a float tensor in [0, 1], before it is normalised.
        **kwargs: What every datamodule of one's own takes: partition, num_clients, test_share, val_share and others.
    """

    def __init__(
        self,
        root: str | Path,
        image_size: int = 64,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
        clients: str | None = None,
        train_transform: Transform | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.root, self.image_size, self.clients = Path(root).expanduser(), image_size, clients
        self.name, self.train_transform = self.root.resolve().name, train_transform
        self._moments = (mean, std)
        if clients is not None:
            _check_pattern(clients)
        if (mean is None) != (std is None):
            raise UserError("data.mean and data.std go together: give both, or neither to have them computed")
        check_image_arguments((3, image_size, image_size), mean or (0.0,) * 3, std or (1.0,) * 3, image_size)

    def prepare_data(self) -> None:
        """Compute mean and standard deviation, once for each folder and size, where they are not given."""
        self._normalisation(self._opened()[0])

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation, given or computed, that pixels in [0, 1] are normalised by."""
        mean, std = self._normalisation(self._opened()[0])
        return tuple(mean.tolist()), tuple(std.tolist())

    def bring(self) -> Brought:
        """List the files."""
        folders = self._opened()
        collate = NormalisedBatch(*self._normalisation(folders[0]))
        transform = on_input(self.train_transform)
        held = [_samples(folder, collate, transform if i == 0 else None) for i, folder in enumerate(folders)]
        ids, owners = self._ids(folders)
        assert held[0] is not None
        return Brought(
            *(held[0], held[1], held[2]),
            *(ids[0], ids[1], ids[2]),
            owners=owners,
            num_classes=len(folders[0].classes),
            input_shape=(3, self.image_size, self.image_size),
            class_names=tuple(folders[0].classes),
        )

    def _opened(self) -> tuple["Pictures", "Pictures | None", "Pictures | None"]:
        """Open the splits that there are: what trains, tests and validates."""
        root = self.root
        if not root.is_dir():
            raise UserError(f"data.root: there is no folder {root.resolve()}")
        if not (root / "train").is_dir():
            if alone := [split for split in ("test", "val") if (root / split).is_dir()]:
                raise UserError(f"data.root: {root.resolve()} has a folder {alone[0]}, but no folder train beside it")
            return _open(root, self.image_size, None), None, None
        train = _open(root / "train", self.image_size, None)
        test, val = (
            _open(root / split, self.image_size, train.classes) if (root / split).is_dir() else None
            for split in ("test", "val")
        )
        return (train, val, None) if test is None else (train, test, None if self.val_share else val)

    def _normalisation(self, train: "Pictures") -> tuple[Tensor, Tensor]:
        mean, std = self._moments
        if mean is not None and std is not None:
            return torch.tensor(mean), torch.tensor(std)
        files = [path for path, _ in train.samples]
        kept = cached(self.root / f"mean_std_{self.image_size}.pt", files, lambda: moments(train), _check_moments)
        return kept["mean"], kept["std"]

    def _ids(self, folders: Sequence["Pictures | None"]) -> tuple[list[Any], tuple[Any, ...]]:
        if self.clients is None:
            return [None] * len(folders), ()
        return owners_in(
            [None if folder is None else [self._client(p) for p, _ in folder.samples] for folder in folders]
        )

    def _client(self, path: str) -> str:
        relative = Path(path).relative_to(self.root).as_posix()
        found = re.search(str(self.clients), relative)
        if found is None or not found.groups():
            raise UserError(f"data.clients ({self.clients}) finds no client in {relative}: its first group must")
        return found[1]


class Pictures(ImageFolder):  # type: ignore[misc]
    """Class folders as pairs of a float image in [0, 1] and a label.

    Args:
        root: The folder with a folder for each class.
        size: Height and width that images are resized to.
        classes: The classes that there are, if another split says so.
    """

    def __init__(self, root: Path, size: int, classes: list[str] | None) -> None:
        self.size, self.told = size, classes
        super().__init__(str(root), loader=open_image, allow_empty=classes is not None)

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """Return the classes by name; those of another split where there is one."""
        found = sorted(folder.name for folder in Path(directory).iterdir() if folder.is_dir())
        names = found if self.told is None else self.told
        if strange := set(found) - set(names):
            raise UserError(f"{directory} has a class that is not in the training folder: {min(strange)}")
        return names, {name: label for label, name in enumerate(names)}

    @staticmethod
    def make_dataset(directory: Any, class_to_idx: dict[str, int], *args: Any, **kwargs: Any) -> list[tuple[str, int]]:
        """List the images, but not for ever: a link to a folder that it lies in would be followed again and again."""
        for folder, inner, _ in os.walk(directory, followlinks=True):
            for name in inner:
                path = os.path.join(folder, name)
                if os.path.islink(path) and stays_inside(os.path.realpath(folder), Path(os.path.realpath(path))):
                    raise UserError(f"{path} is a link to a folder that it lies in: remove it")
        found: list[tuple[str, int]] = ImageFolder.make_dataset(directory, class_to_idx, *args, **kwargs)
        if not found:
            raise UserError(f"{directory} has no image in any of its folders")
        return found

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, label = self.samples[index]
        image = F.pil_to_tensor(self.loader(path))
        return F.resize(image, [self.size, self.size], antialias=True).float().div_(255), label


class NormalisedBatch:
    """Makes a batch of images and normalises it at once.

    Args:
        mean: Per-channel mean.
        std: Per-channel standard deviation.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean, self.std = mean.float()[:, None, None], std.float()[:, None, None]

    def __call__(self, samples: list[Any]) -> list[Tensor]:
        """Return inputs and labels."""
        x, y = default_collate(samples)
        return [(x - self.mean) / self.std, y]


def moments(pictures: Pictures) -> dict[str, Tensor]:
    """Return the mean and standard deviation of each channel, image by image."""
    total, squares = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for i in range(len(pictures)):
        image = pictures[i][0].double()
        total += image.mean((1, 2))
        squares += image.square().mean((1, 2))
    mean = total / len(pictures)
    return {"mean": mean, "std": (squares / len(pictures) - mean.square()).clamp_min(1e-6).sqrt()}


def _check_moments(held: dict[str, Tensor]) -> None:
    if not all(held[name].shape == (3,) and bool(held[name].isfinite().all()) for name in ("mean", "std")):
        raise ValueError("three finite numbers each are needed")
    if not bool((held["std"] > 0).all()):
        raise ValueError("a standard deviation is not above 0")


def _check_pattern(clients: str) -> None:
    try:
        groups = re.compile(clients).groups
    except re.error as error:
        raise UserError(f"data.clients is {clients!r}, which is no regular expression ({error})") from error
    if not groups:
        raise UserError(f"data.clients is {clients!r}: what its first group finds is the client, but it has no group")


def _samples(folder: Pictures | None, collate: NormalisedBatch, transform: Transform | None) -> Samples | None:
    return None if folder is None else Samples(folder, collate, torch.tensor(folder.targets), transform)


def _open(root: Path, size: int, classes: list[str] | None) -> Pictures:
    try:
        return Pictures(root, size, classes)
    except (OSError, ValueError) as error:
        raise UserError(f"{root} has no folder of images for each class ({' '.join(str(error).split())})") from error
