"""What any datamodule answers about time without being told: nothing drifts, sizes and labels are read from shards."""

from collections import UserDict
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from flcluster.data import Samples, View, labels_of
from flcluster.errors import UserError


class Labelled:
    """A source that shows its labels and must not be read for them."""

    def __init__(self, labels):
        self.labels = torch.tensor(labels)

    def __len__(self):
        return len(self.labels)

    def take(self, index):
        raise AssertionError("no input is needed for the labels")


def test_nothing_drifts(blobs):
    assert blobs().drifted(0).tolist() == blobs().drifted(7).tolist() == []
    assert blobs().drifted(3).dtype == np.int64


def test_sizes_are_those_of_the_shards(blobs):
    data = blobs(num_clients=5)
    for t in (0, 4):
        assert data.sizes(t).tolist() == [len(data.shard(m, t).train) for m in range(5)]
    assert data.sizes(0).tolist() != data.sizes(4).tolist()


def test_label_counts_are_those_of_the_training_samples(blobs):
    data = blobs(num_clients=5)
    found = data.label_counts(np.array([4, 1]), 2)
    for row, m in zip(found, (4, 1), strict=True):
        labels = data.shard(m, 2).train.tensors()[1].tolist()
        assert row.tolist() == [labels.count(c) for c in range(3)]
    assert data.label_counts(np.empty(0, dtype=np.int64), 0).shape == (0, 3)


def test_everything_arrived_at_the_start(blobs):
    data = blobs()
    ((when, view),) = data.arrived(2, 5)
    assert when == 0
    assert torch.equal(view.tensors()[0], data.shard(2, 5).train.tensors()[0])


def test_labels_of_a_view(points):
    x, y = torch.zeros(7, 1, 2, 3), torch.tensor([0, 2, 1, 1, 0, 2, 2])
    assert labels_of(points(x, y, parts=3)).tolist() == y.tolist()
    shown = Labelled([5, 6, 7])
    assert labels_of(View(((shown, torch.tensor([2, 0])), (shown, torch.tensor([1]))))).tolist() == [7, 5, 6]
    assert labels_of(View(())).tolist() == []
    assert labels_of(View(())).dtype == np.int64


# Samples of any structure -----------------------------------------------------------------------------------------


class Encoding(UserDict):
    """A mapping that is no dict, as tokenisers give."""


@dataclass
class Graph:
    nodes: torch.Tensor
    edges: int


class Listed:
    """A dataset that counts what is read of it."""

    def __init__(self, samples):
        self.samples, self.read = samples, []

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        self.read.append(i)
        return self.samples[i]


def whole(source):
    return View(((source, torch.arange(len(source))),))


def vectors(n, first=0):
    return torch.arange(first, first + 2 * n, dtype=torch.float32).view(n, 2)


def test_a_loader_gives_dicts_single_tensors_and_nested_batches():
    x = vectors(5)
    (first, second) = whole(Samples([{"ids": row, "n": {"m": i}} for i, row in enumerate(x)])).loader(3)
    assert torch.equal(first["ids"], x[:3]) and second["n"]["m"].tolist() == [3, 4]
    first, second = whole(Samples(x)).loader(3)
    assert torch.equal(torch.cat([first, second]), x)
    (batch,) = whole(Samples([Encoding(ids=row) for row in x])).loader(8)
    assert isinstance(batch, Encoding) and torch.equal(batch["ids"], x)
    ((a, (b, c)),) = whole(Samples([(row, (row + 1, "word")) for row in x])).loader(8)
    assert torch.equal(b, a + 1) and list(c) == ["word"] * 5


def test_a_loader_takes_the_collate_of_the_source():
    graphs = [Graph(vectors(i + 1), i) for i in range(4)]

    def collate(batch):
        return Graph(torch.cat([graph.nodes for graph in batch]), sum(graph.edges for graph in batch))

    first, second = whole(Samples(graphs, collate)).loader(2)
    assert len(first.nodes) == 3 and second.edges == 5
    both = View((*whole(Samples(graphs, collate)).parts, *whole(Samples(graphs[:1], collate)).parts))
    assert [batch.edges for batch in both.loader(5)] == [6]
    other = View((*whole(Samples(graphs, collate)).parts, *whole(Samples(graphs)).parts))
    with pytest.raises(UserError, match="different collate"):
        other.loader(2)


