"""Small files in the layouts that the datasets are published in; each writer returns what it wrote."""

import bz2
import hashlib
import pickle
import struct
from pathlib import Path

import numpy as np
import torchvision.datasets as tv
from PIL import Image

SIZES = {"train": 60, "test": 40}


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def grey(rng, n, size=28, classes=10, first=0):
    return rng.integers(0, 256, (n, size, size), dtype=np.uint8), first + np.arange(n) % classes


def digest_of(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_mnist(root, folder="MNIST"):
    rng, written = np.random.default_rng(1), {}
    for split, part in (("train", "train"), ("test", "t10k")):
        images, labels = written[split] = grey(rng, SIZES[split])
        write_idx(root / folder / "raw" / f"{part}-images-idx3-ubyte", images)
        write_idx(root / folder / "raw" / f"{part}-labels-idx1-ubyte", labels)
    return written


def write_emnist(root, split, classes, first):
    rng, written = np.random.default_rng(2), {}
    for part in ("train", "test"):
        images, labels = written[part] = grey(rng, SIZES[part], classes=classes, first=first)
        write_idx(root / "EMNIST" / "raw" / f"emnist-{split}-{part}-images-idx3-ubyte", images)
        write_idx(root / "EMNIST" / "raw" / f"emnist-{split}-{part}-labels-idx1-ubyte", labels)
    return written


def write_cifar(root, cls):
    """CIFAR's pickled batches: rows of 3,072 bytes, channel by channel. Returns their digests too, by file."""
    rng, written, digests = np.random.default_rng(3), {"train": [], "test": []}, {}
    fine = cls.base_folder == tv.CIFAR100.base_folder
    (root / cls.base_folder).mkdir()
    for split, files in (("train", cls.train_list), ("test", cls.test_list)):
        for name, _ in files:
            rows = rng.integers(0, 256, (SIZES[split] // len(files), 3072), dtype=np.uint8)
            labels = [int(i) for i in rng.integers(0, 100 if fine else 10, len(rows))]
            batch = {"data": rows, "fine_labels" if fine else "labels": labels}
            file = f"{cls.base_folder}/{name}"
            (root / file).write_bytes(pickle.dumps(batch))
            digests[file] = digest_of(root / file)
            written[split].append((rows.reshape(-1, 3, 32, 32), labels))
    joined = {
        split: (np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
        for split, parts in written.items()
    }
    return joined, digests


def write_svhn(root):
    """Matlab files of X [32, 32, 3, n] and y [n, 1], where 10 means the digit 0. Returns their digests too."""
    from scipy.io import savemat

    rng, written, splits = np.random.default_rng(4), {}, {}
    for split in ("train", "test"):
        x = rng.integers(0, 256, (32, 32, 3, SIZES[split]), dtype=np.uint8)
        y = 1 + np.arange(SIZES[split], dtype=np.uint8) % 10
        path = root / f"{split}_32x32.mat"
        savemat(path, {"X": x, "y": y[:, None]})
        splits[split] = ["", path.name, digest_of(path)]
        written[split] = (x.transpose(3, 2, 0, 1), y % 10)
    return written, splits


def write_usps(root):
    """Compressed libsvm text: label 1..10, then 256 values in [-1, 1]."""
    rng, written = np.random.default_rng(5), {}
    for split, name in (("train", "usps.bz2"), ("test", "usps.t.bz2")):
        white, labels = rng.integers(0, 2, (SIZES[split], 256)), np.arange(SIZES[split]) % 10
        lines = [
            f"{label + 1} " + " ".join(f"{i + 1}:{2 * v - 1}" for i, v in enumerate(row))
            for label, row in zip(labels, white, strict=True)
        ]
        (root / name).write_bytes(bz2.compress("\n".join(lines).encode()))
        written[split] = (white.reshape(-1, 16, 16) * 255, labels)
    return written


def write_miniimagenet(root, classes=3, images=10, size=84):
    """Class folders of PNG files (lossless), written in an order that is not that of their names."""
    rng, written = np.random.default_rng(6), {}
    for label in reversed(range(classes)):
        folder = root / "mini-imagenet" / f"n{label:08d}"
        folder.mkdir(parents=True)
        for i in reversed(range(images)):
            pixels = rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"image{i:04d}.png")
            written[label, i] = pixels
    return written


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


def write_ccpd(root, plates=10):
    """Plates under CCPD's own kind of names; returns the (colour, digit) of each digit in the order of file names."""
    rng, written = np.random.default_rng(7), {}
    for split in ("train", "test"):
        folder = root / "ccpd" / split
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
