"""Label-skewed datasets: who trains and tests on what, on real files, from the command line, in Lightning."""

import csv
import json
import re
from pathlib import Path

import jsonargparse
import numpy as np
import pytest
import torch
import torchvision.datasets as tv
import yaml
from lightning import Trainer
from samples import stored_pixels

import flcluster.datamodules as datamodules
from flcluster.cli import main
from flcluster.data import FederatedDataModule, labels_of
from flcluster.datamodules import (
    IID,
    APFLTable1,
    Dirichlet,
    ImageSource,
    LabelSkewDataModule,
    NaturalIds,
    Pathological,
    PathologicalDropout,
    QuantitySkew,
    RotatedEMNIST,
    Shards,
    SkewedCIFAR10,
    SkewedCIFAR100,
    SkewedDigits,
    SkewedEMNIST,
    SkewedFashionMNIST,
    SkewedMNIST,
)
from flcluster.errors import UserError
from flcluster.modules import MLP

EVERYONE = np.arange(10)


def index(view):
    ((_, chosen),) = view.parts
    return chosen.tolist()


def histogram(view, classes=10):
    return np.bincount(labels_of(view), minlength=classes)


def counts(data, split="train"):
    return np.stack([histogram(getattr(data.shard(m), split)) for m in range(data.num_clients)])


@pytest.mark.parametrize(
    "cls", [SkewedDigits, SkewedMNIST, SkewedFashionMNIST, SkewedEMNIST, SkewedCIFAR10, SkewedCIFAR100]
)
def test_sizes_are_known_before_files_are_read(cls):
    data = cls(root="nowhere", num_clients=100, partition=Shards(), dropouts=[3])
    assert data.num_clients == 100 and data.num_clusters == 1 and data.dropouts == [3]
    assert data.num_classes == len(data.class_names)
    assert data.input_shape == {"Digits": (1, 8, 8), "CIFAR-10": (3, 32, 32), "CIFAR-100": (3, 32, 32)}.get(
        data.name, (1, 32, 32)
    )


@pytest.mark.parametrize(
    "partition", [IID(), Dirichlet(alpha=0.2), Dirichlet(balanced=True), QuantitySkew(), Shards(), Pathological()]
)
def test_every_image_has_one_purpose(partition):
    data = SkewedDigits(partition=partition, proxy_size=97)
    shards = [data.shard(client) for client in range(10)]
    train, test = ([i for s in shards for i in index(getattr(s, split))] for split in ("train", "test"))
    assert sorted(train + test + index(data.proxy(0))) == list(range(1797))
    assert sorted(train) == index(data.cluster_train(0)) and set(index(data.cluster_test(0))) <= set(test)
    assert len(data.proxy(0)) == 97


def test_a_tenth_of_every_class_tests():
    data = SkewedDigits()
    tests, everything = counts(data, "test").sum(axis=0), counts(data).sum(axis=0) + counts(data, "test").sum(axis=0)
    assert everything.sum() == 1797
    assert tests.tolist() == np.rint(everything / 10).tolist()


@pytest.mark.parametrize("partition", [Dirichlet(alpha=0.1), Dirichlet(alpha=0.05, balanced=True), Pathological()])
def test_clients_are_tested_on_the_mix_of_labels_that_they_train_on(partition):
    data = SkewedDigits(partition=partition, test_share=0.3)
    train, test = counts(data), counts(data, "test")
    exact = train / train.sum(axis=0) * test.sum(axis=0)
    assert (np.abs(test - exact) < 1).all()
    assert (np.abs(test.sum(axis=1) - exact.sum(axis=1)) < 2).all()
    assert ((test > 0) <= (train > 0)).all()
    apart = np.abs(train / train.sum(axis=1, keepdims=True) - test / test.sum(axis=1, keepdims=True)).sum(axis=1)
    assert apart[train.sum(axis=1) > 100].max() < 0.1  # half of what is counted twice would be 2


