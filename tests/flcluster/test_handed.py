"""Data that contradict themselves are refused by the class and its file; what may be meant so is said once."""

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from federations import Blobs

from flcluster.data import Samples, View
from flcluster.data.handed import checked
from flcluster.errors import UserError


class Changed(Blobs):
    """Blobs whose shards are changed by a function of the datamodule, the client and the shard."""

    def __init__(self, change):
        super().__init__()
        self.change, self.asked = change, []

    def shard(self, client, cycle=0):
        self.asked.append(client)
        return self.change(self, client, super().shard(client, cycle))


def part(view):
    return view.parts[0]


def trained(change):
    """Change the numbers of the first part of what trains."""
    return lambda data, client, shard: replace(
        shard, train=View(((part(shard.train)[0], change(part(shard.train)[1])), *shard.train.parts[1:]))
    )


def refused(data):
    with pytest.raises(UserError) as found:
        checked(data)
    told = str(found.value)
    assert Path(__file__).name in told and "Changed" in told
    return told


def test_good_data_are_left_alone_and_few_are_asked(blobs):
    assert checked(blobs()) == []
    data = Changed(lambda data, client, shard: shard)
    assert checked(data) == [] and data.asked == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data, client, shard: shard.train, "must return a Shard, but returned a View"),
        (lambda data, client, shard: replace(shard, test=7), "test: a View is needed, got a int"),
        (lambda data, client, shard: replace(shard, mixture=torch.ones(2)), "mixture must be a tensor of 3 shares"),
        (lambda data, client, shard: replace(shard, mixture=[1, 0, 0]), "mixture must be a tensor of 3 shares"),
        (trained(lambda index: index.float()), "whole numbers (int64, one dimension), got a tensor of torch.float32"),
        (trained(lambda index: index[:, None]), "whole numbers"),
        (trained(lambda index: index.tolist()), "got a list"),
        (trained(lambda index: index - 150), "train: it chooses samples -"),
        (trained(lambda index: index + 150), "of a source that has 200"),
        (trained(lambda index: index[torch.randperm(len(index))]), "train is another when it is asked for again"),
        (trained(lambda index: index[1:]), "training samples, but it holds"),
        (lambda data, client, shard: replace(shard, test=View((*shard.train.parts[:1], *shard.test.parts))),
         "test samples are training samples too"),
    ],
)  # fmt: skip
def test_a_shard_that_is_wrong(change, said):
    assert said in refused(Changed(change))


def test_labels_outside_the_classes():
    data = Changed(lambda data, client, shard: shard)
    for source in data.sources["train"]:
        source.y += 1
    assert re.search(r"a label is \d+, but num_classes is 3: they go from 0 to 2", refused(data))
    for source in data.sources["train"]:
        source.y[:] = -100  # what PyTorch's losses leave out
    assert checked(data) == []
    for source in data.sources["train"]:
        source.y = source.y.float()  # targets of another kind
    assert checked(data) == []


@pytest.mark.parametrize(("key", "value"), [("num_clients", 2.0), ("num_clusters", 0), ("num_clients", None)])
def test_counts_are_whole_numbers(key, value):
    data = Changed(lambda data, client, shard: shard)
    setattr(data, key, value)
    assert f"{key} must be a whole number of at least 1, got {value!r}" in refused(data)


def test_a_global_test_set_is_a_view():
    data = Changed(lambda data, client, shard: shard)
    data.global_test = lambda: [1, 2]
    with pytest.raises(UserError, match="must return a View, but returned a list of 2"):
        checked(data)


@pytest.mark.parametrize("method", ["proxy", "cluster_test"])
def test_sets_of_clusters_are_views(method, federation, monkeypatch):
    monkeypatch.setattr(Changed, method, lambda self, cluster: torch.arange(3))
    fed = federation(Changed(lambda data, client, shard: shard))
    with pytest.raises(
        UserError, match=rf"Changed.{method} \(.*must return a View, but returned a Tensor \(3,\) of int64"
    ):
        fed.proxies if method == "proxy" else fed.cluster_accuracies(fed.init_rows(3))


def test_what_is_tested_on_its_own_training_samples_is_told_once():
    """All of them: whoever tries out whether a model can learn at all means that."""
    data = Changed(lambda data, client, shard: replace(shard, test=shard.train))
    (told,) = checked(data)
    assert "tested on samples that they train on" in told and Path(__file__).name in told


def test_nothing_that_others_draw_from_is_drawn_from():
    def drawn(data, client, shard):
        torch.rand(()), np.random.random(), random.random()
        return shard

    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    checked(Changed(drawn))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]


def test_sources_that_are_made_anew_are_the_same_by_their_labels():
    def anew(labels):
        def change(data, client, shard):
            source = Samples(torch.randn(9, 2), labels=labels())
            return replace(shard, test=View(((source, torch.arange(9)),)))

        return change

    assert checked(Changed(anew(lambda: torch.arange(9) % 3))) == []
    assert "test is another when" in refused(Changed(anew(lambda: torch.randint(3, (9,)))))
