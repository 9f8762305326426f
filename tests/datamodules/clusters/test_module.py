import numpy as np
import pytest
import torch

from flcluster.datamodules import ClusteredDataModule, RotatedDigits
from flcluster.errors import UserError


def rows(view):
    return [index.tolist() for _, index in view.parts]


@pytest.fixture(scope="module")
def digits():
    data = RotatedDigits(num_clusters=4, seed=5)
    data.setup()
    return data


def test_shapes_are_known_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(ClusteredDataModule, "setup", lambda *_: pytest.fail("loaded"))
    data = RotatedDigits(num_clusters=3)
    assert (data.num_classes, data.input_shape, data.num_clusters, data.num_clients) == (10, (1, 8, 8), 3, 60)
    assert RotatedDigits(num_clusters=3, num_clients=7).num_clients == 7
    assert data.size(0) > 0


def test_setup_loads_once(digits):
    before = digits.cluster_train(0).parts[0][0]
    digits.setup("fit")
    assert digits.cluster_train(0).parts[0][0] is before


def test_sizes_counts_and_mixture_are_exact(digits):
    sizes = set()
    for client in range(80):
        for cycle in range(3):
            shard = digits.shard(client, cycle)
            counts = np.array([len(index) for _, index in shard.train.parts])
            n = digits.size(client, cycle)
            assert counts.sum() == n == len(shard.train) and 40 <= n <= 120
            np.testing.assert_allclose(shard.mixture.numpy(), counts / n, atol=1e-7)
            assert 0.4 <= counts[client % 4] / n <= 0.9
            tested = np.array([len(index) for _, index in shard.test.parts])
            assert tested.sum() == 100 == len(shard.test)
            assert (abs(tested - counts / n * 100) < 1).all()
            sizes.add(n)
    assert min(sizes) < 45 and max(sizes) > 115


def test_no_sample_twice_and_evaluation_never_meets_training_or_proxy(digits):
    train_pixels = digits.cluster_train(0).tensors()[0].flatten(1)
    test_source = digits.cluster_test(0).parts[0][0]
    everything = test_source.take(torch.arange(len(test_source)))[0].flatten(1)
    assert len(train_pixels) == 1197 and len(everything) == 600
    assert not set(map(tuple, everything.tolist())) & set(map(tuple, train_pixels.tolist()))  # no image in both
    proxies = [set(rows(digits.proxy(k))[0]) for k in range(4)]
    assert all(proxy == proxies[0] and len(proxy) == 200 for proxy in proxies)  # the same images at every rotation
    for k in range(4):
        evaluation = rows(digits.cluster_test(k))[0]
        assert sorted(evaluation + list(proxies[0])) == list(range(600))
    for client in range(30):
        shard = digits.shard(client, 1)
        assert all(len(set(index)) == len(index) for index in rows(shard.train) + rows(shard.test))
        assert not any(set(index) & proxies[0] for index in rows(shard.test))
        assert all(source is digits.cluster_train(k).parts[0][0] for k, (source, _) in enumerate(shard.train.parts))
        assert all(source is digits.cluster_test(k).parts[0][0] for k, (source, _) in enumerate(shard.test.parts))


def test_proxy_images_appear_in_no_evaluation_set_however_rotated(digits):
    proxy = digits.proxy(0).tensors()[0]
    turned = torch.cat([torch.rot90(proxy, k, (-2, -1)) for k in range(4)]).flatten(1)
    pool = torch.cat([digits.cluster_test(k).tensors()[0] for k in range(4)]).flatten(1)
    assert len(turned) == 800 and len(pool) == 1600
    assert torch.cdist(turned, pool).amin() > 0.1