def test_the_global_test_set_is_balanced_and_the_same_for_every_partition():
    data = SkewedDigits(partition=Dirichlet(alpha=0.1))
    others = [SkewedDigits(partition=APFLTable1()), SkewedDigits(num_clients=30, dropouts=[1])]
    found = histogram(data.cluster_test(0))
    assert set(found) == {counts(data, "test").sum(axis=0).min()}
    assert all(index(other.cluster_test(0)) == index(data.cluster_test(0)) for other in others)
    assert index(SkewedDigits(seed=1).cluster_test(0)) != index(data.cluster_test(0))


def test_the_datasets_own_test_split_may_test():
    data = SkewedDigits(test_share=None)
    train, test = ([i for m in range(10) for i in index(getattr(data.shard(m), s))] for s in ("train", "test"))
    assert sorted(train) == list(range(1197)) and sorted(test) == list(range(1197, 1797))
    rarest = counts(data, "test").sum(axis=0).min()
    assert histogram(data.cluster_test(0)).tolist() == [rarest] * 10


def test_a_limit_keeps_a_random_part():
    data = SkewedDigits(limit=500, partition=IID())
    both = counts(data).sum() + counts(data, "test").sum()
    assert both == 500 and counts(data, "test").sum() == pytest.approx(50, abs=4)
    own = SkewedDigits(limit=500, partition=IID(), test_share=None)
    assert counts(own).sum() == 500 and counts(own, "test").sum() == 600


def test_nothing_ever_changes_and_the_seed_decides():
    data, again, other = SkewedDigits(), SkewedDigits(), SkewedDigits(seed=3)
    for client in range(10):
        assert index(data.shard(client, 5).train) == index(again.shard(client).train)
        assert index(data.shard(client, 5).test) == index(again.shard(client).test)
    assert any(index(data.shard(m).train) != index(other.shard(m).train) for m in range(10))
    assert len(data.drifted(4)) == 0


def test_counting_builds_no_image(monkeypatch):
    data = SkewedDigits(partition=Dirichlet(alpha=0.2))
    expected = counts(data)
    monkeypatch.setattr(ImageSource, "take", lambda *_: pytest.fail("an image was built"))
    assert (data.label_counts(EVERYONE, 0) == expected).all()
    assert (data.label_counts(np.array([7, 2]), 3) == expected[[7, 2]]).all()
    assert (data.sizes(0) == expected.sum(axis=1)).all() and data.size(4) == expected[4].sum()


def test_samples_are_the_datasets_own():
    from sklearn.datasets import load_digits

    bunch = load_digits()
    known = {
        tuple(image.reshape(-1).astype(int).tolist()): label
        for image, label in zip(bunch.images, bunch.target, strict=True)
    }
    data = SkewedDigits(partition=Pathological())
    for view in (data.shard(3).train, data.shard(3).test, data.cluster_test(0)):
        x, y = view.tensors()
        pixels = torch.round((x * data.std[0] + data.mean[0]) * 16).long().flatten(1)
        assert [known[tuple(row)] for row in pixels.tolist()] == y.tolist()


# Dropouts ------------------------------------------------------------------------------------------------------------


def test_the_papers_partition_brings_its_dropout():
    data = SkewedDigits(partition=APFLTable1())
    assert data.dropouts == [8] and data.missing_classes == [8, 9]
    held = counts(data) > 0
    assert np.flatnonzero(held[:, 8]).tolist() == np.flatnonzero(held[:, 9]).tolist() == [8]
    assert np.flatnonzero(counts(data, "test")[8]).tolist() == [8, 9]
    assert SkewedDigits(partition=APFLTable1(missing=10)).missing_classes == [9]
    assert SkewedDigits(partition=APFLTable1(), dropouts=[]).dropouts == []


