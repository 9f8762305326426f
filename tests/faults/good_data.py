"""Small good folders for every reader of data: what writes one, and what reads it through to the last sample."""

import csv
import hashlib
import inspect
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import layouts
import numpy as np
import torch
import torchvision.datasets as tv
from lightning import LightningDataModule
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import flcluster.datamodules as offered
from flcluster.data import FederatedDataModule
from flcluster.datamodules.clusters.rotated import Rotated
from flcluster.datamodules.skew.module import Skewed
from flcluster.datamodules.sources import cifar
from flcluster.datamodules.sources.module import ByClassPath, ImageDataModule
from flcluster.datamodules.streams.datasets import Streamed

Roles = Mapping[str, Mapping[str, str]]
"""For a file of columns, by the end of its name, what each column is: number, label, client, time, image, box, …"""


@dataclass(frozen=True)
class Recipe:
    """A reader, a folder that it reads, and what makes sure that all of it is read."""

    name: str
    write: Callable[[Path], Any]
    """Writes the folder; returns digests that the reader must take for the published ones, if it knows some."""
    read: Callable[[Path], str]
    """Reads everything and returns a digest of it."""
    roles: Roles = field(default_factory=dict)
    only: tuple[str, ...] = ()
    """The harms that concern the reader, where a user's own line opens the file; all if not given."""


# ------------------------------------------------------------------------------------------------------ datamodules


def digest(data: FederatedDataModule) -> str:
    """Read every sample of a datamodule as a run does, and return a digest of all."""
    data.prepare_data()
    data.setup("fit")
    found = hashlib.sha256(f"{data.num_clients} {data.num_classes} {data.input_shape}".encode())
    for split in ("train", "test"):
        view = data.pool(split)
        for tensor in view.tensors() if len(view) else ():
            found.update(tensor.numpy().tobytes())
    for client in range(data.num_clients):
        found.update(str([len(data.shard(client).train), len(data.shard(client).test)]).encode())
    return found.hexdigest()


def trust(told: Any) -> None:
    """Take the digests of small files for those of the published ones (in a process of its own)."""
    for name, value in (told or {}).items():
        if name == "svhn":
            tv.SVHN.split_list = value
        else:
            cifar.DIGESTS[name] = value


class Everything(offered.ArrivalPlan):
    """All samples are dealt out one by one, and all are there from the beginning."""

    def draw(self, setting: offered.StreamSetting) -> offered.SampleArrivals:
        every = np.arange(len(setting.labels))
        return offered.SampleArrivals(every, every % setting.num_clients, np.zeros(len(every), dtype=np.int64))


def _miniimagenet(root: Path) -> None:
    layouts.write_miniimagenet(root, classes=3, images=5, size=20)


def _owned_digits(root: Path) -> None:
    (root / "owners.txt").write_text("".join(f"writer {i % 40}\n" for i in range(1797)))


def _mnist(root: Path, folder: str) -> None:
    layouts.write_mnist(root, folder)


def _emnist(root: Path, split: str, classes: int, first: int) -> None:
    layouts.write_emnist(root, split, classes, first)


IMAGES: dict[str, Callable[[Path], Any]] = {
    "MNIST": lambda root: _mnist(root, "MNIST"),
    "FashionMNIST": lambda root: _mnist(root, "FashionMNIST"),
    "CIFAR-10": lambda root: layouts.write_cifar(root, tv.CIFAR10)[1],
    "CIFAR-100": lambda root: layouts.write_cifar(root, tv.CIFAR100)[1],
    "MiniImagenet": _miniimagenet,
    "Digits": lambda root: _owned_digits(root),
}
"""What writes the images of a record (``Known``), by its name. EMNIST's depend on the split."""


