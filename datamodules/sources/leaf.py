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
    held = cached(cache, named, lambda: _read_all(files))
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
    try:
        content = json.loads(path.read_text("utf-8"))
        for name in content["users"]:
            yield name, _convert(content["user_data"].pop(name))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{path} is not as LEAF writes it ({reason}): make the files again with {COMMAND}") from error


def _convert(held: dict[str, Any]) -> Writer:
    """Turn lists of numbers from 0 (ink) to 1 (paper) into bytes from 0 (paper) to 255 (ink)."""
    x, y = np.array(held["x"], np.float32).reshape(-1, 1, SIDE, SIDE), np.array(held["y"], np.int64)
    if len(x) != len(y):
        raise ValueError(f"{len(x)} images but {len(y)} labels")
    if len(x) and not (x.min() >= 0 and x.max() <= 1 and y.min() >= 0 and y.max() < NUM_CLASSES):
        raise ValueError(f"pixels must be in [0, 1] and labels in 0..{NUM_CLASSES - 1}")
    return np.rint(255 * (1 - x)).astype(np.uint8), y.astype(np.uint8)
