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

from .images import Images

Split = Literal["train", "test"]


SPLITS: tuple[Split, Split] = ("train", "test")


_IDX = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


LAYOUTS: dict[str, list[str]] = {
    "MNIST": [f"MNIST/raw/{file}" for file in _IDX],
    "FashionMNIST": [f"FashionMNIST/raw/{file}" for file in _IDX],
    "EMNIST": [f"EMNIST/raw/{file}".replace("raw/", "raw/emnist-{split}-").replace("t10k", "test") for file in _IDX],
    "CIFAR10": [f"cifar-10-batches-py/{file}" for file in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]]
    + ["cifar-10-batches-py/batches.meta"],
    "CIFAR100": [f"cifar-100-python/{file}" for file in ("train", "test", "meta")],
    "SVHN": ["train_32x32.mat", "test_32x32.mat"],
    "USPS": ["usps.bz2", "usps.t.bz2"],
}
"""The files each dataset needs, relative to the root folder."""


def find_class(dataset: str) -> Callable[..., Any]:
    """Return the dataset class at a path such as ``torchvision.datasets.MNIST``, or ``MNIST`` for short."""
    module, _, name = dataset.rpartition(".")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module or "torchvision.datasets"), name)
        return found
    except (ImportError, AttributeError) as error:
        raise UserError(f"data.dataset: there is no class {dataset!r} ({error})") from error


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
    try:
        return cls(**arguments)
    except UserError:
        raise
    except Exception as error:  # broken files fail in as many ways as there are formats
        raise UserError(_explain(dataset, root, kwargs, download, error)) from error


def load(
    dataset: str, root: Path, split: Split, kwargs: dict[str, Any], shape: tuple[int, ...], download: bool = False
) -> Images:
    """Read one split of a torchvision-style dataset into memory as uint8 ``[n, *shape]`` images."""
    opened = open_dataset(dataset, root, split, kwargs, download)
    pixels, labels = getattr(opened, "data", None), getattr(opened, "targets", getattr(opened, "labels", None))
    if pixels is None or labels is None:
        pixels, labels = _read_items(opened, shape)
    pixels = _channels_first(torch.as_tensor(pixels), shape, dataset)
    return Images(pixels, torch.as_tensor(labels).long(), getattr(opened, "maximum", 255))


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
    except OSError as error:
        raise UserError(f"{name} in {root.resolve()} cannot be read ({type(error).__name__}: {error})") from error
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


def check_labels(images: Images, num_classes: int, split: Split, name: str) -> None:
    """Refuse labels that do not go from 0 to ``num_classes - 1``."""
    low, top = int(images.labels.min()), int(images.labels.max())
    if not 0 <= low <= top < num_classes:
        raise UserError(
            f"data.num_classes is {num_classes}, but the {split} labels of {name} go from {low} to {top}: use {top + 1}"
        )


def _read_items(opened: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, list[int]]:
    """Read a dataset that yields (PIL image, label) and keeps nothing in memory itself."""
    size, mode = (shape[2], shape[1]), "L" if shape[0] == 1 else "RGB"
    items = [opened[i] for i in range(len(opened))]
    pixels = [np.asarray(image.convert(mode).resize(size, Image.Resampling.BILINEAR)) for image, _ in items]
    return np.stack(pixels), [int(label) for _, label in items]


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


def _explain(dataset: str, root: Path, kwargs: dict[str, Any], download: bool, error: Exception) -> str:
    """Say which files are missing, or that they cannot be read, and what to do."""
    name, root = dataset.rpartition(".")[2], root.resolve()
    files = [file.format(**kwargs) for file in LAYOUTS.get(name, []) if "{split}" not in file or "split" in kwargs]
    missing = [file for file in files if not (root / file).is_file()]
    reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no details'}"
    wanted = ", ".join(missing or files) or f"the files that {dataset} reads"
    if download:
        return f"{name} could not be downloaded into {root} ({reason}). Put these files there by hand: {wanted}"
    if files and not missing:
        return f"{name} in {root} cannot be read ({reason}). Replace the broken file among: {wanted}"
    hint = " or download them with --data.download true" if files else ""
    return f"{name} was not found in {root} ({reason}). Put these files there{hint}: {wanted}"
