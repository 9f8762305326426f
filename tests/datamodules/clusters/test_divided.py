"""Clusters divided among their clients: every sample once, equal sizes, nothing redrawn."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flcluster.datamodules import (
    ClusteredDataModule,
    DigitRecognition,
    RotatedCIFAR10,
    RotatedDigits,
    RotatedEMNIST,
    RotatedMNIST,
)
from flcluster.datamodules.clusters.divided import members, most_clients, piece
from flcluster.datamodules.sources.images import Images, ImageSource
from flcluster.errors import UserError

WHOLE = {"samples": None, "test_size": None, "proxy_size": 0}


class Unequal(ClusteredDataModule):
    """Clusters of given lengths whose only pixel is the position of the sample."""

    name = "Unequal"

    def __init__(self, train, test, **kwargs):
        super().__init__(num_classes=2, input_shape=(1, 1, 1), num_clusters=len(train), **kwargs)
        self.lengths = list(zip(train, test, strict=True))

    def sources(self):
        return [(counted(train), counted(test)) for train, test in self.lengths]


def counted(n):
    """Return ``n`` samples, each of them its position."""
    return ImageSource(Images(torch.arange(n, dtype=torch.uint8).view(-1, 1, 1, 1), torch.zeros(n).long()), [0], [1])


def only(view):
    ((_, index),) = view.parts
    return index.tolist()


def held(data, split="train"):
    """The positions each client holds, by cluster."""
    shards = [data.shard(client) for client in range(data.num_clients)]
    return [[only(getattr(s, split)) for s in shards[k :: data.num_clusters]] for k in range(data.num_clusters)]


# the arithmetic ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(1, 12))
def test_pieces_are_numpys_array_split_of_the_order(n, parts):
    order = np.random.default_rng(n).permutation(n)
    expected = [sorted(part.tolist()) for part in np.array_split(order, parts)]
    assert [piece(torch.from_numpy(order), parts, part).tolist() for part in range(parts)] == expected


@given(st.integers(1, 50), st.integers(1, 7))
def test_members_are_counted_as_the_clients_are_numbered(num_clients, num_clusters):
    counted = np.bincount(np.arange(num_clients) % num_clusters, minlength=num_clusters).tolist()
    assert [members(k, num_clients, num_clusters) for k in range(num_clusters)] == counted


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_most_clients_is_the_last_number_that_leaves_nobody_out(lengths):
    def works(clients):
        return (np.bincount(np.arange(clients) % len(lengths), minlength=len(lengths)) <= lengths).all()

    assert most_clients(lengths) == max(n for n in range(100) if works(n))


# the datamodule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_clusters", "num_clients"), [(1, 7), (2, 24), (4, 30), (3, 3)])
def test_every_sample_belongs_to_exactly_one_client_of_its_cluster(num_clusters, num_clients):
    data = RotatedDigits(num_clusters=num_clusters, num_clients=num_clients, seed=3, **WHOLE)
    for split, total in (("train", 1197), ("test", 600)):
        for clients in held(data, split):
            assert sorted(chain.from_iterable(clients)) == list(range(total))
            assert max(map(len, clients)) - min(map(len, clients)) <= 1
            assert all(index == sorted(index) for index in clients)


def test_clients_hold_one_cluster_and_its_source():
    data = RotatedDigits(num_clusters=3, num_clients=11, **WHOLE)
    for client in range(11):
        shard = data.shard(client)
        assert shard.mixture.tolist() == [float(k == client % 3) for k in range(3)]
        assert shard.train.parts[0][0] is data.cluster_train(client % 3).parts[0][0]
        assert shard.test.parts[0][0] is data.cluster_test(client % 3).parts[0][0]
        assert data.size(client) == len(shard.train) and data.main_cluster(client) == client % 3
    np.testing.assert_array_equal(data.sizes(4), [data.size(client) for client in range(11)])


def test_each_rotation_is_dealt_out_in_an_order_of_its_own():
    first, second = held(RotatedDigits(num_clusters=2, num_clients=4, **WHOLE))
    assert first[0] != second[0]
    everything = set(first[0]) & set(second[0])
    assert 200 < len(everything) < 400  # about half of 598 by chance


def test_images_are_turned_by_their_clusters_rotation():
    data = RotatedDigits(num_clusters=4, num_clients=8, **WHOLE)
    upright = data.cluster_train(0).tensors()[0]
    for client in range(8):
        shard = data.shard(client)
        expected = torch.rot90(upright[only(shard.train)], client % 4, (-2, -1))
        torch.testing.assert_close(shard.train.tensors()[0], expected)


def test_nothing_is_ever_redrawn_whatever_redraw_says():
    for redraw in (True, False):
        data = RotatedDigits(num_clients=12, redraw=redraw, **WHOLE)
        assert all(len(data.drifted(cycle)) == 0 for cycle in range(5))
        for split in ("train", "test"):
            assert only(getattr(data.shard(5, 0), split)) == only(getattr(data.shard(5, 9), split))
        assert data.size(5, 0) == data.size(5, 9)


def test_the_seed_decides_and_the_order_of_asking_does_not():
    data, again, other = (RotatedDigits(num_clients=12, seed=seed, **WHOLE) for seed in (1, 1, 2))
    for client in (11, 0, 5):
        for split in ("train", "test"):
            assert only(getattr(again.shard(client), split)) == only(getattr(data.shard(client), split))
            assert only(getattr(other.shard(client), split)) != only(getattr(data.shard(client), split))


def test_unequal_clusters_are_divided_by_themselves():
    data = Unequal([10, 4, 7], [6, 6, 3], num_clients=7, **WHOLE)  # three clients in cluster 0, two in the others
    assert [sorted(map(len, clients)) for clients in held(data)] == [[3, 3, 4], [2, 2], [3, 4]]
    assert [sorted(map(len, clients)) for clients in held(data, "test")] == [[2, 2, 2], [3, 3], [1, 2]]


@pytest.mark.parametrize(("cls", "num_clients"), [(RotatedMNIST, 8), (RotatedEMNIST, 5), (RotatedCIFAR10, 4)])
def test_every_rotated_dataset_can_be_divided(cls, num_clients, write_mnist, write_emnist, write_cifar, tmp_path):
    import torchvision.datasets as tv

    write_mnist(), write_emnist("balanced", 47, 0), write_cifar(tv.CIFAR10)
    data = cls(root=tmp_path, num_clusters=2, num_clients=num_clients, train_limit=50, **WHOLE)
    for clients in held(data):
        assert len(set(chain.from_iterable(clients))) == sum(map(len, clients)) == 50


# tests and limits ----------------------------------------------------------------------------------------------------


def test_a_test_size_is_drawn_from_the_clients_own_cluster():
    data = RotatedDigits(num_clusters=2, num_clients=6, samples=None, test_size=50, proxy_size=100, seed=2)
    proxies = set(only(data.proxy(0)))
    drawn = [only(data.shard(client).test) for client in range(6)]
    assert all(len(set(index)) == 50 and not set(index) & proxies for index in drawn)
    assert len({tuple(index) for index in drawn}) == 6
    assert data.shard(3).test.parts[0][0] is data.cluster_test(1).parts[0][0]
    assert only(data.shard(3, 7).test) == drawn[3]


def test_a_test_size_as_large_as_the_split_is_the_whole_split():
    data = RotatedDigits(num_clusters=2, num_clients=6, samples=None, test_size=500, proxy_size=100)
    assert all(only(data.shard(client).test) == only(data.cluster_test(client % 2)) for client in range(6))
    with pytest.raises(UserError, match=r"data.test_size asks for 501.* 500 evaluation images: at most 500"):
        RotatedDigits(num_clusters=2, num_clients=6, samples=None, test_size=501, proxy_size=100).setup()


def test_the_proxy_is_taken_from_what_is_divided_for_testing():
    data = RotatedDigits(num_clusters=2, num_clients=6, samples=None, test_size=None, proxy_size=120)
    tested = sorted(chain.from_iterable(held(data, "test")[1]))
    assert len(tested) == 480 and not set(tested) & set(only(data.proxy(1)))


def test_a_limit_keeps_the_same_images_at_every_rotation():
    data = RotatedDigits(num_clusters=4, num_clients=8, train_limit=100, **WHOLE)
    kept = [only(data.cluster_train(k)) for k in range(4)]
    assert len(set(kept[0])) == 100 and kept[0] == sorted(kept[0]) and all(index == kept[0] for index in kept)
    assert kept[0] != list(range(100))
    assert [sorted(chain.from_iterable(clients)) for clients in held(data)] == kept
    assert len(data.cluster_test(0)) == 600
    assert only(RotatedDigits(train_limit=100, seed=1, **WHOLE).cluster_train(0)) != kept[0]


def test_a_limit_holds_for_mixtures_too():
    data = RotatedDigits(num_clusters=2, train_limit=110)
    kept = set(only(data.cluster_train(0)))
    assert len(kept) == 110
    for client in range(10):
        assert all(set(index.tolist()) <= kept for _, index in data.shard(client, 3).train.parts)
    with pytest.raises(UserError, match=r"data.samples asks for 120.* 100 training"):
        RotatedDigits(num_clusters=2, train_limit=100).setup()


def test_digit_recognition_can_be_limited_and_divided_by_its_arguments():
    data = DigitRecognition(num_clients=9, train_limit=5, **WHOLE)
    assert (data.samples, data.test_size, data.train_limit) == (None, None, 5)


# what cannot be ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_clients": 3, **WHOLE}, r"data.num_clients is 3: .*each of the 4 clusters"),
        ({"test_size": None}, r"data.test_size is null: .*data.samples"),
        ({"main_share": (0.4, 0.8), **WHOLE}, r"data.main_share is \(0.4, 0.8\).*data.samples null"),
        ({"train_limit": 0}, "data.train_limit must be at least 1, got 0"),
        ({**WHOLE, "test_size": 0}, "data.test_size must be at least 1, got 0"),
    ],
)
def test_impossible_arguments_fail_at_construction(arguments, message):
    with pytest.raises(UserError, match=message):
        RotatedDigits(**arguments)


def test_shares_that_say_the_same_are_accepted():
    assert RotatedDigits(main_share=(1.0, 1.0), **WHOLE).shard(1).mixture.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message", "works"),
    [
        (
            {"num_clients": 2401},
            "data.num_clients is 2401, so that 601 clients share the 600 evaluation .* 2400 ",
            {"num_clients": 2400},
        ),
        (
            {"num_clients": 4789, "test_size": 5},
            "data.num_clients is 4789, .*1198 clients share the 1197 training .*cluster 0 of Digits: at most 4788",
            {"num_clients": 4788, "test_size": 5},
        ),
        ({"num_clients": 42, "train_limit": 10}, "11 clients share the 10 training", {"num_clients": 40}),
        ({"train_limit": 1198}, "data.train_limit asks for 1198.* at most 1197", {"train_limit": 1197}),
        ({"proxy_size": 600}, "data.proxy_size asks for 600.*at most 599", None),
    ],
)
def test_what_the_data_cannot_give_fails_at_setup_and_the_named_number_works(arguments, message, works):
    with pytest.raises(UserError, match=message):
        RotatedDigits(**{**WHOLE, **arguments}).setup()
    if works:
        data = RotatedDigits(**{**WHOLE, **works})
        assert min(len(view) for shard in map(data.shard, range(40)) for view in (shard.train, shard.test)) > 0


def test_the_cluster_that_is_too_short_is_named():
    with pytest.raises(UserError, match=r"2 clients share the 1 training images of cluster 1 .*at most 4 clients"):
        Unequal([9, 1, 9], [9, 9, 9], num_clients=6, **WHOLE).setup()
    assert len(Unequal([9, 1, 9], [9, 9, 9], num_clients=4, **WHOLE).shard(1).train) == 1


def test_an_unknown_client_is_refused():
    data = RotatedDigits(num_clients=8, **WHOLE)
    for ask in (data.shard, data.size):
        with pytest.raises(IndexError, match="client 8 of 8"):
            ask(8)
