"""Small files in the layouts that the datasets are published in; each writer returns what it wrote."""

import bz2
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torchvision.datasets as tv
from PIL import Image

SIZES = {"train": 60, "test": 40}


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def grey(rng, n, size=28, classes=10, first=0):
    return rng.integers(0, 256, (n, size, size), dtype=np.uint8), first + np.arange(n) % classes


@pytest.fixture
def write_mnist(tmp_path):
    def write(folder="MNIST"):
        rng, written = np.random.default_rng(1), {}
        for split, part in (("train", "train"), ("test", "t10k")):
            images, labels = written[split] = grey(rng, SIZES[split])
            write_idx(tmp_path / folder / "raw" / f"{part}-images-idx3-ubyte", images)
            write_idx(tmp_path / folder / "raw" / f"{part}-labels-idx1-ubyte", labels)
        return written

    return write


@pytest.fixture
def write_emnist(tmp_path):
    def write(split, classes, first):
        rng, written = np.random.default_rng(2), {}
        for part in ("train", "test"):
            images, labels = written[part] = grey(rng, SIZES[part], classes=classes, first=first)
            write_idx(tmp_path / "EMNIST" / "raw" / f"emnist-{split}-{part}-images-idx3-ubyte", images)
            write_idx(tmp_path / "EMNIST" / "raw" / f"emnist-{split}-{part}-labels-idx1-ubyte", labels)
        return written

    return write


@pytest.fixture
def write_cifar(tmp_path, monkeypatch):
    """CIFAR's pickled batches: rows of 3,072 bytes, channel by channel."""

    def write(cls):
        rng, written = np.random.default_rng(3), {"train": [], "test": []}
        fine = cls is tv.CIFAR100
        folder = tmp_path / cls.base_folder
        folder.mkdir()
        for split, files in (("train", cls.train_list), ("test", cls.test_list)):
            monkeypatch.setattr(cls, f"{split}_list", [[name, None] for name, _ in files])  # no MD5 for small files
            for name, _ in files:
                rows = rng.integers(0, 256, (SIZES[split] // len(files), 3072), dtype=np.uint8)
                labels = [int(i) for i in rng.integers(0, 100 if fine else 10, len(rows))]
                batch = {"data": rows, "fine_labels" if fine else "labels": labels}
                (folder / name).write_bytes(pickle.dumps(batch))
                written[split].append((rows.reshape(-1, 3, 32, 32), labels))
        monkeypatch.setattr(cls, "meta", {**cls.meta, "md5": None})
        (folder / cls.meta["filename"]).write_bytes(pickle.dumps({cls.meta["key"]: ["name"]}))
        return {
            split: (np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
            for split, parts in written.items()
        }

    return write


@pytest.fixture
def write_svhn(tmp_path, monkeypatch):
    """Matlab files of X [32, 32, 3, n] and y [n, 1], where 10 means the digit 0."""

    def write():
        from scipy.io import savemat

        rng, written, splits = np.random.default_rng(4), {}, {}
        for split in ("train", "test"):
            x = rng.integers(0, 256, (32, 32, 3, SIZES[split]), dtype=np.uint8)
            y = 1 + np.arange(SIZES[split], dtype=np.uint8) % 10
            savemat(tmp_path / f"{split}_32x32.mat", {"X": x, "y": y[:, None]})
            splits[split] = ["", f"{split}_32x32.mat", None]
            written[split] = (x.transpose(3, 2, 0, 1), y % 10)
        monkeypatch.setattr(tv.SVHN, "split_list", splits)
        return written

    return write


@pytest.fixture
def write_usps(tmp_path):
    """Compressed libsvm text: label 1..10, then 256 values in [-1, 1]."""

    def write():
        rng, written = np.random.default_rng(5), {}
        for split, name in (("train", "usps.bz2"), ("test", "usps.t.bz2")):
            white, labels = rng.integers(0, 2, (SIZES[split], 256)), np.arange(SIZES[split]) % 10
            lines = [
                f"{label + 1} " + " ".join(f"{i + 1}:{2 * v - 1}" for i, v in enumerate(row))
                for label, row in zip(labels, white, strict=True)
            ]
            (tmp_path / name).write_bytes(bz2.compress("\n".join(lines).encode()))
            written[split] = (white.reshape(-1, 16, 16) * 255, labels)
        return written

    return write


@pytest.fixture
def write_miniimagenet(tmp_path):
    """Class folders of PNG files (lossless), written in an order that is not that of their names."""

    def write(classes=3, images=10, size=84):
        rng, written = np.random.default_rng(6), {}
        for label in reversed(range(classes)):
            folder = tmp_path / "mini-imagenet" / f"n{label:08d}"
            folder.mkdir(parents=True)
            for i in reversed(range(images)):
                pixels = rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"image{i:04d}.png")
                written[label, i] = pixels
        return written

    return write


# Corners of a tilted plate in a 600 x 400 image: right-bottom, left-bottom, left-top, right-top.
CORNERS = [(520, 300), (80, 260), (80, 120), (520, 160)]


def plate(colours):
    """Draw a plate whose seven characters are flat colours, each over its part of the width; black elsewhere."""
    edges = [0, 66, 134, 202, 259, 316, 373, 440]  # mm, half-way between neighbouring characters
    image = np.zeros((400, 600, 3), np.uint8)
    for colour, left, right in zip(colours, edges[:-1], edges[1:], strict=True):
        for x in range(80 + left, 80 + right):
            shift = (x - 80) * 40 // 440
            image[120 + shift : 260 + shift, x] = colour
    return Image.fromarray(image)


@pytest.fixture
def write_ccpd(tmp_path):
    """Plates under CCPD's own kind of names; returns the (colour, digit) of each digit in the order of file names."""

    def write(plates=10):
        rng, written = np.random.default_rng(7), {}
        for split in ("train", "test"):
            folder = tmp_path / "ccpd" / split
            folder.mkdir(parents=True)
            written[split] = []
            for p in range(plates):
                characters = [3, 24, 24 + p % 10, 0, 33, 34, 24 + (p + 5) % 10]  # "?O" + digit A 9 O digit
                digits = {2: p % 10, 4: 9, 6: (p + 5) % 10}
                colours = rng.integers(0, 256, (7, 3))
                corners = "_".join(f"{x}&{y}" for x, y in CORNERS)
                name = f"{p:03d}-95_113-80&120_520&300-{corners}-{'_'.join(map(str, characters))}-37-15.jpg"
                plate(colours).save(folder / name, quality=95, subsampling=0)
                written[split] += [(colours[k], digit) for k, digit in digits.items()]
        return written

    return write