def test_draws_depend_on_seed_client_and_cycle_only(digits):
    again = RotatedDigits(num_clusters=4, seed=5)
    last_first = {(c, t): again.shard(c, t) for t in (2, 0) for c in (9, 3, 0)}
    for (client, cycle), shard in last_first.items():
        same = digits.shard(client, cycle)
        assert rows(shard.train) == rows(same.train) and rows(shard.test) == rows(same.test)
        assert again.size(client, cycle) == digits.size(client, cycle)
    assert rows(digits.shard(3, 0).train) != rows(digits.shard(3, 1).train)
    assert rows(digits.shard(3, 0).train) != rows(digits.shard(7, 0).train)
    other = RotatedDigits(num_clusters=4, seed=6)
    assert rows(other.shard(3).train) != rows(digits.shard(3).train)
    assert rows(other.proxy(0)) != rows(digits.proxy(0))
    torch.testing.assert_close(other.cluster_train(0).tensors()[0], digits.cluster_train(0).tensors()[0])


def test_global_generators_are_neither_read_nor_moved(digits):
    torch.manual_seed(1), np.random.seed(1)
    state = torch.get_rng_state().clone()
    first = rows(digits.shard(2).train)
    assert (torch.get_rng_state() == state).all()
    torch.manual_seed(2), np.random.seed(2)
    assert rows(digits.shard(2).train) == first


def test_without_redraw_every_cycle_is_the_first():
    data = RotatedDigits(num_clusters=2, redraw=False)
    assert rows(data.shard(3, 0).train) == rows(data.shard(3, 8).train)
    assert rows(data.shard(3, 0).test) == rows(data.shard(3, 8).test)
    assert data.size(3, 0) == data.size(3, 8)


def test_one_cluster():
    data = RotatedDigits(num_clusters=1)
    shard = data.shard(19, 2)
    assert shard.mixture.tolist() == [1.0] and data.num_clients == 20
    assert len(shard.train) == data.size(19, 2) and len(shard.test) == 100


def test_pure_clusters():
    data = RotatedDigits(num_clusters=3, main_share=(1.0, 1.0))
    assert data.shard(4).mixture.tolist() == [0.0, 1.0, 0.0]
    assert data.shard(4).train.tensors()[0].shape == (data.size(4), 1, 8, 8)


def test_an_unknown_client_is_refused(digits):
    for client in (-1, 80):
        with pytest.raises(IndexError, match="80"):
            digits.shard(client)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_clusters": 0}, "data.num_clusters must be at least 1, got 0"),
        ({"num_clients": 0}, "data.num_clients must be at least 1, got 0"),
        ({"test_size": 0}, "data.test_size must be at least 1, got 0"),
        ({"batch_size": 0}, "data.batch_size must be at least 1, got 0"),
        ({"seed": -1}, "data.seed must be at least 0, got -1"),
        ({"proxy_size": -1}, "data.proxy_size must be at least 0, got -1"),
        ({"samples": (50, 40)}, r"data.samples is \(50, 40\)"),
        ({"samples": (0, 40)}, r"data.samples is \(0, 40\)"),
        ({"main_share": (0.0, 0.5)}, "data.main_share"),
        ({"main_share": (0.5, 1.1)}, "data.main_share"),
        ({"main_share": (0.6, 0.5)}, "data.main_share"),
        ({"rest_split": "half"}, "data.rest_split is 'half'"),
    ],
)
def test_impossible_arguments_fail_at_construction(arguments, message):
    with pytest.raises(UserError, match=message):
        RotatedDigits(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message", "works"),
    [
        ({"samples": (40, 1331)}, "data.samples asks for 1331.* 1197 training .*at most 1329", {"samples": (40, 1329)}),
        ({"num_clusters": 1, "samples": (40, 1198)}, "at most 1197", {"num_clusters": 1, "samples": (40, 1197)}),
        ({"proxy_size": 600}, "data.proxy_size asks for 600.* 600 test .*at most 599", None),
        ({"test_size": 500}, "data.test_size asks for 500.* 400 evaluation .*at most 432", {"test_size": 432}),
    ],
)
def test_what_the_data_cannot_give_fails_at_setup_and_the_named_number_works(arguments, message, works):
    with pytest.raises(UserError, match=message):
        RotatedDigits(**arguments).setup()
    if works:
        data = RotatedDigits(**works)
        assert all(len(data.shard(client).train) == data.size(client) for client in range(data.num_clients))
