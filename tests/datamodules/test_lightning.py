"""What other Lightning projects and the command line see."""

import jsonargparse
import pytest
import torch
from lightning import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

import flcluster.datamodules as datamodules
from flcluster.data import FederatedDataModule
from flcluster.datamodules import IID, RotatedDigits, from_arrays


@pytest.fixture(scope="module")
def digits():
    return RotatedDigits(num_clusters=3, batch_size=32)


def sorted_rows(x, y):
    table = torch.cat([x.flatten(1), y[:, None].float()], 1)
    return sorted(map(tuple, table.tolist()))


def test_loaders_hold_exactly_what_the_views_hold(digits):
    shard = digits.shard(4, 1)
    for split, view in (("train", shard.train), ("test", shard.test)):
        batches = list(digits.client_dataloader(4, 1, split))
        x, y = torch.cat([b[0] for b in batches]), torch.cat([b[1] for b in batches])
        assert all(len(b[0]) == 32 for b in batches[:-1])
        assert sorted_rows(x, y) == sorted_rows(*view.tensors())
    x, y = (torch.cat(column) for column in zip(*digits.client_dataloader(4, 1, "test"), strict=True))
    assert torch.equal(x, shard.test.tensors()[0]) and torch.equal(y, shard.test.tensors()[1])  # in order


def test_items_and_batches_of_a_view_dataset_agree(digits):
    view = digits.shard(0).train
    dataset, (x, y) = view.dataset(), view.tensors()
    assert len(dataset) == len(x)
    for i in (0, len(x) - 1, len(x) // 2):
        assert torch.equal(dataset[i][0], x[i]) and dataset[i][1] == y[i]
    shuffled = DataLoader(dataset, batch_size=7, shuffle=True, num_workers=0)
    batches = list(shuffled)
    got = torch.cat([b[0] for b in batches])
    assert not torch.equal(got, x)
    assert sorted_rows(got, torch.cat([b[1] for b in batches])) == sorted_rows(x, y)


def test_pools_are_all_clusters(digits):
    assert len(digits.pool("train")) == 3 * 1197 and len(digits.pool("test")) == 3 * 400
    assert sum(len(y) for _, y in digits.test_dataloader()) == 1200


class Linear(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("accuracy", (self.layer(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)


def trainer(epochs, tmp_path):
    return Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )


@pytest.mark.filterwarnings("ignore")
def test_a_plain_trainer_learns_from_one_client(digits, tmp_path):
    model = Linear()
    shard = digits.shard(3)
    trainer(30, tmp_path).fit(model, digits.client_dataloader(3))
    x, y = shard.train.tensors()
    assert (model.layer(x).argmax(1) == y).float().mean() > 0.95


@pytest.mark.filterwarnings("ignore")
def test_a_plain_trainer_takes_the_datamodule(tmp_path):
    fit, model, data = trainer(1, tmp_path), Linear(), RotatedDigits(num_clusters=1)
    fit.fit(model, datamodule=data)
    assert (
        "accuracy" not in fit.callback_metrics
    )  # without a validation split nothing is validated, least of all on tests
    assert fit.validate(model, data.test_dataloader())[0]["accuracy"] > 0.7


@pytest.mark.filterwarnings("ignore")
def test_a_plain_trainer_validates_on_what_was_set_apart(tmp_path):
    data = RotatedDigits(num_clusters=1)
    x, y = data.pool("train").tensors()
    own = from_arrays(x, y, clients=IID(), num_clients=5, val_share=0.2)
    fit = trainer(1, tmp_path)
    fit.fit(Linear(), datamodule=own)
    assert fit.callback_metrics["accuracy"] > 0.6 and fit.num_val_batches == [2]


@pytest.mark.filterwarnings("ignore")  # jsonargparse renames instantiate_classes
def test_the_command_line_knows_every_argument():
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(FederatedDataModule, "data")
    arguments = ["--data=RotatedDigits", "--data.num_clusters=2", "--data.samples=[30, 50]", "--data.seed=4"]
    data = parser.instantiate_classes(parser.parse_args(arguments)).data
    assert isinstance(data, RotatedDigits) and data.num_clients == 40 and data.seed == 4
    assert all(30 <= data.size(client) <= 50 for client in range(40))
    with pytest.raises(jsonargparse.ArgumentError):
        parser.parse_args(["--data=RotatedDigits", "--data.sample=3"])
    with pytest.raises(jsonargparse.ArgumentError):
        parser.parse_args(["--data=RotatedFashionMNIST", "--data.num_classes=3"])  # fixed by the dataset


WITH_SAMPLES = [
    name for name in datamodules.__all__ if name.startswith(("Rotated", "Digit")) and name != "RotatedFEMNIST"
]


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_every_argument_is_explained_in_help(name, capsys):
    parser = jsonargparse.ArgumentParser()
    parser.add_class_arguments(getattr(datamodules, name), "data")
    text = " ".join(parser.format_help().split())
    explained = ("Number of clients", "Fewest and most training samples", "Seed of every draw", "Folder that holds")
    assert all(part in text for part in explained), text
