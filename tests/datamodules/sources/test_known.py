"""A dataset is a record: what the command line sees of the ready-made ones, and one of a user's own."""

import re
from dataclasses import replace
from pathlib import Path

import jsonargparse
import pytest
import torch

from flcluster import datamodules
from flcluster.data import FederatedDataModule
from flcluster.datamodules import Images, Known, NaturalIds, Rotated, RotatedMiniImagenet, Skewed
from flcluster.errors import UserError

FILES = {"val_share": 0.0, "unseen": None, "batch_size": 128, "root": "data", "download": False, "seed": 0}
IMAGES = {"dataset_kwargs": None, "image_size": None}
NAMED = {"dataset", "num_classes", "input_shape", "mean", "std"}
ROTATED = IMAGES | {
    **{"normalise": True, "num_clusters": 4, "num_clients": None, "samples": (500, 2000), "main_share": (0.4, 0.9)},
    **{"rest_split": "dirichlet", "redraw": True, "proxy_size": 2000, "test_size": 1000, "train_limit": None},
    **FILES,
}
SKEWED = IMAGES | {
    **{"num_clients": 10, "partition": None, "dropouts": None, "monopoly_classes": None, "test_share": 0.1},
    **{"proxy_size": 0, "limit": None},
    **FILES,
}
STREAM = IMAGES | {
    **{"splits": "train", "num_clients": 100, "arrivals": None, "shift": None, "window": 100, "static": False},
    **{"test_share": 0.2, "shared": "none", "proxy_per_class": 0},
    **FILES,
}
CHANGED = {
    "RotatedDigits": {"samples": (40, 120), "proxy_size": 200, "test_size": 100},
    "RotatedEMNIST": {"split": "balanced"},
    "RotatedMiniImagenet": {"num_classes": 100},
    "SkewedMNIST": {"image_size": 32},
    "SkewedFashionMNIST": {"image_size": 32},
    "SkewedEMNIST": {"image_size": 32, "split": "letters"},
    "StreamDigits": {"num_clients": 20, "window": 20},
}


def ready():
    """Every class of a known dataset, with what it is a kind of."""
    small = ("Digits", "MNIST", "FashionMNIST", "CIFAR10", "CIFAR100")
    for kind, common, more in (
        ("Rotated", ROTATED, ("EMNIST", "MiniImagenet")),
        ("Skewed", SKEWED, ("EMNIST",)),
        ("Stream", STREAM, ()),
    ):
        yield from ((f"{kind}{name}", common) for name in (*small, *more))


def parsed(name):
    """Return the keys that the command line takes and their defaults, those without one apart."""
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(getattr(datamodules, name), "data")
    needed = {action.dest.removeprefix("data.") for action in parser._actions if getattr(action, "required", False)}
    found = parser.get_defaults(skip_validation=True).data.as_dict()
    return {key: value for key, value in found.items() if key not in needed}, needed, parser.format_help()


@pytest.mark.parametrize(("name", "common"), list(ready()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_ready_made_dataset_takes_the_arguments_of_its_kind(name, common):
    expected = common | CHANGED.get(name, {})
    if {"split", "num_classes"} & set(expected):  # what it gives the dataset itself
        del expected["dataset_kwargs"]
    found, needed, text = parsed(name)
    assert (found, needed) == (expected, set())
    assert "Further arguments of the dataset class" in text or "dataset_kwargs" not in expected
    assert "Seed of every draw." in text and getattr(datamodules, name).__doc__.split(":")[0] in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "common"), [("RotatedDataModule", ROTATED), ("LabelSkewDataModule", SKEWED), ("StreamImages", STREAM)]
)
def test_a_dataset_by_its_class_path_needs_the_record_too(name, common):
    found, needed, text = parsed(name)
    assert (found, needed) == (common, NAMED)
    assert "A torchvision-style dataset class: its class path" in " ".join(text.split())


@pytest.mark.filterwarnings("ignore")  # jsonargparse renames instantiate_classes
def test_a_kind_without_a_dataset_is_refused():
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(FederatedDataModule, "data")
    for kind in ("Rotated", "Skewed", "Streamed"):
        with pytest.raises(jsonargparse.ArgumentError, match="abstract"):
            parser.parse_args([f"--data=flcluster.datamodules.{kind}"])


# a dataset of one's own ----------------------------------------------------------------------------------------------


def shapes(n, seed):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 1, 12, 12), dtype=torch.uint8, generator=made), torch.arange(n) % 3


