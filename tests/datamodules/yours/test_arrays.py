"""Arrays as a federation: who holds what, what tests and validates, classes, clusters and clients of any name."""

import numpy as np
import pytest
import torch

from flcluster.data import Shard, labels_of
from flcluster.datamodules import IID, ArrayDataModule, Dirichlet, Pathological, QuantitySkew, from_arrays
from flcluster.errors import UserError


def numbers(n=120, classes=3):
    """Each input is its own number, so that it is known wherever it turns up."""
    return torch.arange(n, dtype=torch.float32)[:, None].repeat(1, 2), torch.arange(n) % classes


def which(view):
    return set(view.tensors()[0][:, 0].long().tolist()) if view is not None else set()


def everything(data):
    """Every sample that some client or the server holds, with repeats."""
    shards = [data.shard(client) for client in range(data.num_clients)]
    held = [which(view) for shard in shards for view in (shard.train, shard.val, shard.test)]
    return sorted(i for part in [*held, *(which(data.proxy(k)) for k in range(data.num_clusters))] for i in part)


def test_clients_are_those_that_are_named():
    x, y = numbers()
    names = ["ann" if i % 3 else ("bob", 7) if i % 2 else 5 for i in range(120)]
    data = from_arrays(x, y, clients=names)
    assert isinstance(data, ArrayDataModule) and data.num_clients == 3
    for client, name in enumerate(data.client_names):
        shard = data.shard(client)
        assert which(shard.train) | which(shard.test) == {i for i in range(120) if names[i] == name}
    assert everything(data) == list(range(120))
    assert (data.num_classes, data.input_shape, data.num_clusters) == (3, (2,), 1)


def test_numbered_clients_keep_their_order_and_some_can_be_chosen():
    x, y = numbers()
    owner = np.arange(120) % 6 * 10
    assert from_arrays(x, y, clients=owner).client_names == (0, 10, 20, 30, 40, 50)
    few = from_arrays(x, y, clients=torch.as_tensor(owner), num_clients=4, seed=1)
    assert few.num_clients == 4 and len(set(few.client_names)) == 4
    other = from_arrays(x, y, clients=owner, num_clients=4, seed=2)
    assert few.client_names != other.client_names


def test_a_share_of_each_client_tests_and_another_validates():
    x, y = numbers()
    data = from_arrays(x, y, clients=np.arange(120) % 4, test=0.2, val_share=0.1)
    for client in range(4):
        shard = data.shard(client)
        assert (len(shard.train), len(shard.val), len(shard.test)) == (21, 3, 6) and data.size(client) == 21
    assert everything(data) == list(range(120))
    again, other = (from_arrays(x, y, clients=np.arange(120) % 4, val_share=0.1, seed=s) for s in (0, 1))
    assert which(again.shard(2).val) == which(data.shard(2).val) != which(other.shard(2).val)
    assert which(data.pool("test")) == set().union(*(which(data.shard(m).test) for m in range(4)))


def test_validation_is_never_the_test_set():
    x, y = numbers()
    data = from_arrays(x, y, clients=IID(), num_clients=3, val_share=0.25)
    seen = torch.cat([batch[0] for batch in data.val_dataloader()])[:, 0].long().tolist()
    assert sorted(seen) == sorted(set().union(*(which(data.shard(m).val) for m in range(3))))
    assert not set(seen) & (which(data.pool("test")) | which(data.pool("train")))
    assert len(list(data.client_dataloader(1, split="val"))) == 1
    none = from_arrays(x, y, clients=IID(), num_clients=3)
    assert none.val_dataloader() == [] and none.shard(0).val is None
    with pytest.raises(UserError, match="no 'val' samples"):
        none.client_dataloader(1, split="val")


def test_tiny_clients_train_first_and_then_test():
    x, y = numbers(6)
    data = from_arrays(x, y, clients=[0, 1, 1, 2, 2, 2], test=0.1, val_share=0.1)
    sizes = [[len(view) for view in (shard.train, shard.test, shard.val)] for shard in map(data.shard, range(3))]
    assert sizes == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_a_partition_divides_by_classes_and_tells_a_global_test():
    x, y = numbers(300)
    data = from_arrays(x, y, clients=Pathological(classes_per_client=1), num_clients=3)
    assert sorted(set(labels_of(data.shard(m).train).tolist()).pop() for m in range(3)) == [0, 1, 2]
    counts = np.bincount(labels_of(data.global_test()))
    assert counts.tolist() == [20, 20, 20] and data.described == {"partition": data.partition.title}
    assert from_arrays(x, y, clients=IID()).global_test() is None
    assert from_arrays(x, y, clients=IID()).num_clients == 10