def test_a_loader_shuffles_by_its_generator_and_reads_only_what_is_chosen():
    source = Samples(Listed(list(vectors(10))))
    view = View(((source, torch.tensor([7, 2, 5, 1])),))
    orders = [torch.cat(list(view.loader(3, True, torch.Generator().manual_seed(s)))).tolist() for s in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == sorted(orders[2])
    assert set(source.dataset.read) == {7, 2, 5, 1}
    state = torch.get_rng_state()
    list(view.loader(3, True, torch.Generator()))
    assert torch.equal(torch.get_rng_state(), state)  # the order of one loader is nobody else's
    assert list(view.where(torch.zeros(4, dtype=torch.bool)).loader(3, shuffle=True)) == []


def test_a_loader_with_workers_gives_the_same(points):
    x = vectors(7)
    for view in (whole(Samples(x)), points(x, torch.arange(7), parts=2)):
        alone, helped = list(view.loader(3)), list(view.loader(3, num_workers=2))
        assert all(
            torch.equal(torch.as_tensor(a[0]), torch.as_tensor(b[0])) for a, b in zip(alone, helped, strict=True)
        )


def test_a_loader_of_tensors_gives_what_the_view_holds(points):
    x, y = vectors(7), torch.arange(7)
    batches = list(points(x, y, parts=3).loader(3))
    assert torch.equal(torch.cat([a for a, _ in batches]), x) and torch.equal(torch.cat([b for _, b in batches]), y)


def test_a_batch_is_read_in_one_call_where_the_dataset_can():
    class AtOnce(Listed):
        def __getitems__(self, indices):
            self.read.append(tuple(indices))
            return [self.samples[i] for i in indices]

    source = Samples(AtOnce(list(vectors(5))))
    list(whole(source).loader(2))
    assert source.dataset.read == [(0, 1), (2, 3), (4,)]


def test_samples_that_are_pairs_of_tensors_are_taken_whole():
    x = vectors(5)
    source = Samples([(row, i) for i, row in enumerate(x)])
    got = View(((source, torch.tensor([4, 0])), (source, torch.tensor([2])))).tensors()
    assert torch.equal(got[0], x[[4, 0, 2]]) and got[1].tolist() == [4, 0, 2]
    empty = View(((source, torch.empty(0, dtype=torch.int64)),)).tensors()
    assert empty[0].shape == (0, 2) and empty[1].shape == (0,)


@pytest.mark.parametrize(
    ("sample", "told"),
    [
        ({"ids": torch.ones(2), "mask": torch.ones(2)}, "one dict of ids, mask"),
        (torch.ones(2), "one Tensor"),
        ((torch.ones(2), torch.ones(2), 3), "a list of 3"),
        ((torch.ones(2), "name"), "Tensor, tuple"),
    ],
)
def test_samples_that_are_no_pairs_say_so(sample, told):
    with pytest.raises(UserError, match=r"\(input, label\) tensors") as caught:
        whole(Samples([sample] * 3)).tensors()
    assert told in str(caught.value) and "list" in str(caught.value)  # the dataset is named too


def test_labels_are_those_given_or_those_read():
    read = Listed([(torch.ones(1), i % 2) for i in range(4)])
    assert labels_of(whole(Samples(read, labels=torch.tensor([3, 3, 1, 0])))).tolist() == [3, 3, 1, 0]
    assert read.read == []
    assert labels_of(whole(Samples(read))).tolist() == [0, 1, 0, 1]
    with pytest.raises(UserError, match="another kind"):
        labels_of(whole(Samples([(torch.ones(1), 0.5)] * 3)))
    with pytest.raises(UserError, match="3 labels for 4 samples"):
        Samples(read, labels=torch.tensor([0, 0, 1]))


def test_the_transform_is_for_training_only():
    x = vectors(4)
    source = Samples([(row, 0) for row in x], transform=lambda sample: (-sample[0], sample[1]))
    view = whole(source)
    assert torch.equal(view.tensors()[0], x) and torch.equal(view.tensors(training=True)[0], -x)
    assert torch.equal(next(iter(view.loader(4)))[0], x)
    assert torch.equal(next(iter(view.loader(4, training=True)))[0], -x)
    assert (next(iter(view.loader(4, shuffle=True)))[0] <= 0).all()
    assert (next(iter(view.loader(4, shuffle=True, training=False)))[0] >= 0).all()


def test_a_transform_draws_anew_at_each_pass():
    source = Samples(torch.zeros(6), transform=lambda sample: sample + torch.rand(()))
    loader = whole(source).loader(6, shuffle=True)
    torch.manual_seed(3)
    first, second = next(iter(loader)), next(iter(loader))
    torch.manual_seed(3)
    assert torch.equal(next(iter(loader)), first) and not torch.equal(first, second)


def test_no_more_is_read_than_the_batches_asked_for():
    read = Listed(list(vectors(1000)))
    batches = iter(whole(Samples(read)).loader(10, shuffle=True))
    for n in range(1, 4):
        next(batches)
        assert len(read.read) == 10 * n


def test_a_memory_mapped_array_is_read_batch_by_batch(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4000, dtype=np.float32).reshape(2000, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r+")
    seen = 0
    for batch in whole(Samples(mapped)).loader(64):
        assert batch.shape[0] <= 64 and batch.untyped_storage().nbytes() <= 64 * 8
        seen += len(batch)
    assert seen == 2000
