"""A user's data in clusters by shifts: held against numpy, and against our own rotated datasets."""

import sys

import jsonargparse
import lightning
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from flcluster.data import FederatedDataModule, labels_of
from flcluster.datamodules import (
    IID,
    ArrayDataModule,
    CSVDataModule,
    ImageFolderDataModule,
    RotatedDigits,
    ShiftedDataModule,
    SplitDataModule,
    from_arrays,
)
from flcluster.errors import UserError

PIXELS = np.random.default_rng(0).integers(0, 255, (60, 1, 4, 4), dtype=np.uint8)
LABELS = np.arange(60) % 3


def negated(sample):
    return (-sample[0].float(), *sample[1:])


def relabelled(sample):
    return sample[0], (sample[1] + 1) % 3


class Dicts(lightning.LightningDataModule):
    """Images and classes in dicts, and a hook on batches."""

    def setup(self, stage):
        self.rows = [{"number": i, "image": torch.from_numpy(PIXELS[i]).float(), "kind": i % 3} for i in range(60)]

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=5, shuffle=True)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return {**batch, "after": True}


def arrays(**kwargs):
    return from_arrays(torch.from_numpy(PIXELS), LABELS, **kwargs)


def by_hand(views):
    """All samples of some views, as a set of (bytes of the image, label)."""
    return sorted(
        (x.numpy().astype(np.float32).tobytes(), int(y)) for v in views for x, y in zip(*v.tensors(), strict=True)
    )


def test_each_cluster_sees_its_shift_and_every_sample_trains_or_tests_once_a_cluster():
    data = ShiftedDataModule(arrays(), shifts=["none", "rot90", "swap0-1+rot180"], num_clients=6)
    data.setup()
    assert (data.num_clusters, data.num_classes, data.input_shape) == (3, 3, (1, 4, 4))
    assert data.described == {"shifts": "none, rot90, swap0-1+rot180"}
    swap = np.array([1, 0, 2])
    for k, (turns, labels) in enumerate([(0, LABELS), (1, LABELS), (2, swap[LABELS])]):
        shards = [data.shard(client) for client in (k, k + 3)]
        turned = np.rot90(PIXELS, turns, (2, 3)).astype(np.float32)
        truth = sorted((image.tobytes(), int(y)) for image, y in zip(turned, labels, strict=True))
        assert by_hand([s.train for s in shards] + [s.test for s in shards]) == truth
        assert all(s.mixture.tolist() == np.eye(3)[k].tolist() for s in shards)
        held = [labels_of(s.train) for s in shards]
        assert [list(y) for y in held] == [s.train.tensors()[1].tolist() for s in shards]
        assert sum(map(len, held)) == 48


def test_mixtures_and_proxies_are_those_of_our_own_clusters():
    digits = RotatedDigits(num_clusters=4, num_clients=8, seed=3)
    digits.setup()
    train, test = (digits._clusters[0].train.images, digits._clusters[0].test.images)
    mine = from_arrays(train.pixels, train.labels, test=(test.pixels, test.labels))
    data = ShiftedDataModule(
        mine,
        shifts=["rot0", "rot90", "rot180", "rot270"],
        num_clients=8,
        samples=digits.samples,
        proxy_size=digits.proxy_size,
        test_size=digits.test_size,
        seed=3,
    )
    scale = lambda x: x / train.maximum  # noqa: E731
    for ours, theirs in [(data.shard(5, 2), digits.shard(5, 2)), (data.shard(0), digits.shard(0))]:
        assert torch.equal(ours.mixture, theirs.mixture)
        for one, other in [(ours.train, theirs.train), (ours.test, theirs.test)]:
            (x, y), (wanted, labels) = one.tensors(), other.tensors()
            mean, std = torch.tensor(digits.mean), torch.tensor(digits.std)
            assert torch.equal(y, labels) and torch.allclose((scale(x.float()) - mean) / std, wanted, atol=1e-5)
    assert len(data.proxy(1)) == digits.proxy_size
    assert torch.equal(data.proxy(1).tensors()[1], digits.proxy(1).tensors()[1])


def test_a_lightning_datamodule_of_dicts_with_its_hooks():
    data = ShiftedDataModule(SplitDataModule(Dicts(), labels="kind"), shifts=["none", "rot90+swap1-2"], num_clients=2)
    (batch,) = data.shard(1).train.loader(100)
    numbers = batch["number"].numpy()
    assert np.array_equal(batch["image"].numpy(), np.rot90(PIXELS[numbers], 1, (2, 3)).astype(np.float32))
    assert np.array_equal(batch["kind"].numpy(), np.array([0, 2, 1])[numbers % 3])
    assert np.array_equal(labels_of(data.shard(1).train), batch["kind"].numpy()) and data.batch_size == 5
    assert data.on_after_batch_transfer({}, 0) == {"after": True}
    plain = ShiftedDataModule(Dicts(), shifts=["none", "rot90"], num_clients=2)  # without classes
    assert plain.num_classes == 0 and len(plain.shard(1).train) == 48


