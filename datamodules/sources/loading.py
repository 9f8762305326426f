"""Torchvision-style datasets read into memory, with one clear error where files are missing or broken."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from flcluster.errors import UserError, at_least

from .checks import as_labels, check_counts
from .idx import check_idx
from .images import Images

Split = Literal["train", "test"]


SPLITS: tuple[Split, Split] = ("train", "test")


def _idx(folder: str, test: str = "t10k") -> tuple[list[str], list[str]]:
    """Return the images and the labels of each split."""
    train, tested = (
        [f"{folder}{part}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")] for part in ("train", test)
    )
    return train, tested


LAYOUTS: dict[str, tuple[list[str], list[str]]] = {
    "MNIST": _idx("MNIST/raw/"),
    "FashionMNIST": _idx("FashionMNIST/raw/"),
    "EMNIST": _idx("EMNIST/raw/emnist-{split}-", "test"),
    "CIFAR10": ([f"cifar-10-batches-py/data_batch_{i}" for i in range(1, 6)], ["cifar-10-batches-py/test_batch"]),
    "CIFAR100": (["cifar-100-python/train"], ["cifar-100-python/test"]),
    "SVHN": (["train_32x32.mat"], ["test_32x32.mat"]),
    "USPS": (["usps.bz2"], ["usps.t.bz2"]),
}
"""The files of each dataset's training and test split, relative to the root folder; labels, if apart, are the last."""


OURS = {
    "torchvision.datasets.cifar.CIFAR10": "flcluster.datamodules.sources.cifar.CIFAR10",
    "torchvision.datasets.cifar.CIFAR100": "flcluster.datamodules.sources.cifar.CIFAR100",
    "torchvision.datasets.usps.USPS": "flcluster.datamodules.sources.usps.USPS",
}
"""Classes of torchvision whose files we read ourselves, since theirs would take wrong ones."""


def find_class(dataset: str) -> Callable[..., Any]:
    """Return the dataset class at a path such as ``torchvision.datasets.MNIST``, or ``MNIST`` for short."""
    module, _, name = dataset.rpartition(".")
    try:
        found: Any = getattr(importlib.import_module(module or "torchvision.datasets"), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"data.dataset: there is no class {dataset!r} ({error})") from error
    ours = OURS.get(f"{getattr(found, '__module__', '')}.{name}")
    return find_class(ours) if ours else found


def open_dataset(dataset: str, root: Path, split: Split, kwargs: dict[str, Any], download: bool = False) -> Any:
    """Construct one split of a torchvision-style dataset; anything that goes wrong becomes one UserError."""
    cls = find_class(dataset)
    signature = inspect.signature(cls)
    by_name = "split" in signature.parameters and "split" not in kwargs
    arguments = {"root": str(root), **({"split": split} if by_name else {"train": split == "train"}), **kwargs}
    if download:
        arguments["download"] = True
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise UserError(f"data.dataset_kwargs: {dataset} cannot be called with {arguments} ({error})") from error
    if len(files := files_of(dataset, kwargs, split)) == 2:
        check_idx(root / files[0], root / files[1])
    try:
        return cls(**arguments)
    except UserError:
        raise
    except Exception as error:  # broken files fail in as many ways as there are formats
        raise UserError(_explain(dataset, root, kwargs, split, download, error)) from error


def files_of(dataset: str, kwargs: dict[str, Any], split: Split) -> list[str]:
    """Return the files of a split, relative to the root folder; none if the dataset is not known."""
    layout = LAYOUTS.get(dataset.rpartition(".")[2], ([], []))
    return [file.format(**kwargs) for file in layout[split == "test"] if "{split}" not in file or "split" in kwargs]


def place_of(dataset: str, root: Path, split: Split, kwargs: dict[str, Any]) -> str:
    """Say where a split's labels are: in which file, if that is known."""
    files = files_of(dataset, kwargs, split)
    return str(root / files[-1]) if files else f"the {split} split of {dataset.rpartition('.')[2]} in {root}"


def load(
    dataset: str, root: Path, split: Split, kwargs: dict[str, Any], shape: tuple[int, ...], download: bool = False
) -> Images:
    """Read one split of a torchvision-style dataset into memory as uint8 ``[n, *shape]`` images."""
    opened, where = open_dataset(dataset, root, split, kwargs, download), place_of(dataset, root, split, kwargs)
    pixels, labels = getattr(opened, "data", None), getattr(opened, "targets", getattr(opened, "labels", None))
    if pixels is None or labels is None:
        pixels, labels = _read_items(opened, shape, where)
    check_counts(len(pixels), len(labels), where)
    found = _channels_first(torch.as_tensor(pixels), shape, dataset)
    return Images(found, as_labels(labels, where), getattr(opened, "maximum", 255))