def _image_settings(kind: type, root: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {"root": root, "seed": 0}
    if issubclass(kind, ByClassPath):
        settings |= {"dataset": "MNIST", "num_classes": 10, "input_shape": (1, 28, 28), "mean": (0.1,), "std": (0.3,)}
    if issubclass(kind, Rotated):
        settings |= {"num_clusters": 2, "num_clients": 4, "samples": (3, 4), "proxy_size": 2, "test_size": 1}
    if issubclass(kind, Skewed):
        digits = kind is offered.SkewedDigits
        partition = offered.NaturalIds(path="owners.txt") if digits else offered.IID()
        settings |= {"num_clients": 2, "partition": partition, "test_share": 0.2}
    if issubclass(kind, Streamed):
        settings |= {"num_clients": 3, "arrivals": Everything(), "window": 10}
    if kind.__name__ == "RotatedMiniImagenet":
        settings |= {"num_classes": 3}
    return settings


def _of_images(kind: type) -> Recipe | None:
    name = "MNIST" if issubclass(kind, ByClassPath) else kind.known.name
    write = IMAGES.get(name)
    if name == "EMNIST":
        write = partial(_emnist, split="letters", classes=26, first=1)
        if issubclass(kind, Rotated):
            write = partial(_emnist, split="balanced", classes=47, first=0)
    if write is None:
        return None
    return Recipe(kind.__name__, write, lambda root: digest(kind(**_image_settings(kind, root))))


def _femnist(root: Path) -> None:
    rng = np.random.default_rng(8)
    for split, count in (("train", 4), ("test", 2)):
        folder = root / "femnist" / "data" / split
        folder.mkdir(parents=True)
        for part in range(2):
            names = [f"f{part}_{i}" for i in range(2)]
            data = {
                name: {
                    "x": (rng.integers(0, 256, (count, 784)) / 255).tolist(),
                    "y": rng.integers(0, 62, count).tolist(),
                }
                for name in names
            }
            held = {"users": names, "num_samples": [count] * 2, "user_data": data}
            (folder / f"all_data_{part}.json").write_text(json.dumps(held))


def _read_femnist(root: Path) -> str:
    return digest(offered.RotatedFEMNIST(num_clusters=2, num_clients=4, root=root))


def _digit_recognition(root: Path) -> dict[str, Any]:
    layouts.write_mnist(root)
    layouts.write_usps(root)
    layouts.write_ccpd(root, plates=3)
    return {"svhn": layouts.write_svhn(root)[1]}


def _read_digit_recognition(root: Path) -> str:
    data = offered.DigitRecognition(root=root, samples=(3, 4), proxy_size=2, test_size=2, num_clients=6)
    return digest(data)


MANIFEST = {"trace.csv": {"image": "image", "label": "label", "client": "client", "time": "time", "box": "box"}}


def _trace(root: Path, numbered: bool = False) -> None:
    rng = np.random.default_rng(0)
    (root / "images").mkdir()
    rows = [["image", "label", "client", "time", "box"]]
    for i in range(24):
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(root / "images" / f"{i}.png")
        time = str(i + 0.5) if numbered else f"2015-01-{i + 1:02d}T12:30:00Z"
        label = str(i % 4) if numbered else "abcd"[i % 4]
        rows.append([f"images/{i}.png", label, ("north", "south")[i % 2], time, "1 1 5 5"])
    with (root / "trace.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    if not numbered:
        (root / "trace.classes.txt").write_text("a\nb\nc\nd\n")


def _read_trace(root: Path) -> str:
    return digest(offered.TraceDataModule("trace.csv", image_size=6, root=root, window=10))


TABLE = {"age": "number", "colour": "word", "who": "client", "price": "number", "kind": "label"}


def _table(root: Path) -> None:
    for name, rows, first in (("t.csv", 60, 0), ("u.csv", 24, 60)):
        lines = [",".join(TABLE)]
        for i in range(first, first + rows):
            lines.append(f"{20 + i},{('red', 'blue', 'green')[i % 3]},{i % 6},{i / 4},{i % 2}")
        (root / name).write_text("\n".join(lines) + "\n")


def _csv(root: Path, **more: Any) -> Any:
    return offered.CSVDataModule(root / "t.csv", "kind", test_path=root / "u.csv", **more)


def _shifted(root: Path) -> Any:
    return offered.ShiftedDataModule(_csv(root, drop=["who"]), shifts=["none", "swap0-1"], num_clients=4)


def _drifting(root: Path) -> Any:
    return offered.DriftingDataModule(_csv(root, drop=["who"]), num_clients=3)


def _arrays(root: Path) -> None:
    rng = np.random.default_rng(3)
    np.save(root / "x.npy", rng.normal(size=(40, 5)).astype(np.float32))


def _read_arrays(root: Path) -> str:
    x = np.load(root / "x.npy", mmap_mode="r", allow_pickle=False)  # a user's line: only what it holds is ours
    return digest(offered.from_arrays(x, np.arange(40) % 3, clients=np.arange(40) % 4))


def _folder(root: Path) -> None:
    rng = np.random.default_rng(4)
    for split, count in (("train", 5), ("test", 2)):
        for kind in ("cat", "dog"):
            (root / split / kind).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / kind / f"{kind}{i}{split}.{('png', 'jpg')[i % 2]}")


def _read_folder(root: Path) -> str:
    return digest(offered.ImageFolderDataModule(root, image_size=8, partition=offered.IID(), num_clients=2))


class Theirs(LightningDataModule):
    """A user's datamodule."""

    def setup(self, stage: str) -> None:
        rng = torch.Generator().manual_seed(0)
        self.held = TensorDataset(torch.randn(40, 3, generator=rng), torch.arange(40) % 4)

    def train_dataloader(self) -> Any:
        return DataLoader(self.held, batch_size=8)


def _owners(root: Path) -> None:
    np.save(root / "owners.npy", np.arange(40) % 4)


def _read_split(root: Path) -> str:
    owners = offered.NaturalIds(path=str(root / "owners.npy"))
    return digest(offered.SplitDataModule(Theirs(), partition=owners))


def _hub(root: Path) -> None:
    import datasets

    features = datasets.Features({"x": datasets.Sequence(datasets.Value("float32")), "label": datasets.ClassLabel(3)})
    rng = np.random.default_rng(6)
    held = {"x": rng.normal(size=(30, 4)).astype(np.float32).tolist(), "label": [i % 3 for i in range(30)]}
    datasets.Dataset.from_dict(held, features=features).save_to_disk(str(root / "hub"))


def _read_hub(root: Path) -> str:
    return digest(
        offered.HuggingFaceDataModule(root / "hub", pair=("x", "label"), partition=offered.IID(), num_clients=2)
    )


DATAMODULES = [
    Recipe("RotatedFEMNIST", _femnist, _read_femnist),
    Recipe("DigitRecognition", _digit_recognition, _read_digit_recognition),
    Recipe("TraceDataModule", _trace, _read_trace, MANIFEST),
    Recipe("CSVDataModule", _table, lambda root: digest(_csv(root, clients="who")), {".csv": TABLE}),
    Recipe("ShiftedDataModule", _table, lambda root: digest(_shifted(root)), {".csv": TABLE | {"who": "word"}}),
    Recipe("DriftingDataModule", _table, lambda root: digest(_drifting(root)), {"t.csv": TABLE | {"who": "word"}}),
    Recipe("ArrayDataModule", _arrays, _read_arrays, only=("NaN", "infinite", "a row less", "a row more")),
    Recipe("ImageFolderDataModule", _folder, _read_folder),
    Recipe("SplitDataModule", _owners, _read_split),
    *([Recipe("HuggingFaceDataModule", _hub, _read_hub)] if find_spec("datasets") else []),
]


# ------------------------------------------------------------------------------------------------- caches and others


def _left(write: Callable[[Path], Any], read: Callable[[Path], str], keep: str) -> Callable[[Path], Any]:
    """Return what writes a folder of which only the files that reading leaves are there."""

    def write_and_read(root: Path) -> None:
        write(root)
        read(root)
        for path in sorted(root.rglob("*"), reverse=True):
            if not path.match(keep):
                path.unlink() if path.is_file() else path.rmdir()

    return write_and_read


def _mini(root: Path) -> str:
    return digest(offered.RotatedMiniImagenet(**_image_settings(offered.RotatedMiniImagenet, root)))


def _ccpd(root: Path) -> str:
    from flcluster.datamodules.sources.ccpd import CCPDDigits

    held = [CCPDDigits(str(root), train) for train in (True, False)]
    return hashlib.sha256(
        b"".join(each.data.numpy().tobytes() + bytes(each.targets.tolist()) for each in held)
    ).hexdigest()


def _decoded(root: Path) -> None:
    _trace(root)
    _read_trace(root)
    for path in (root / "images").iterdir():
        path.unlink()


def _devices(root: Path) -> None:
    capacity = {i: {"computation": 50.0 + i, "communication": 900 + i} for i in range(6)}
    (root / "capacity.pkl").write_bytes(pickle.dumps(capacity))
    online = {i: {"active": [0.0, 50.0 + i], "inactive": [20.0, 80.0], "finish_time": 100} for i in range(5)}
    (root / "availability.pkl").write_bytes(pickle.dumps(online))
    rows = "".join(f"{20 + i},{3 + i / 2}\n" for i in range(6))
    (root / "profiles.csv").write_text(f"ms_per_sample,mbps\n{rows}")


def _read_devices(root: Path) -> str:
    from flcluster.devices.profiles import TraceDevices

    told = []
    for capacity in ("capacity.pkl", "profiles.csv"):
        made = TraceDevices(capacity=str(root / capacity), availability=str(root / "availability.pkl"))
        profile = made.profile(12, 0)
        told += [profile.ms_per_sample.tolist(), profile.kbps.tolist()]
        told += [profile.availability.online(np.arange(12), at).tolist() for at in range(0, 100, 5)]
    return str(told)


def _edges(root: Path) -> None:
    (root / "edges.csv").write_text("round,source,target\n" + "".join(f"0,{i},{(i + 1) % 8}\n" for i in range(8)))
    (root / "links.csv").write_text("source,target\n" + "".join(f"{i},{(i + 3) % 8}\n" for i in range(8)))


def _read_edges(root: Path) -> str:
    from flcluster.topology.families import EdgeList

    return str([EdgeList(path=str(root / name)).edges(8, 0, 0).tolist() for name in ("edges.csv", "links.csv")])


def _vectors(root: Path) -> None:
    rng = np.random.default_rng(5)
    np.savez(root / "ours.npz", names=np.array(["a", "b", "c"]), vectors=rng.normal(size=(3, 6)))
    np.savez(root / "each.npz", **{name: rng.normal(size=6) for name in "abc"})


def _read_vectors(root: Path) -> str:
    from flcluster.algorithms.personal.semantics import NamesFile

    held = [NamesFile(path=str(root / name)).vectors(["a", "b", "c"]) for name in ("ours.npz", "each.npz")]
    return str([vectors.tolist() for vectors in held])


def _picture(path: Path, size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (10, 20, 30)).save(path)


def _rows(path: Path, rows: list[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def _converted(kind: str, root: Path) -> str:
    from flcluster.datamodules.traces.convert import convert
    from flcluster.datamodules.traces.manifest import read_manifest

    held = read_manifest(convert(kind, root, root / "trace.csv"))
    return str(
        [held.images, held.boxes, held.labels.tolist(), held.clients.tolist(), held.times.tolist(), held.classes]
    )


def _wilds(root: Path) -> None:
    rows = [["split", "category", "timestamp", "lat", "lon"]]
    for i in range(8):
        rows.append(["train", ("zoo", "dam")[i % 2], f"2016-05-{i + 10}T16:36:54Z", 48.85, 2.35 + i])
        _picture(root / "images" / f"rgb_img_{i}.png")
    _rows(root / "rgb_metadata.csv", rows)


def _fmow(root: Path) -> None:
    for i in range(4):
        path = root / "train" / "zoo" / f"zoo_{i}" / f"zoo_{i}_rgb.json"
        _picture(path.with_suffix(".jpg"))
        boxes = [{"category": "zoo"}]
        path.write_text(json.dumps({"utm": "18T", "timestamp": f"2016-01-0{i + 2}T10:00:00Z", "bounding_boxes": boxes}))


def _cityscapes(root: Path) -> None:
    for i in range(3):
        stem = f"bern_{i:06d}_000019"
        _picture(root / "leftImg8bit" / "train" / "bern" / f"{stem}_leftImg8bit.png", (300, 200))
        path = root / "gtFine" / "train" / "bern" / f"{stem}_gtFine_polygons.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        corners = [[10, 20], [81, 20], [81, 91], [30, 90]]
        path.write_text(json.dumps({"objects": [{"label": "car", "polygon": corners}]}))


def _ekya(root: Path) -> None:
    rows = []
    for i in range(5):
        name = f"train/bern/bern_{i:06d}_000019_leftImg8bit.png"
        _picture(root / "leftImg8bit" / name, (300, 200))
        rows.append([i, name, i % 3, 10, 20, 90, 120])
    _rows(root / "sample_lists" / "citywise" / "bern_fine.csv", rows)


def _waymo(root: Path) -> None:
    rows = [["image name", "class", "segment", "frame index", "camera name"]]
    for i in range(6):
        _picture(root / "s1" / "FRONT" / f"{i:04d}.jpg")
        rows.append([f"{i:04d}.jpg", i % 4, "s1", i, "FRONT"])
    _rows(root / "sample_lists" / "citywise" / "phx_labels.csv", rows)


def _open_images(root: Path) -> None:
    rows = [["client_id", "sample_path", "label_name", "label_id"]]
    for i in range(24):
        _picture(root / "train" / f"{i:04x}.jpg", (2, 2))
        rows.append(["ab"[i // 12], f"{i:04x}.jpg", f"Name {i % 12}", i % 12])
    _rows(root / "client_data_mapping" / "train.csv", rows)


WILDS = {"rgb_metadata.csv": {"category": "client", "timestamp": "time", "lat": "number", "lon": "number"}}
EKYA = {"_fine.csv": {"0": "count", "1": "image", "2": "label", "3": "number", "4": "number", "5": "number"}}
WAYMO = {"_labels.csv": {"class": "label", "segment": "client", "frame index": "count", "image name": "image"}}
FEDSCALE = {"train.csv": {"client_id": "client", "sample_path": "image", "label_id": "label"}}


OTHERS = [
    Recipe("cache of FEMNIST", _left(_femnist, _read_femnist, "femnist-28.pt"), _read_femnist),
    Recipe("cache of MiniImagenet", _left(_miniimagenet, _mini, "mini-imagenet-84.pt"), _mini),
    Recipe("cache of CCPD", _left(lambda root: layouts.write_ccpd(root, 3), _ccpd, "ccpd-digits-32.pt"), _ccpd),
    Recipe("cache of a trace", _decoded, _read_trace, MANIFEST),
    Recipe("numbered trace", lambda root: _trace(root, numbered=True), _read_trace, MANIFEST),
    Recipe("devices", _devices, _read_devices, {".csv": {"ms_per_sample": "speed", "mbps": "speed"}}),
    Recipe("links", _edges, _read_edges, {".csv": {"round": "count", "source": "link", "target": "link"}}),
    Recipe("vectors", _vectors, _read_vectors),
    Recipe("convert fmow (WILDS)", _wilds, partial(_converted, "fmow"), WILDS),
    Recipe("convert fmow", _fmow, partial(_converted, "fmow")),
    Recipe("convert cityscapes", _cityscapes, partial(_converted, "cityscapes")),
    Recipe("convert cityscapes (Ekya)", _ekya, partial(_converted, "cityscapes"), EKYA),
    Recipe("convert waymo", _waymo, partial(_converted, "waymo"), WAYMO),
    Recipe("convert open_images", _open_images, partial(_converted, "open_images"), FEDSCALE),
]


def concrete() -> list[type]:
    """Return every datamodule that the package offers and that can be made."""
    found = [getattr(offered, name) for name in offered.__all__]
    return [
        kind
        for kind in found
        if inspect.isclass(kind) and issubclass(kind, FederatedDataModule) and not inspect.isabstract(kind)
    ]


def recipes() -> list[Recipe]:
    """Return a recipe for each reader of data."""
    made = [_of_images(kind) for kind in concrete() if issubclass(kind, ImageDataModule)]
    return [*DATAMODULES, *(recipe for recipe in made if recipe is not None), *OTHERS]


def without_recipe() -> list[str]:
    """Return the datamodules that no recipe is for; empty, or somebody has work to do."""
    known = {recipe.name for recipe in recipes()} | ({"HuggingFaceDataModule"} if not find_spec("datasets") else set())
    return [kind.__name__ for kind in concrete() if kind.__name__ not in known]