def test_monopoly_classes_are_held_by_dropouts_alone():
    data = SkewedDigits(partition=Dirichlet(alpha=0.5), dropouts=[5, 2], monopoly_classes=[3, 7])
    assert data.dropouts == [2, 5] and data.missing_classes == [3, 7]
    for split in ("train", "test"):
        held = counts(data, split)
        assert held[[0, 1, 3, 4, 6, 7, 8, 9]][:, [3, 7]].sum() == 0
        mine = held[[2, 5]][:, [3, 7]]
        assert (mine > 0).all() and (np.abs(mine[0] - mine[1]) <= 1).all()  # in equal parts
    assert counts(data).sum() + counts(data, "test").sum() == 1797
    assert (counts(data)[[2, 5]] > 0).sum() > 4  # and what the partition gives them besides


@pytest.mark.parametrize(
    ("changes", "partition", "missing"),
    [
        ({"partition": Dirichlet(alpha=0.1)}, "Dirichlet(0.1)", ""),
        ({"partition": Dirichlet(balanced=True), "dropouts": [2, 5]}, "balanced Dirichlet(0.5), dropouts 2 5", ""),
        ({"partition": IID(), "dropouts": [4], "monopoly_classes": [7]}, "IID, dropouts 4, monopolies 7", "seven"),
        ({"partition": APFLTable1()}, "AP-FL Table 1 (20 % missing)", "eight, nine"),
        ({"partition": APFLTable1(missing=10)}, "AP-FL Table 1 (10 % missing)", "nine"),
        ({"partition": APFLTable1(), "dropouts": []}, "AP-FL Table 1 (20 % missing), dropouts none", ""),
        ({"partition": PathologicalDropout()}, "AP-FL dropout (κ = 5, 20 % missing)", "eight, nine"),
        ({"partition": PathologicalDropout(missing=10)}, "AP-FL dropout (κ = 5, 10 % missing)", "nine"),
        ({"partition": Pathological(classes_per_client=3)}, "Pathological(3)", ""),
        ({"partition": Pathological(table=((0, 1, 2, 3, 4),) * 5 + ((5, 6, 7, 8, 9),) * 5)}, "Pathological(table)", ""),
        ({"partition": Shards()}, "Shards(2)", ""),
        ({"partition": QuantitySkew(alpha=1)}, "QuantitySkew(1)", ""),
    ],
)
def test_a_runs_summary_is_told_who_holds_what(changes, partition, missing):
    assert SkewedDigits(**changes).described == {"partition": partition, "missing_classes": missing}


def test_dropouts_without_monopolies_change_nothing():
    data, same = SkewedDigits(dropouts=[1]), SkewedDigits()
    assert all(index(data.shard(m).train) == index(same.shard(m).train) for m in range(10))
    assert data.missing_classes == [] and data.dropouts == [1]


# What cannot be ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_clients": 0}, "data.num_clients must be at least 1, got 0"),
        ({"test_share": 0.0}, "data.test_share is 0.0"),
        ({"test_share": 1.0}, "data.test_share is 1.0"),
        ({"proxy_size": -1}, "data.proxy_size must be at least 0, got -1"),
        ({"limit": 0}, "data.limit must be at least 1, got 0"),
        ({"seed": -1}, "data.seed must be at least 0, got -1"),
        ({"dropouts": [10]}, r"data.dropouts is \[10\]: give different numbers from 0 to 9"),
        ({"dropouts": [1, 1]}, r"data.dropouts is \[1, 1\]"),
        ({"dropouts": list(range(10))}, "nobody is left to train"),
        ({"monopoly_classes": [1]}, "name some in data.dropouts"),
        ({"monopoly_classes": [10], "dropouts": [1]}, r"data.monopoly_classes is \[10\]"),
        ({"monopoly_classes": list(range(10)), "dropouts": [1]}, "nothing is left for the others"),
        ({"monopoly_classes": list(range(10)), "dropouts": [1], "partition": Pathological()}, "nothing is left"),
        ({"monopoly_classes": [77], "dropouts": [1], "partition": Pathological(classes_per_client=10)}, "is \\[77\\]"),
        ({"monopoly_classes": [1], "partition": APFLTable1()}, "says itself who holds which class"),
        ({"monopoly_classes": [1], "partition": PathologicalDropout()}, "says itself who holds which class"),
        ({"monopoly_classes": [1], "dropouts": [1], "partition": NaturalIds(path="x")}, "says itself"),
        ({"partition": Pathological(classes_per_client=1), "num_clients": 9}, "9 of 10 classes"),
        ({"partition": Pathological(table=((0, 1),) * 9)}, "lists the classes of 9"),
        ({"partition": APFLTable1(), "num_clients": 5}, "data.num_clients is 5"),
    ],
)
def test_what_can_never_be_is_refused_before_files_are_read(changes, named):
    with pytest.raises(UserError, match=named):
        SkewedMNIST(root="nowhere", **changes)


