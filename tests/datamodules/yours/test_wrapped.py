"""A LightningDataModule of one's own, split among clients."""

import random
import sys

import jsonargparse
import lightning
import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, WeightedRandomSampler

from flcluster.data import FederatedDataModule, labels_of
from flcluster.datamodules import IID, Dirichlet, NaturalIds, Pathological, SplitDataModule
from flcluster.errors import UserError

pytorch_lightning = pytest.importorskip("pytorch_lightning")


class Tokens:
    """Sentences of several lengths as dicts, with a class and a writer."""

    def __init__(self, n, first=0):
        self.writers = [f"w{i % 4}" for i in range(n)]
        self.rows = [
            {"ids": torch.arange(1 + i % 3), "label": i % 2, "number": first + i, "user": i % 5} for i in range(n)
        ]
        self.read = 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        self.read += 1
        return self.rows[i]


def padded(rows):
    ids = torch.nn.utils.rnn.pad_sequence([row["ids"] for row in rows], batch_first=True, padding_value=-1)
    return {"ids": ids, "label": torch.tensor([row["label"] for row in rows]), "number": [r["number"] for r in rows]}


class Text(lightning.LightningDataModule):
    """What a user of Lightning writes."""

    def __init__(self, size: int = 60, batch: int = 4):
        super().__init__()
        self.size, self.batch, self.prepared = size, batch, 0

    def prepare_data(self):
        self.prepared += 1

    def setup(self, stage):
        assert self.prepared
        if stage == "fit":
            self.train, self.val = torch.utils.data.random_split(Tokens(self.size), [0.8, 0.2])
            self.drawn = random.random(), float(np.random.rand())
        if stage == "test":
            self.test = Tokens(20, first=1000)

    def loader(self, dataset, **kwargs):
        return DataLoader(dataset, batch_size=self.batch, collate_fn=padded, **kwargs)

    def train_dataloader(self):
        return self.loader(self.train, shuffle=True)

    def val_dataloader(self):
        return self.loader(self.val)

    def test_dataloader(self):
        return self.loader(self.test)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        assert self.trainer is not None
        return {**batch, "after": True}


class Pairs(pytorch_lightning.LightningDataModule):
    """One of the other package, with neither a test set nor hooks."""

    def __init__(self, size: int = 50):
        super().__init__()
        self.data = TensorDataset(torch.arange(float(size))[:, None], torch.arange(size) % 5)

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=8, shuffle=True)


def numbers(loader):
    return [number for batch in loader for number in batch["number"]]


def test_samples_of_any_structure_are_divided_with_their_collate():
    data = SplitDataModule(Text(), Pathological(classes_per_client=1), num_clients=2)
    assert (data.num_clients, data.num_classes, data.input_shape, data.name) == (2, 2, (), "Text")
    assert data.batch_size == 4 and data.num_workers == 0
    held = [numbers(data.client_dataloader(client)) for client in range(2)]
    assert sorted(held[0] + held[1]) == sorted(data.datamodule.train.indices) and len({n % 2 for n in held[0]}) == 1
    assert {len(batch["label"]) for batch in list(data.client_dataloader(0))[:-1]} == {4}
    (batch,) = data.shard(0).train.loader(100)
    assert batch["ids"].shape == (len(held[0]), 3) and (batch["ids"] == -1).any()
    assert labels_of(data.shard(1).train).tolist() == [held[1][0] % 2] * len(held[1])


def test_its_test_set_tests_and_its_validation_set_validates():
    data = SplitDataModule(Text(), IID(), num_clients=3)
    shards = [data.shard(client) for client in range(3)]
    tested = [n for shard in shards for n in numbers(shard.test.loader(4))]
    validated = [n for shard in shards for n in numbers(shard.val.loader(4))]
    assert sorted(tested) == list(range(1000, 1020)) == sorted(numbers(data.test_dataloader()))
    assert sorted(validated) == sorted(data.datamodule.val.indices) == sorted(numbers(data.val_dataloader()))
    asked = SplitDataModule(Text(), IID(), num_clients=3, val_share=0.5)
    chosen = [n for m in range(3) for n in numbers(asked.client_dataloader(m, split="val"))]
    assert len(chosen) == 24 and set(chosen) <= set(asked.datamodule.train.indices)


def test_a_validation_set_tests_where_there_is_no_other_and_then_a_share():
    class Without(Text):
        test_dataloader = lightning.LightningDataModule.test_dataloader

    data = SplitDataModule(Without(), IID(), num_clients=3)
    assert sorted(numbers(data.test_dataloader())) == sorted(data.datamodule.val.indices)
    assert data.val_dataloader() == []
    pairs = SplitDataModule(Pairs(), Dirichlet(alpha=1.0), num_clients=3, test_share=0.4)
    assert len(pairs.pool("test")) == pytest.approx(20, abs=2) and len(pairs.global_test()) > 0
    assert len(pairs.pool("test")) + len(pairs.pool("train")) == 50


def test_a_datamodule_of_the_other_package_and_its_from_datasets():
    data = SplitDataModule(Pairs(), IID(), num_clients=5, batch_size=3)
    assert (data.num_classes, data.input_shape, data.batch_size) == (5, (1,), 3)
    assert [len(y) for _, y in data.client_dataloader(0)] == [3, 3, 2]
    whole = Pairs().data
    for package in (lightning, pytorch_lightning):
        made = package.LightningDataModule.from_datasets(train_dataset=whole, test_dataset=whole)
        assert len(SplitDataModule(made, IID(), num_clients=5).pool("test")) == 50