def load_by(
    function: Callable[..., tuple[Images, Images]],
    name: str,
    root: Path,
    kwargs: dict[str, Any],
    shape: tuple[int, ...],
    download: bool,
) -> list[Images]:
    """Read both splits by a dataset's own function, ``function(root, download, **kwargs)``."""
    try:
        inspect.signature(function).bind(root, download, **kwargs)
    except TypeError as error:
        raise UserError(f"data.dataset_kwargs: {name} cannot be read with {kwargs} ({error})") from error
    try:
        read = function(root, download, **kwargs)
    except UserError:
        raise
    except Exception as error:  # a function of anybody's, and files that are broken in any way
        raise UserError(f"{name} in {root.resolve()} cannot be read ({type(error).__name__}: {error})") from error
    for images in read:
        check_counts(len(images.pixels), len(images.labels), f"{name} in {root}")
    return [replace(images, pixels=_channels_first(images.pixels, shape, name)) for images in read]


def check_image_arguments(
    shape: tuple[int, ...], mean: tuple[float, ...], std: tuple[float, ...], image_size: int | None
) -> None:
    """Refuse a shape, mean, std or size that no image can have."""
    if len(shape) != 3 or min(shape) < 1:
        raise UserError(f"data.input_shape is {shape}: give channels, height and width")
    if image_size is not None:
        at_least("image_size", image_size, 1, "data.")
    if not len(mean) == len(std) == shape[0]:
        raise UserError(f"data.mean and data.std need {shape[0]} values, one per channel")
    if min(std) <= 0:
        raise UserError(f"data.std is {std}: every value must be above 0")


def _read_items(opened: Any, shape: tuple[int, ...], where: str) -> tuple[np.ndarray, list[Any]]:
    """Read a dataset that yields (PIL image, label) and keeps nothing in memory itself."""
    size, mode = (shape[2], shape[1]), "L" if shape[0] == 1 else "RGB"
    pixels, labels = np.empty((len(opened), *size[::-1], *shape[:1])[: 3 + (shape[0] != 1)], np.uint8), []
    for i in range(len(opened)):
        try:
            image, label = opened[i]
            pixels[i] = np.asarray(image.convert(mode).resize(size, Image.Resampling.BILINEAR))
        except Exception as error:  # a dataset of anybody's
            raise UserError(f"{where}: sample {i} cannot be read ({type(error).__name__}: {error})") from error
        labels.append(label)
    return pixels, labels


def _channels_first(pixels: Tensor, shape: tuple[int, ...], dataset: str) -> Tensor:
    channels, height, width = shape
    found = tuple(pixels.shape[1:])
    if found == (height, width) and channels == 1:
        pixels = pixels[:, None]
    elif found == (height, width, channels):
        pixels = pixels.permute(0, 3, 1, 2)
    elif found != shape:
        raise UserError(f"data.input_shape is {shape}, but the images of {dataset} have the shape {found}")
    if pixels.dtype != torch.uint8:
        raise UserError(f"data.dataset: the images of {dataset} are {pixels.dtype}; uint8 is needed")
    return pixels.contiguous()


def _explain(dataset: str, root: Path, kwargs: dict[str, Any], split: Split, download: bool, error: Exception) -> str:
    """Say which files are missing, or that they cannot be read, and what to do."""
    name, root = dataset.rpartition(".")[2], root.resolve()
    files, known = files_of(dataset, kwargs, split), [f for s in SPLITS for f in files_of(dataset, kwargs, s)]
    missing = [file for file in known if not (root / file).is_file()]
    reason = f"{type(error).__name__}: {' '.join(str(error).split()) or 'no details'}"
    wanted = ", ".join(missing or files) or f"the files that {dataset} reads"
    if download:
        return f"{name} could not be downloaded into {root} ({reason}). Put these files there by hand: {wanted}"
    if files and not missing:
        return f"{name} in {root} cannot be read ({reason}). Replace the broken file: {wanted}"
    hint = " or download them with --data.download true" if files else ""
    return f"{name} was not found in {root} ({reason}). Put these files there{hint}: {wanted}"
