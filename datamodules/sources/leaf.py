"""FEMNIST as LEAF's scripts leave it: JSON files of writers and their images, read once into a tensor file."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flcluster.errors import UserError

from .cache import Tensors, cached
from .checks import check_stored
from .images import Images

SIDE = 28


NUM_CLASSES = 62
"""0-9, A-Z, a-z, in this order."""


SPLITS = ("train", "test")


COMMAND = "./preprocess.sh -s niid --sf 1.0 -k 0 -t sample --smplseed 0 --spltseed 0"
"""What makes the files of all writers, run in LEAF's folder ``data/femnist``."""


Writer = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Writers:
    """One split: the images of all writers, one writer after the other."""

    images: Images
    bounds: Tensor
    """Writer ``w`` has the images from ``bounds[w]`` up to ``bounds[w + 1]``."""

    def counts(self) -> Tensor:
        """Return how many images each writer has."""
        return self.bounds.diff()

    def of(self, writer: int) -> Tensor:
        """Return the positions of a writer's images."""
        return torch.arange(int(self.bounds[writer]), int(self.bounds[writer + 1]))


def load_femnist(root: Path) -> tuple[list[str], Writers, Writers]:
    """Return the names of all writers, ascending, and what they wrote for training and for testing.

    Reads ``root/femnist/data/{train,test}/*.json`` once into ``root/femnist-28.pt``; with that file the folder is not
    needed any more. LEAF has dark ink on white (1.0); images come out inverted, bright on black as in MNIST and EMNIST.
    """
    folder, cache = root / "femnist" / "data", root / f"femnist-{SIDE}.pt"
    files = {split: sorted((folder / split).glob("*.json")) for split in SPLITS}
    missing = [split for split in SPLITS if not files[split]]
    if missing and not cache.is_file():
        raise UserError(
            f"FEMNIST was not found: there is no JSON file in {(folder / missing[0]).resolve()}. Run {COMMAND} in the "
            "folder data/femnist of LEAF (TalwalkarLab/leaf on GitHub) and put its data/train and data/test into "
            f"{folder.resolve()} (or set --data.root to LEAF's folder data), or put {cache.name} from another machine "
            f"into {root.resolve()}"
        )
    named = [] if missing else [f"{s}/{path.name} {path.stat().st_size}" for s in SPLITS for path in files[s]]
    held = cached(cache, named, lambda: _read_all(files), _check)
    names = bytes(held["names"].tolist()).decode().split("\n")
    train, test = (
        Writers(Images(held[f"{s}_pixels"], held[f"{s}_labels"].long()), held[f"{s}_bounds"]) for s in SPLITS
    )
    return names, train, test


def _read_all(files: dict[str, list[Path]]) -> Tensors:
    read = {split: _read_split(paths) for split, paths in files.items()}
    names = sorted(set().union(*read.values()))
    if not names:
        raise UserError(f"no file in {files['train'][0].parent} has a writer: make the files again with {COMMAND}")
    tensors = {"names": torch.tensor(list("\n".join(names).encode()), dtype=torch.uint8)}
    nothing = (np.empty((0, 1, SIDE, SIDE), np.uint8), np.empty(0, np.uint8))
    for split, writers in read.items():
        pixels, labels = zip(*(writers.pop(name, nothing) for name in names), strict=True)
        tensors[f"{split}_pixels"] = torch.from_numpy(np.concatenate(pixels))
        tensors[f"{split}_labels"] = torch.from_numpy(np.concatenate(labels))
        tensors[f"{split}_bounds"] = torch.tensor([0, *map(len, labels)]).cumsum(0)
    return tensors


def _read_split(paths: list[Path]) -> dict[str, Writer]:
    """Read one file after the other; only bytes are kept."""
    found: dict[str, Writer] = {}
    for path in paths:
        for name, writer in _read_file(path):
            if name in found:
                raise UserError(
                    f"{path} has writer {name}, whom another file beside it has too: remove what an earlier run of "
                    "preprocess.sh left there"
                )
            found[name] = writer
    return found


def _read_file(path: Path) -> Iterator[tuple[str, Writer]]:
    writer = None
    try:
        content = json.loads(path.read_text("utf-8"))
        counts = content.get("num_samples") or [None] * len(content["users"])
        if len(counts) != len(content["users"]):
            raise ValueError(f"{len(content['users'])} users, but {len(counts)} in num_samples")
        for writer, count in zip(content["users"], counts, strict=True):
            yield writer, _convert(content["user_data"].pop(writer), count)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        reason = f"{'' if writer is None else f'writer {writer}: '}{type(error).__name__}: {error}"
        raise UserError(f"{path} is not as LEAF writes it ({reason}): make the files again with {COMMAND}") from error


def _convert(held: dict[str, Any], count: int | None) -> Writer:
    """Turn lists of numbers from 0 (ink) to 1 (paper) into bytes from 0 (paper) to 255 (ink)."""
    x, y = np.array(held["x"], np.float32), np.array(held["y"])
    if not len(x) == len(y) == (len(x) if count is None else count):
        raise ValueError(f"{len(x)} images, {len(y)} labels, and {count} told of")
    if not len(x):
        return x.reshape(-1, 1, SIDE, SIDE).astype(np.uint8), y.astype(np.uint8)
    if x.shape[1:] != (SIDE * SIDE,) or y.ndim != 1 or y.dtype.kind not in "iu":
        raise ValueError(f"each image must be {SIDE * SIDE} numbers, and its label a whole one")
    if wrong := np.flatnonzero(~((x >= 0) & (x <= 1)).all(axis=1) | (y < 0) | (y >= NUM_CLASSES)).tolist():
        raise ValueError(
            f"sample {wrong[0]} (counted from 0) has the label {y[wrong[0]]} and pixels from {x[wrong[0]].min()} to "
            f"{x[wrong[0]].max()}; labels must be in 0..{NUM_CLASSES - 1}, pixels in [0, 1]"
        )
    return np.rint(255 * (1 - x)).astype(np.uint8).reshape(-1, 1, SIDE, SIDE), y.astype(np.uint8)


def _check(held: Tensors) -> None:
    writers = len(bytes(held["names"].tolist()).decode().split("\n"))
    for split in SPLITS:
        pixels, labels, bounds = (held[f"{split}_{part}"] for part in ("pixels", "labels", "bounds"))
        check_stored(pixels, labels, (1, SIDE, SIDE), NUM_CLASSES, split)
        if len(bounds) != writers + 1 or int(bounds[-1]) != len(labels) or bool((bounds.diff() < 0).any()):
            raise ValueError(f"the {split} samples of {writers} writers do not begin and end where they should")