def test_a_function_of_a_sample_by_itself_or_by_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine_here", sys.modules[__name__])
    for shift in (negated, "mine_here.negated"):
        data = ShiftedDataModule(arrays(), shifts=["none", shift], num_clients=2)
        x, _ = data.shard(1).train.tensors()
        assert (x <= 0).all() and (x < 0).any()


def test_folders_are_turned_before_they_are_normalised_and_tables_learn_from_what_trains(tmp_path):
    from PIL import Image

    for i in range(12):
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (6, 6, 3), dtype=np.uint8)).save(
            tmp_path / "ab"[i % 2] / f"{i}.png"
        )
    data = ShiftedDataModule(ImageFolderDataModule(tmp_path, image_size=6), shifts=["none", "rot90"], num_clients=2)
    plain, turned = (data.shard(client).train for client in range(2))
    assert torch.equal(
        torch.sort(plain.tensors()[0].flatten()).values, torch.sort(turned.tensors()[0].flatten()).values
    )
    table = tmp_path / "table.csv"
    table.write_text("a,b,kind\n" + "\n".join(f"{i},{i * i},{'xy'[i % 2]}" for i in range(40)))
    data = ShiftedDataModule(CSVDataModule(table, label="kind"), shifts=["none", "swap0-1"], num_clients=2)
    x, _ = data.shard(0).train.tensors()
    assert torch.allclose(x.mean(0), torch.zeros(2), atol=1e-5) and torch.allclose(x.std(0, False), torch.ones(2))
    assert len(x) == 32 and data.class_names == ("x", "y")


def test_one_seed_draws_everything():
    def held(seed):
        data = ShiftedDataModule(arrays(), shifts=["none", "rot90"], num_clients=2, seed=seed)
        return by_hand([data.shard(0).test])

    assert held(1) == held(1) != held(2)


@pytest.mark.parametrize(
    ("module", "shifts", "told"),
    [
        (arrays(), [], "one shift for each cluster"),
        (arrays(), "rot90", "one shift for each cluster"),
        (arrays(), ["rot"], "data.shifts has 'rot'"),
        (arrays(), ["swap0-7"], "two different labels below 3"),
        (arrays(), ["nowhere.nothing"], "cannot be imported"),
        (arrays(), ["blur0.2+noise"], "one corruption"),
        (arrays(), [3], "cannot be called"),
        (arrays(), [relabelled], "must leave classes as they are"),
        (from_arrays(np.random.rand(9, 4), LABELS[:9]), ["rot90"], "of shape (4,)"),
        (from_arrays(np.random.rand(9, 1, 4, 5), LABELS[:9]), ["rot90"], "must be square"),
        (from_arrays(10 * np.random.rand(9, 1, 4, 4), LABELS[:9]), ["blur"], "pixels from 0 to 1"),
        (from_arrays(np.random.rand(9, 4)), ["swap0-1"], "two different labels below 0"),
        (Dicts(), ["swap0-1"], "two different labels below 0"),
        (SplitDataModule(Dicts(), IID()), ["none"], "has a partition of its own"),
        (arrays(clients=LABELS), ["none"], "leave its clients out"),
    ],
)
def test_what_cannot_be_shifted_is_refused_at_the_start_in_one_line(module, shifts, told):
    with pytest.raises(UserError) as caught:
        ShiftedDataModule(module, shifts=shifts, num_clients=2).setup()
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_a_configuration_names_it(tmp_path):
    (tmp_path / "table.csv").write_text("a,kind\n" + "\n".join(f"{i},{'xy'[i % 2]}" for i in range(40)))
    (tmp_path / "data.yaml").write_text(
        f"""
data:
  class_path: flcluster.datamodules.ShiftedDataModule
  init_args:
    datamodule:
      class_path: flcluster.datamodules.CSVDataModule
      init_args: {{path: {tmp_path / "table.csv"}, label: kind}}
    shifts: [none, swap0-1]
    num_clients: 4
"""
    )
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(FederatedDataModule, "data")
    parser.add_argument("--config", action="config")
    data = parser.instantiate_classes(parser.parse_args([f"--config={tmp_path / 'data.yaml'}"])).data
    assert data.num_clusters == 2 and sum(data.sizes(0)) == 64 and isinstance(data.datamodule, CSVDataModule)
    assert ArrayDataModule.__name__ not in str(data.made_with)
