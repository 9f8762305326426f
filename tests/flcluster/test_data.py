"""What any datamodule answers about time without being told: nothing drifts, sizes and labels are read from shards."""

import numpy as np
import torch

from flcluster.data import View, labels_of


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