def test_monopolies_leave_fewer_classes_to_deal():
    two = {"dropouts": [0], "monopoly_classes": [8, 9]}
    held = counts(SkewedDigits(partition=Pathological(classes_per_client=2), num_clients=4, **two)) > 0
    assert held[1:].sum(axis=1).tolist() == [2, 2, 2] and held[0].sum() == 4
    with pytest.raises(UserError, match="6 of 8 classes"):
        SkewedDigits(partition=Pathological(classes_per_client=2), num_clients=3, **two)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_clients": 2000}, "there are 1618 training samples"),
        ({"proxy_size": 1618}, "data.proxy_size is 1618, .* at most 1617"),
        ({"limit": 1798}, "data.limit is 1798, .* at most 1797"),
        ({"partition": Dirichlet(min_samples=162)}, "at most 161 to each"),
        ({"partition": Shards(per_client=200)}, "at most 161 a client"),
    ],
)
def test_what_the_data_cannot_give_is_refused(changes, named):
    with pytest.raises(UserError, match=named):
        SkewedDigits(**changes).setup()


def test_missing_clients_are_no_clients():
    for client in (-1, 10):
        with pytest.raises(IndexError):
            SkewedDigits().shard(client)


# Real files ----------------------------------------------------------------------------------------------------------


def assert_holds(data, written):
    """Check every sample that is held against the arrays that were written (NCHW), training split first."""
    images, labels = (np.concatenate([written["train"][i], written["test"][i]]) for i in (0, 1))
    images = images[:, None] if images.ndim == 3 else images
    held = 0
    for client in range(data.num_clients):
        for view in (data.shard(client).train, data.shard(client).test):
            pixels, y = stored_pixels(view, data)
            np.testing.assert_array_equal(pixels, images[index(view)])
            np.testing.assert_array_equal(y, labels[index(view)])
            held += len(view)
    assert held == len(labels)


SMALL = {"num_clients": 3, "partition": Dirichlet(alpha=5.0)}


@pytest.mark.parametrize(("cls", "folder"), [(SkewedMNIST, "MNIST"), (SkewedFashionMNIST, "FashionMNIST")])
def test_idx_files(cls, folder, write_mnist, tmp_path):
    written = write_mnist(folder)
    data = cls(root=tmp_path, image_size=None, **SMALL)
    data.prepare_data()
    assert data.name == folder and data.input_shape == (1, 28, 28)
    assert_holds(data, written)
    assert cls(root=tmp_path, **SMALL).shard(0).train.tensors()[0].shape[1:] == (1, 32, 32)


@pytest.mark.parametrize(("cls", "stored"), [(SkewedCIFAR10, tv.CIFAR10), (SkewedCIFAR100, tv.CIFAR100)])
def test_cifar(cls, stored, write_cifar, tmp_path):
    written = write_cifar(stored)
    data = cls(root=tmp_path, partition=IID(), num_clients=3, test_share=None)
    assert_holds(data, written) if cls is SkewedCIFAR10 else data.setup()
    assert data.shard(0).train.tensors()[0].shape[1:] == (3, 32, 32)


