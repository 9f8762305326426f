"""Hugging Face datasets from the disk, through what their package offers (a stand-in with the same methods)."""

import sys
from types import SimpleNamespace

import pytest
import torch

from flcluster.data import labels_of
from flcluster.datamodules import IID, Dirichlet, HuggingFaceDataModule
from flcluster.errors import UserError


class Rows:
    """The part of datasets.Dataset that is used."""

    def __init__(self, table, form=None, columns=None):
        self.table, self.form, self.shown = table, form, columns or list(table)
        self.features = {"label": SimpleNamespace(names=["neg", "pos"])}

    @property
    def column_names(self):
        return list(self.table)

    def with_format(self, form, columns=None):
        return Rows(self.table, form, columns)

    def __len__(self):
        return len(self.table["label"])

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.table[key]
        row = {name: self.table[name][key] for name in self.shown}
        return (
            {k: v if isinstance(v, str) else torch.tensor(v) for k, v in row.items()} if self.form == "torch" else row
        )

    def __getitems__(self, keys):
        return [self[key] for key in keys]


def rows(n, first=0):
    return Rows(
        {
            "ids": [[first + i, 7] for i in range(n)],
            "label": [i % 2 for i in range(n)],
            "user": [f"u{i % 3}" for i in range(n)],
        }
    )


@pytest.fixture
def stored(monkeypatch):
    held = {}

    def load(path):
        if path not in held:
            raise FileNotFoundError(path)
        return held[path]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_from_disk=load))
    return held


def firsts(view, pair=False):
    return sorted(i for batch in view.loader(5) for i in (batch[0] if pair else batch["ids"])[:, 0].tolist())


def test_splits_columns_and_classes(stored):
    stored["reviews"] = {"train": rows(30), "test": rows(10, 100), "validation": rows(6, 200)}
    data = HuggingFaceDataModule("reviews", partition=Dirichlet(alpha=5.0), num_clients=2, columns=["ids", "label"])
    assert (data.num_classes, data.class_names, data.name) == (2, ("neg", "pos"), "reviews")
    batch = next(iter(data.client_dataloader(0)))
    assert set(batch) == {"ids", "label"} and batch["ids"].shape[1:] == (2,)
    assert firsts(data.pool("train")) == list(range(30)) and firsts(data.pool("test")) == list(range(100, 110))
    assert sorted(i for m in range(2) for i in firsts(data.shard(m).val)) == list(range(200, 206))
    assert sorted(labels_of(data.pool("train")).tolist()) == [0] * 15 + [1] * 15


def test_clients_by_a_column_and_one_split(stored):
    stored["one"] = rows(30)
    data = HuggingFaceDataModule("one", clients="user")
    assert data.client_names == ("u0", "u1", "u2")
    assert {i % 3 for i in firsts(data.shard(1).train) + firsts(data.shard(1).test)} == {1}


def test_a_validation_split_tests_where_there_is_no_other(stored):
    stored["two"] = {"train": rows(12), "validation": rows(4, 50)}
    data = HuggingFaceDataModule("two", partition=IID(), num_clients=2)
    assert firsts(data.pool("test")) == [50, 51, 52, 53] and data.shard(0).val is None


def test_pairs_for_models_of_this_package_and_transforms(stored):
    stored["one"] = rows(20)
    data = HuggingFaceDataModule(
        "one", partition=IID(), num_clients=2, pair=("ids", "label"), train_transform=torch.neg
    )
    x, y = data.shard(0).train.tensors()
    assert data.input_shape == (2,) and torch.equal(x[:, 0] % 2, y)
    assert (next(iter(data.client_dataloader(0)))[0] <= 0).all() and (x >= 0).all()


def test_what_is_missing_is_told(stored, monkeypatch):
    with pytest.raises(UserError, match="no dataset that save_to_disk wrote"):
        HuggingFaceDataModule("gone", partition=IID()).setup()
    stored["odd"] = {"dev": rows(3)}
    with pytest.raises(UserError, match="none that is called train"):
        HuggingFaceDataModule("odd", partition=IID()).setup()
    stored["one"] = rows(9)
    with pytest.raises(UserError, match="key 'writer'"):
        HuggingFaceDataModule("one", clients="writer").setup()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'flcluster\[hf\]'"):
        HuggingFaceDataModule("one", partition=IID()).setup()
