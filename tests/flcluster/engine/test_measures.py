"""What is measured of all clients, against a loop over clients."""

import math

import numpy as np
import pytest
import torch

from flcluster.data import View
from flcluster.engine.measures import local_accuracies, measured
from flcluster.protocol.rounds import Served

SEED = 11


def models(fed, count):
    return fed.init_rows(count) * 3


def brute_accuracy(fed, row, view):
    """One client's share of right predictions, by a plain forward pass."""
    fed.layout.load(row)
    x, y = view.tensors()
    with torch.no_grad():
        return float((fed.worker.module.eval()(x).argmax(1) == y).double().mean())


def without_data(data, split, *clients):
    """Leave clients without training or test samples."""
    original, size = data.shard, data.size

    def shard(client, cycle=0):
        found = original(client, cycle)
        if client not in clients:
            return found
        parts = {"train": found.train, "test": found.test, split: View(())}
        return type(found)(parts["train"], parts["test"], found.mixture)

    data.shard = shard
    if split == "train":
        data.size = lambda client, cycle=0: 0 if client in clients else size(client, cycle)
    return data


def test_every_client_is_scored_with_the_model_it_is_served(federation, blobs):
    """Several sources a client, a model that nobody is served, and a client without test data."""
    fed = federation(without_data(blobs(num_clients=9), "test", 4))
    rows, labels = models(fed, 4), np.array([0, 2, 2, 0, 1, 1, 2, 0, 0])
    for t in (0, 2):
        found = fed.client_accuracies(rows, labels, t)
        for client in range(9):
            if client == 4:
                assert math.isnan(found[client])
                continue
            expected = brute_accuracy(fed, rows[labels[client]], fed.data.shard(client, t).test)
            assert found[client] == pytest.approx(expected, abs=1e-9)
    assert len({round(a, 6) for a in found if not math.isnan(a)}) > 3


def brute_heterogeneity(points, labels):
    """Mean over clients of the mean L1 distance to the others of the cluster; alone: 0."""
    values = []
    for i, k in enumerate(labels):
        others = [np.abs(points[i] - points[j]).sum() for j in range(len(labels)) if j != i and labels[j] == k]
        values.append(sum(others) / len(others) if others else 0.0)
    return sum(values) / len(values)


def test_measured_against_loops(federation, blobs):
    """Client 3 holds no training data: it has an accuracy, but no labels to compare."""
    data = without_data(blobs(num_clients=12), "train", 3)
    fed = federation(data)
    labels = np.array([0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 5, 0])
    served = Served(models(fed, 6), labels)
    found = measured(served, local_accuracies(served, 1, fed), 1, fed)
    accuracies = [brute_accuracy(fed, served.models[labels[m]], data.shard(m, 1).test) for m in range(12)]
    assert found["client_acc"] == pytest.approx(np.mean(accuracies), abs=1e-9)
    assert found["client_acc_std"] == pytest.approx(np.std(accuracies), abs=1e-9)
    holding = [m for m in range(12) if m != 3]
    counts = [np.bincount(data.shard(m, 1).train.tensors()[1], minlength=3) for m in holding]
    points = np.array([c / c.sum() for c in counts])
    assert found["heterogeneity"] == pytest.approx(brute_heterogeneity(points, labels[holding]), rel=1e-4)
    assert found["clusters"] == 3
    assert [found[f"cluster_size_{k}"] for k in range(6)] == [8, 0, 3, 0, 0, 1]


def test_heterogeneity_is_a_mean_over_clients_not_over_clusters(federation, blobs, points):
    """Three clients with labels 0, 0, 1 in one cluster, one alone: (1 + 1 + 2 + 0)/4, not (4/3 + 0)/2."""
    data = blobs(num_clients=4)
    original = data.shard
    x = torch.zeros(5, 1, 2, 3)
    kinds = [points(x, torch.full((5,), label)) for label in (0, 0, 1, 2)]
    data.shard = lambda client, cycle=0: type(original(0))(kinds[client], original(client, cycle).test, torch.ones(1))
    data.size = lambda client, cycle=0: 5
    fed = federation(data)
    served = Served(models(fed, 2), np.array([0, 0, 0, 1]))
    found = measured(served, local_accuracies(served, 0, fed), 0, fed)
    assert found["heterogeneity"] == pytest.approx(1.0)


def test_nobody_with_data_is_no_number(federation, blobs):
    data = without_data(without_data(blobs(num_clients=3), "train", 0, 1, 2), "test", 0, 1, 2)
    fed = federation(data)
    served = Served(models(fed, 1), np.zeros(3, dtype=np.int64))
    found = measured(served, local_accuracies(served, 0, fed), 0, fed)
    assert math.isnan(found["client_acc"])
    assert math.isnan(found["heterogeneity"])