def test_emnist_stands_upright_and_counts_from_0(write_emnist, tmp_path):
    written = write_emnist("letters", 26, 1)
    upright = {split: (images.transpose(0, 2, 1), labels - 1) for split, (images, labels) in written.items()}
    data = SkewedEMNIST(root=tmp_path, image_size=None, **SMALL)
    assert data.num_classes == 26 and data.class_names[:2] == ("a", "b")
    assert_holds(data, upright)
    rotated = RotatedEMNIST(split="letters", root=tmp_path)
    assert (rotated.mean, rotated.std, rotated.num_classes) == (data.mean, data.std, 26)
    with pytest.raises(UserError, match=r"data\.split is 'small'"):
        SkewedEMNIST(split="small")
    assert (data.name, SkewedEMNIST(split="byclass").name) == (
        "EMNIST",
        "EMNIST byclass",
    )  # never repeats of each other


OWNED = """
import torch
class Notes:
    def __init__(self, root, train=True):
        n = 60 if train else 20
        self.data = torch.arange(n, dtype=torch.uint8)[:, None, None].expand(n, 2, 2)
        self.targets = torch.arange(n) % 4
        self.writers = [f"writer {i // 4 % 5}" for i in range(n)]
"""
NOTES = {"dataset": "notes.Notes", "num_classes": 4, "input_shape": (1, 2, 2), "mean": (0.0,), "std": (1.0,)}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """A dataset of one's own that knows who wrote what."""
    (tmp_path / "notes.py").write_text(OWNED)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [f"writer {i // 4 % 5}" for n in (60, 20) for i in range(n)]
    (tmp_path / "writers.txt").write_text("\n".join(names) + "\n")
    np.save(tmp_path / "writers.npy", np.array([int(name[-1]) + 3 for name in names]))
    return names


@pytest.mark.parametrize("test_share", [None, 0.25])
@pytest.mark.parametrize("where", [{"attribute": "writers"}, {"path": "writers.txt"}, {"path": "writers.npy"}])
def test_natural_owners_train_and_test_on_what_is_theirs(where, test_share, notes, tmp_path):
    data = LabelSkewDataModule(
        **NOTES, partition=NaturalIds(**where), num_clients=3, test_share=test_share, root=tmp_path
    )
    assert data.name == "Notes" and data.class_names == ("class 0", "class 1", "class 2", "class 3")
    writers = []
    for client in range(3):
        train, test = index(data.shard(client).train), index(data.shard(client).test)
        (writer,) = {notes[i] for i in train + test}
        writers.append(writer)
        assert len(train) + len(test) == 16 and (test_share or len(test) == 4)
    assert len(set(writers)) == 3