def test_what_setup_draws_is_seeded_and_nothing_else_is_touched():
    state = random.getstate(), np.random.get_state()[1].tolist()
    made = [SplitDataModule(Text(), IID(), num_clients=2, seed=seed) for seed in (0, 0, 1)]
    parts = []
    for data in made:
        torch.manual_seed(len(parts))  # where the process stands must not matter
        before = torch.get_rng_state()
        data.setup()
        assert torch.equal(torch.get_rng_state(), before)
        parts.append((list(data.datamodule.train.indices), data.datamodule.drawn))
        assert data.datamodule.prepared == 1
    assert parts[0] == parts[1] != parts[2]
    assert random.getstate() == state[0] and np.random.get_state()[1].tolist() == state[1]


@pytest.mark.parametrize("attribute", ["writers", "user"])  # of the dataset, or in each sample
def test_clients_by_a_column_of_ids(attribute):
    data = SplitDataModule(Text(), NaturalIds(attribute=attribute))
    owners = 4 if attribute == "writers" else 5
    assert data.num_clients == owners
    for client, name in enumerate(data.client_names):
        shard = data.shard(client)
        for view in (shard.train, shard.val, shard.test):
            assert {n % owners for n in numbers(view.loader(9))} <= {int(str(name).strip("w"))}
    assert SplitDataModule(Text(), NaturalIds(attribute=attribute), num_clients=2).num_clients == 2


def test_clients_by_a_file_of_names(tmp_path):
    (tmp_path / "names.txt").write_text("\n".join("ab"[i % 2] for i in range(50)))
    data = SplitDataModule(Pairs(), NaturalIds(path=str(tmp_path / "names.txt")))
    assert data.client_names == ("a", "b") and set(labels_of(data.shard(0).train)) == {0, 1, 2, 3, 4}
    assert all(int(x) % 2 == 1 for x in data.shard(1).train.tensors()[0])
    with pytest.raises(UserError, match="owners of 50 samples"):
        SplitDataModule(Pairs(40), NaturalIds(path=str(tmp_path / "names.txt"))).setup()


def test_labels_are_found_without_reading_where_they_can_be():
    class Listed(Tokens):
        @property
        def targets(self):
            return [row["label"] for row in self.rows]

    whole = Listed(30)
    both = ConcatDataset([Subset(whole, [4, 5, 6]), whole])
    made = lightning.LightningDataModule.from_datasets(train_dataset=both)
    data = SplitDataModule(made, Dirichlet(alpha=5.0), num_clients=3, test_share=0.0)
    data.shard(0)
    assert whole.read == 1  # one sample, for its shape
    assert sorted(labels_of(data.pool()).tolist()) == [0] * 17 + [1] * 16
    named = SplitDataModule(Text(), Pathological(classes_per_client=1), labels="user", num_clients=5)
    assert named.num_classes == 5 and {n % 5 for n in numbers(named.client_dataloader(2))}.__len__() == 1


def test_a_trainer_calls_its_hooks(tmp_path):
    data, seen = SplitDataModule(Text(), IID(), num_clients=2), []

    class Model(lightning.LightningModule):
        def training_step(self, batch, _):
            seen.append(batch["after"])

        def configure_optimizers(self):
            return None

    lightning.Trainer(
        max_steps=2, max_epochs=1, limit_val_batches=0, accelerator="cpu", logger=False, enable_checkpointing=False
    ).fit(Model(), datamodule=data)
    assert seen and all(seen)


def loaders(**named):
    module = lightning.LightningDataModule()
    for name, loader in named.items():
        setattr(module, name, lambda loader=loader: loader)
    return module


TEN = TensorDataset(torch.arange(10.0), torch.arange(10) % 2)


@pytest.mark.parametrize(
    ("module", "change", "told"),
    [
        (loaders(train_dataloader=[DataLoader(TEN), DataLoader(TEN)]), {}, "gives a list: one DataLoader"),
        (loaders(train_dataloader=DataLoader(TEN, sampler=WeightedRandomSampler([1.0] * 10, 5))), {}, "Weighted"),
        (loaders(), {}, "has no train_dataloader"),
        (loaders(train_dataloader=DataLoader(TEN)), {"num_classes": 1}, "data.num_classes is 1"),
        (loaders(train_dataloader=DataLoader(TEN)), {"labels": "kind"}, "no attribute, column or key 'kind'"),
        (loaders(train_dataloader=DataLoader(TEN)), {"partition": NaturalIds(attribute="who")}, "key 'who'"),
        ({"class_path": "nowhere.Nothing"}, {}, "nowhere.Nothing cannot be made"),
    ],
)
def test_what_cannot_be_divided_is_told(module, change, told):
    with pytest.raises(UserError) as caught:
        SplitDataModule(module, **{"partition": Dirichlet(), "num_clients": 2, **change}).setup()
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Text", "Pairs"])
def test_a_configuration_names_it_within(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mine_here", sys.modules[__name__])  # this file, as if on the Python path
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(FederatedDataModule, "data")
    (tmp_path / "data.yaml").write_text(
        f"""
data:
  class_path: flcluster.datamodules.SplitDataModule
  init_args:
    datamodule: {{class_path: mine_here.{name}, init_args: {{size: 30}}}}
    partition: {{class_path: flcluster.datamodules.IID}}
    num_clients: 3
"""
    )
    parser.add_argument("--config", action="config")
    data = parser.instantiate_classes(parser.parse_args([f"--config={tmp_path / 'data.yaml'}"])).data
    assert type(data.datamodule).__name__ == name and data.num_clients == 3
    assert sum(data.sizes(0)) == 24