def test_a_test_set_is_divided_like_the_training_samples():
    x, y = numbers(300)
    rows = torch.arange(1000.0, 1090)[:, None].repeat(1, 2)
    data = from_arrays(x, y, clients=Dirichlet(alpha=0.2), num_clients=4, test=(rows, torch.arange(90) % 3))
    held = [data.shard(m) for m in range(4)]
    assert sorted(i for shard in held for i in which(shard.train)) == list(range(300))
    assert sorted(i for shard in held for i in which(shard.test)) == list(range(1000, 1090))
    for shard in held:
        trained, tested = (np.bincount(labels_of(view), minlength=3) for view in (shard.train, shard.test))
        assert np.abs(trained * 0.3 - tested).max() <= 1
    owned = from_arrays(x, y, clients=["a", "b", "c"] * 100, test=(rows, y[:90], ["c", "a"] * 45))
    assert which(owned.shard(0).test) == set(range(1001, 1090, 2)) and which(owned.shard(1).test) == set()


def test_true_clusters_by_sample_or_by_client():
    x, y = numbers()
    names = np.array(["a", "b", "c"])[np.arange(120) % 3]
    data = from_arrays(x, y, clients=names, clusters={"a": "left", "b": "right", "c": "left"}, proxy_size=4)
    assert data.num_clusters == 2
    assert [data.shard(m).mixture.tolist() for m in range(3)] == [[1, 0], [0, 1], [1, 0]]
    assert {i % 3 for i in which(data.cluster_train(0))} == {i % 3 for i in which(data.cluster_test(0))} == {0, 2}
    assert [len(data.proxy(k)) for k in range(2)] == [4, 4] and everything(data) == list(range(120))
    assert which(data.proxy(1)) <= {i for i in range(120) if i % 3 == 1}
    mixed = from_arrays(x, y, clients=names, clusters=np.arange(120) >= 60, test=0.0)
    assert mixed.shard(1).mixture.tolist() == [0.5, 0.5] and which(mixed.cluster_train(1)) == set(range(60, 120))
    assert isinstance(mixed.shard(0), Shard) and len(mixed.shard(0).test) == 0


def test_the_test_set_of_a_cluster_is_that_of_its_clients():
    x, y = numbers(60)
    data = from_arrays(x, y, clients=[0, 1] * 30, clusters={0: "p", 1: "q"}, test=(x + 100, y, [0] * 10 + [1] * 50))
    assert which(data.cluster_test(0)) == set(range(100, 110)) and which(data.cluster_test(1)) == set(range(110, 160))


def test_targets_are_classes_by_any_name_or_values():
    x, _ = numbers(6)
    words = from_arrays(x, ["dog", "cat", "dog", "eel", "cat", "eel"], clients=[0] * 6, test=0.0)
    assert words.class_names == ("cat", "dog", "eel") and labels_of(words.pool()).tolist() == [1, 0, 1, 2, 0, 2]
    signs = from_arrays(x, np.array([-1, 1, -1, 1, 1, 1]), clients=[0] * 6, test=0.0)
    assert signs.num_classes == 2 and labels_of(signs.pool()).tolist() == [0, 1, 0, 1, 1, 1]
    values = from_arrays(x.double().numpy(), np.linspace(0, 1, 6), clients=[0, 1] * 3)
    assert values.num_classes == 0 and [part.dtype for part in values.pool().tensors()] == [torch.float32] * 2
    with pytest.raises(UserError, match="class label"):
        values.label_counts(np.arange(2), 0)
    many = from_arrays(x, torch.eye(6), clients=[0, 1] * 3)
    assert next(iter(many.train_dataloader()))[1].shape[1:] == (6,)