def test_owners_that_do_not_fit_are_named(notes, tmp_path):
    def setup(**where):
        LabelSkewDataModule(**NOTES, partition=NaturalIds(**where), num_clients=3, root=tmp_path).setup()

    (tmp_path / "short.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match="names the owners of 2 images, but Notes has 60 training and 20 test"):
        setup(path="short.txt")
    np.save(tmp_path / "pairs.npy", np.zeros((80, 2)))
    with pytest.raises(UserError, match="names the owners of 80 x 2 images"):
        setup(path="pairs.npy")
    with pytest.raises(UserError, match=r"data\.partition\.path: .*nowhere\.txt cannot be read"):
        setup(path="nowhere.txt")
    with pytest.raises(UserError, match="Notes has no 'users'"):
        setup(attribute="users")


def test_the_examples_of_the_documentation_run(capsys):
    text = (Path(__file__).parents[3] / "docs" / "data" / "skew.md").read_text()
    scope: dict = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(example, scope)
    held = counts(SkewedDigits(partition=scope["Halves"]()))
    assert held[:5, 5:].sum() == held[5:, :5].sum() == 0 and (held[:5, :5] > 0).all()


# Lightning and the command line --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_a_plain_trainer_takes_it(tmp_path):
    data = SkewedDigits(partition=APFLTable1(), batch_size=32)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = Trainer(max_epochs=4, enable_model_summary=False, default_root_dir=tmp_path, **quiet)
    model = MLP(data.num_classes, data.input_shape, hidden=[64], optimizer="adam", lr=0.003)
    trainer.fit(model, datamodule=data)
    assert trainer.test(model, datamodule=data, verbose=False)[0]["test_acc"] > 0.8
    own = Trainer(max_epochs=4, enable_model_summary=False, default_root_dir=tmp_path, **quiet)
    own.fit(model, data.client_dataloader(8))
    assert own.test(model, data.client_dataloader(8, split="test"), verbose=False)[0]["test_acc"] > 0.8


CONFIG = """
data:
  class_path: SkewedDigits
  init_args: {num_clients: 10, partition: {class_path: Dirichlet, init_args: {alpha: 0.3, balanced: true}}}
model: {class_path: MLP, init_args: {hidden: [64], optimizer: sgd, lr: 0.1}}
algorithm: {class_path: FedAvg, init_args: {rounds: 6, local_epochs: 2, batch_size: 16}}
engine: {pictures: false, table: false, progress: false, threads: 1}
"""


@pytest.fixture
def config():
    Path("skew.yaml").write_text(CONFIG)
    return ["--config", "skew.yaml"]


def test_fedavg_learns_on_it(config):
    assert main(["fit", *config, "--algorithm", "FedAvg", "--run_dir", "run"]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["client_acc_after"] > 0.6 and summary["num_clients"] == 10
    with open("run/clients.csv") as file:
        assert len(list(csv.DictReader(file))) == 60


def test_the_data_command_draws_it(config, capsys):
    flags = ["--data.partition", "APFLTable1", "--data.partition.missing", "10", "--output", "who.png"]
    assert main(["data", *config, *flags]) == 0
    assert Path("who.png").stat().st_size > 10_000 and "wrote who.png" in capsys.readouterr().out


def test_what_cannot_be_is_one_message_on_the_command_line(config, capsys):
    assert main(["fit", *config, "--data.partition.min_samples", "1000", "--run_dir", "run"]) == 2
    assert "data.partition.min_samples is 1000" in capsys.readouterr().err
    assert main(["fit", *config, "--data.partition", "Pathological", "--data.num_clients", "4"]) == 2
    assert "data.partition.classes_per_client is 2: 4 clients" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")  # jsonargparse renames instantiate_classes
def test_partitions_are_replaceable_parts():
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(FederatedDataModule, "data")
    arguments = ["--data=SkewedDigits", "--data.num_clients=3", "--data.partition=Pathological", "--data.dropouts=[2]"]
    arguments += ["--data.partition.table=[[0,1,2,3],[4,5,6],[7,8,9]]", "--data.test_share=null", "--data.seed=4"]
    parsed = parser.parse_args(arguments)
    for settings in (parsed, parser.parse_object(yaml.safe_load(parser.dump(parsed, skip_none=False)))):
        data = parser.instantiate_classes(settings).data
        assert isinstance(data, SkewedDigits) and data.seed == 4 and data.test_share is None and data.dropouts == [2]
        assert data.partition == Pathological(table=((0, 1, 2, 3), (4, 5, 6), (7, 8, 9)))
        assert data.missing_classes == [7, 8, 9]
    with pytest.raises(jsonargparse.ArgumentError):
        parser.parse_args(["--data=SkewedMNIST", "--data.num_classes=3"])  # fixed by the dataset
    with pytest.raises(jsonargparse.ArgumentError):
        parser.parse_args(["--data=SkewedMNIST", "--data.partition=APFLTable1", "--data.partition.missing=30"])


@pytest.mark.parametrize("name", [name for name in datamodules.__all__ if name.startswith(("Skewed", "LabelSkew"))])
def test_every_argument_is_explained_in_help(name):
    parser = jsonargparse.ArgumentParser()
    parser.add_class_arguments(getattr(datamodules, name), "data")
    text = " ".join(parser.format_help().split())
    explained = ("Who holds which labels", "Clients that never take part", "Share of each class", "Folder that holds")
    assert all(part in text for part in explained), text