@pytest.mark.filterwarnings("ignore")  # jsonargparse renames instantiate_classes
def test_the_example_of_the_documents_runs(tmp_path, monkeypatch):
    texts = [path.read_text(encoding="utf-8") for path in (Path(__file__).parents[3] / "docs").rglob("*.md")]
    (example,) = [e for text in texts for e in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "SHAPES" in e]
    (tmp_path / "shapes.py").write_text(example)
    monkeypatch.syspath_prepend(str(tmp_path))
    (train_x, train_y), (test_x, test_y) = shapes(90, 0), shapes(60, 1)
    torch.save({"train_x": train_x, "train_y": train_y, "test_x": test_x, "test_y": test_y}, tmp_path / "shapes.pt")
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(FederatedDataModule, "data")
    small = {
        "RotatedShapes": ["--data.num_clusters=2", "--data.samples=[5,9]", "--data.test_size=6", "--data.proxy_size=9"],
        "SkewedShapes": ["--data.num_clients=3", "--data.test_share=null"],
        "StreamShapes": [
            "--data.arrivals=LabelBuckets",
            "--data.arrivals.labels_per_client=[2,3]",
            "--data.arrivals.samples=[4,6]",
        ],
    }
    for name, arguments in small.items():
        settings = parser.parse_args([f"--data=shapes.{name}", f"--data.root={tmp_path}", *arguments])
        data = parser.instantiate_classes(settings).data
        data.prepare_data()
        data.setup()
        assert data.name == "Shapes" and data.num_classes == 3 and data.class_names == ("circle", "square", "star")
        for source, index in data.shard(1).train.parts:
            x, y = source.take(index)
            stored = torch.cat([train_x, test_x])[index] / 255
            turned = torch.rot90(stored, 2, (2, 3)) if getattr(source, "angle", 0) else stored
            torch.testing.assert_close(x * 0.25 + 0.5, turned)
            assert y.tolist() == torch.cat([train_y, test_y])[index].tolist()


OWN = Known(name="Own", num_classes=3, shape=(1, 12, 12), mean=(0.5,), std=(0.25,))


def made(kind, known, **kwargs):
    return type("Made", (kind,), {"known": known})(**kwargs)


def test_arguments_and_the_wish_to_download_reach_the_function(tmp_path):
    calls = []

    def load(root, download, sides=4):
        calls.append((root, download, sides))
        return Images(*shapes(30, sides)), Images(*shapes(30, 0))

    data = made(Skewed, replace(OWN, load=load), root=tmp_path, dataset_kwargs={"sides": 5}, num_clients=3)
    data.prepare_data()
    assert calls == []
    data.setup()
    assert calls == [(tmp_path, False, 5)] and data.class_names == ("class 0", "class 1", "class 2")
    made(Skewed, replace(OWN, load=load), root=tmp_path, download=True).prepare_data()
    made(Skewed, replace(OWN, load=load, caches=True), root=tmp_path).prepare_data()
    assert calls[1:] == [(tmp_path, True, 4), (tmp_path, False, 4)]
    with pytest.raises(UserError, match=r"data.dataset_kwargs: Own cannot be read with .*colour"):
        made(Skewed, replace(OWN, load=load), dataset_kwargs={"colour": 1}).setup()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (1, 12, 11)}, r"data.input_shape is \(1, 12, 11\), but the images of Own have the shape"),
        ({"num_classes": 2}, "num_classes is 2, but the label of sample 2 .* train split of Own .* is 2: .*; use 3"),
        ({"load": lambda root, download: (root / "own.bin").read_bytes()}, r"Own in .* cannot be read .*own\.bin"),
        ({"mean": (0.5, 0.5)}, "need 1 values"),
    ],
)
def test_what_a_record_gets_wrong_is_named(changes, message, tmp_path):
    known = replace(OWN, load=lambda root, download: (Images(*shapes(30, 0)), Images(*shapes(30, 1))))
    with pytest.raises(UserError, match=message):
        made(Skewed, replace(known, **changes), root=tmp_path, num_clients=2).setup()


def test_owners_by_an_attribute_need_a_class(tmp_path):
    known = replace(OWN, load=lambda root, download: (Images(*shapes(30, 0)), Images(*shapes(30, 1))))
    with pytest.raises(UserError, match=r"data.partition.attribute is users, .*data.partition.path"):
        made(Skewed, known, partition=NaturalIds(attribute="users"), root=tmp_path, num_clients=2).setup()


def test_decoded_datasets_are_decoded_before_other_processes_look(write_miniimagenet, tmp_path):
    write_miniimagenet()
    for download in (False, True):
        RotatedMiniImagenet(num_classes=3, root=tmp_path, download=download).prepare_data()
        (tmp_path / "mini-imagenet-84.pt").unlink()


def test_a_name_of_its_own_is_kept():
    named = type("Named", (Rotated,), {"known": OWN, "name": "Mine"})
    assert named().name == "Mine" and made(Rotated, OWN, normalise=False).name == "Own (pixels in [0, 1])"