def test_without_targets_a_batch_is_a_tensor():
    x, _ = numbers(40)
    for partition in (IID(), QuantitySkew(alpha=5)):
        data = from_arrays(x, clients=partition, num_clients=4)
        batch = next(iter(data.client_dataloader(2)))
        assert isinstance(batch, torch.Tensor) and batch.shape[1:] == (2,)
    own = from_arrays(x, clients=IID(), num_clients=4, test=(x[:8], None))
    assert [len(own.shard(m).test) for m in range(4)] == [2, 2, 2, 2]
    with pytest.raises(UserError, match=r"data\.partition \(Dirichlet\) divides by class labels"):
        from_arrays(x, clients=Dirichlet()).setup()
    with pytest.raises(UserError, match="needs batches of"):
        own.shard(0).train.tensors()


def test_a_transform_sees_inputs_of_training_only():
    x, y = numbers(40)
    data = from_arrays(x, y, clients=[0, 1] * 20, train_transform=lambda row: -row - 1)
    assert all((batch[0] < 0).all() for batch in data.client_dataloader(0))
    assert (data.shard(0).train.tensors(training=True)[0] < 0).all()
    assert (data.shard(0).train.tensors()[0] >= 0).all() and (data.shard(0).test.tensors()[0] >= 0).all()


def test_a_mapped_array_is_never_read_whole(tmp_path):
    class Counting(np.memmap):
        most = 0

        def __getitem__(self, index):
            if isinstance(index, np.ndarray):
                Counting.most = max(Counting.most, index.size)
            return super().__getitem__(index)

    np.save(tmp_path / "x.npy", np.ones((3000, 4), np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r").view(Counting)
    data = from_arrays(mapped, np.arange(3000) % 5, clients=Dirichlet(alpha=1), num_clients=2, batch_size=16)
    assert sum(len(y) for m in range(2) for _, y in data.client_dataloader(m)) == data.sizes(0).sum() > 2000
    assert 1 <= Counting.most <= 16


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"y": [0, 1]}, "data.y has 2 values for 12 samples"),
        ({"clients": [0] * 5}, "data.clients has 5 values"),
        ({"clusters": [0]}, "data.clusters has 1 values"),
        ({"clusters": {0: 1}}, "1 has none"),
        ({"partition": IID()}, "leave data.partition out"),
        ({"clients": None}, "data.partition is missing"),
        ({"test": (np.ones((2, 2)), [0, 1])}, "data.test must be"),
        ({"test": 1.0}, "data.test_share is 1.0"),
        ({"test": 0.6, "val_share": 0.4}, "leave nothing"),
        ({"test": (np.ones((2, 3)), [0, 1], [0, 1])}, "data.test has the shape (2, 3)"),
        ({"test": (np.ones((2, 2)), [0, 7], [0, 1])}, "data.test: sample 1 (counted from 0) is of the class 7"),
        ({"x": np.full((12, 2), np.nan)}, "data.x: row 0 (counted from 0) has a value that is not finite"),
        ({"x": np.full((12, 2), None)}, "data.x holds object: numbers are needed"),
        ({"y": np.array([0.5] * 11 + [np.inf])}, "data.y: row 11 (counted from 0)"),
        ({"y": [0] * 11 + [-1]}, "data.y: the label of sample 11 (counted from 0) is -1"),
        ({"y": [0] * 11 + [10**12]}, "data.y: the label 1000000000000 would make"),
        ({"num_clients": 3}, "only 2 natural owners"),
        ({"num_clients": 0}, "data.num_clients must be at least 1"),
        ({"proxy_size": 50}, "data.proxy_size is 50"),
    ],
)
def test_what_cannot_be_is_told(change, told):
    x, y = numbers(12)
    with pytest.raises(UserError) as caught:
        from_arrays(**{"x": x, "y": y, "clients": [0, 1] * 6, **change}).setup()
    assert told in str(caught.value)


def test_a_mapped_array_is_searched_for_nan_as_it_is_read(tmp_path):
    rows = np.ones((12, 2), np.float32)
    rows[7, 1] = np.nan
    np.save(tmp_path / "x.npy", rows)
    data = from_arrays(np.load(tmp_path / "x.npy", mmap_mode="r"), np.arange(12) % 2, clients=[0] * 12, test=0.0)
    data.setup()
    with pytest.raises(UserError, match=r"data\.x \(.*x\.npy\): row 7 \(counted from 0\)"):
        data.shard(0).train.tensors()
