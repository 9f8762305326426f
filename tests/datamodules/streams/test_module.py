"""Who holds what when, against the rule of the window written out by hand."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import Given

from flcluster.data import labels_of
from flcluster.datamodules import (
    FrameIntervals,
    LabelBuckets,
    LabelSwaps,
    RotationDrift,
    StreamDigits,
    StreamImages,
    Timestamps,
)
from flcluster.errors import UserError


def held_by_hand(rows, client, cycle, window):
    """Apply the rule to each row."""
    ticks = [a for _, _, a in rows if 0 < a <= cycle]
    if ticks:
        return {(s, a) for s, c, a in rows if c == client and max(ticks) - window < a <= max(ticks)}
    return {(s, a) for s, c, a in rows if c == client and -window <= a <= 0}


def indices(view):
    return [i for _, index in view.parts for i in index.tolist()]


def held(data, client, cycle):
    shard = data.shard(client, cycle)
    return set(indices(shard.train)) | set(indices(shard.test))


plans = st.integers(1, 12).flatmap(
    lambda window: st.tuples(
        st.just(window),
        st.dictionaries(
            st.tuples(st.integers(0, 3), st.integers(0, 30)),  # a client holds a sample once
            st.integers(-window, 25),
            max_size=40,
        ),
    )
)


@settings(max_examples=25, deadline=None)
@given(plans, st.sampled_from([0.0, 0.2, 0.5]), st.integers(0, 3))
def test_every_answer_follows_from_the_rule(plan, share, seed):
    window, drawn = plan
    rows = tuple((sample, client, arrival) for (client, sample), arrival in drawn.items())
    data = StreamDigits(num_clients=4, arrivals=Given(rows), window=window, test_share=share, seed=seed)
    labels = data.pool("train").parts[0][0].labels
    assert data.events.tolist() == sorted({a for _, _, a in rows if a > 0})
    splits = {}
    for cycle in range(28):
        changed, counts = [], data.label_counts(np.arange(4), cycle)
        for client in range(4):
            now, before = (held_by_hand(rows, client, t, window) for t in (cycle, cycle - 1))
            shard, arrived = data.shard(client, cycle), data.arrived(client, cycle)
            train, test = indices(shard.train), indices(shard.test)
            assert sorted(train + test) == sorted(s for s, _ in now)  # also: no sample twice, none in both
            for kind, part in (("train", train), ("test", test)):
                for sample in part:
                    assert splits.setdefault((client, sample), kind) == kind  # for good
            assert data.size(client, cycle) == data.sizes(cycle)[client] == len(train)
            assert data.test_sizes(cycle)[client] == len(test)
            assert counts[client].tolist() == np.bincount(labels[train], minlength=10).tolist()
            assert {(s, r) for r, view in arrived for s in indices(view)} == {(s, a) for s, a in now if s in train}
            assert [r for r, _ in arrived] == sorted({r for r, _ in arrived})
            changed += [client] if cycle > 0 and now != before else []
        assert data.drifted(cycle).tolist() == changed
    assert counts.dtype == np.int64 and data.label_counts(np.array([2, 0]), 27).tolist() == counts[[2, 0]].tolist()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10), st.integers(1, 12), st.booleans())
def test_a_sample_is_held_for_consecutive_rounds(seed, gap, reuse):
    plan = LabelBuckets(samples=(20, 30), gap=gap, reuse=reuse)
    data = StreamDigits(num_clients=5, window=20, arrivals=plan, seed=seed)
    for client in range(5):
        rounds = {}
        for cycle in range(10 * gap + 25):
            for sample in held(data, client, cycle):
                rounds.setdefault(sample, []).append(cycle)
        assert 20 <= len(rounds) <= 30 or gap == 1  # a window of 20 rounds and gaps of 1: all arrived before round 0
        assert all(found == list(range(found[0], found[-1] + 1)) for found in rounds.values())


@pytest.mark.parametrize(("gap", "counts"), [(50, [3] + [2] * 7), (20, [6] + [5] * 4), (30, [4] * 7)])
def test_intervals_held_at_the_papers_gaps(gap, counts):
    plan = LabelBuckets(samples=(80, 80), gap=gap, concentration=None)
    data = StreamDigits(num_clients=3, window=100, arrivals=plan)
    rounds = [0, *data.events.tolist()]
    assert rounds == [0, *(j * gap - 100 for j in range(10) if j * gap > 100)]
    assert len(rounds) == len(counts) and rounds[-1] == {50: 350, 20: 80, 30: 170}[gap]
    for cycle, count in zip(rounds, counts, strict=True):
        assert [len(data.arrived(client, cycle)) for client in range(3)] == [count] * 3
        assert data.sizes(cycle).sum() + data.test_sizes(cycle).sum() == 3 * 8 * count


def test_each_interval_gives_its_share_to_the_test():
    rows = tuple((i, i // 100, i // 20 % 5 - 4) for i in range(500))  # 5 clients, 20 samples at each of 5 rounds
    data = StreamDigits(num_clients=5, arrivals=Given(rows), window=20)
    for client in range(5):
        shard = data.shard(client, 0)
        arrivals = np.bincount([i // 20 % 5 for i in indices(shard.test)])
        assert arrivals.tolist() == [4] * 5 and len(shard.train) == 80
    other = StreamDigits(num_clients=5, arrivals=Given(rows), window=20, seed=1)
    assert set(indices(other.shard(0).test)) != set(indices(data.shard(0).test))


def test_a_plan_may_say_what_is_for_testing():
    rows = tuple((i, 0, 0) for i in range(6))
    data = StreamDigits(num_clients=1, arrivals=Given(rows, (False, True) * 3))
    assert sorted(indices(data.shard(0).test)) == [1, 3, 5]


def test_static_holds_everything_always():
    moving = StreamDigits(num_clients=4)
    still = StreamDigits(num_clients=4, static=True)
    assert len(still.events) == 0 and all(len(still.drifted(t)) == 0 for t in range(100))
    for client in range(4):
        ever = set().union(*(held(moving, client, t) for t in range(80)))
        assert ever == held(still, client, 0) == held(still, client, 1000)


@pytest.mark.parametrize(("mode", "per_label"), [("one_per_label", [1] * 10), ("two_per_label", [2] * 10)])
def test_shared_samples_are_held_by_all_and_by_nobody_else(mode, per_label):
    data, plain = (StreamDigits(num_clients=6, shared=shared) for shared in (mode, "none"))
    shared = set.intersection(*(set(indices(data.shard(c, t).train)) for c in range(6) for t in (0, 30, 70, 900)))
    labels = data.pool("train").parts[0][0].labels
    assert np.bincount(labels[sorted(shared)], minlength=10).tolist() == per_label
    assert not shared & set(indices(data.cluster_test(0)))
    for cycle in (0, 35, 900):
        for client in range(6):
            train = indices(data.shard(client, cycle).train)
            assert len(set(train)) == len(train) == data.size(client, cycle) == data.sizes(cycle)[client]
            assert set(train) - shared == set(indices(plain.shard(client, cycle).train)) - shared
            counts = np.bincount(labels[train], minlength=10)
            assert data.label_counts(np.array([client]), cycle)[0].tolist() == counts.tolist()
            assert sorted(i for _, view in data.arrived(client, cycle) for i in indices(view)) == sorted(train)


def test_the_rarer_half_of_labels_is_that_of_the_stream():
    labels = StreamDigits().pool("train").parts[0][0].labels.numpy()
    often = np.isin(labels, [0, 2, 5, 6, 9])
    chosen = np.concatenate([np.flatnonzero(often)[:200], np.flatnonzero(~often)[:50]])
    data = StreamDigits(
        num_clients=1, arrivals=Given(tuple((int(i), 0, 0) for i in chosen)), shared="rare_half", test_share=0.0
    )
    train = indices(data.shard(0).train)
    extra = train[-5:]  # shared ones come last
    assert sorted(labels[extra]) == [1, 3, 4, 7, 8]
    assert len(train) == len(set(train)) == 250 + sum(i not in chosen for i in extra)


def test_proxies_come_from_the_test_split_and_reach_no_client():
    for splits in ("train", "both"):
        data = StreamDigits(proxy_per_class=7, splits=splits)
        proxy = indices(data.proxy(0))
        assert min(proxy) >= 1197 and np.bincount(labels_of(data.proxy(0))).tolist() == [7] * 10
        used = set(indices(data.cluster_train(0))) | set(indices(data.cluster_test(0)))
        assert not used & set(proxy)
        assert (max(used) >= 1197) == (splits == "both")
    assert len(StreamDigits().proxy(0)) == 0


def test_pools_are_all_that_is_ever_held():
    data = StreamDigits(num_clients=5)
    for split in ("train", "test"):
        ever = {i for c in range(5) for t in range(90) for i in indices(getattr(data.shard(c, t), split))}
        assert indices(data.pool(split)) == sorted(ever)
    assert data.num_clusters == 1 and torch.equal(data.shard(0).mixture, torch.ones(1))


@pytest.mark.parametrize("plan", [LabelBuckets, FrameIntervals, Timestamps])
def test_nobody_trains_on_what_another_is_tested_on(plan):
    data = StreamDigits(num_clients=300, arrivals=plan(samples=(20, 30)), window=100)
    train, test = indices(data.cluster_train(0)), indices(data.cluster_test(0))
    assert not set(train) & set(test)
    assert 0.15 < len(test) / (len(train) + len(test)) < 0.25


def test_a_hundred_thousand_clients_take_seconds():
    began = time.process_time()
    data = StreamDigits(num_clients=100_000, arrivals=LabelBuckets(samples=(20, 30), gap=10))
    sizes, counts = data.sizes(40), data.label_counts(np.arange(100_000), 40)
    assert sizes.shape == (100_000,) and (counts.sum(axis=1) == sizes).all()
    assert len(data.drifted(40)) > 99_000 and len(data.shard(99_999, 40).train) == sizes[-1]
    assert time.process_time() - began < 20


def test_the_same_seed_gives_the_same_stream():
    one, again, other = (StreamDigits(seed=seed, shift=LabelSwaps(gap=7)) for seed in (3, 3, 4))
    for client in (0, 7):
        assert held(one, client, 20) == held(again, client, 20) != held(other, client, 20)
        x, y = (data.shard(client, 20).train.tensors()[1] for data in (one, again))
        assert torch.equal(x, y)


def test_a_client_may_hold_nothing():
    data = StreamDigits(num_clients=2, arrivals=Given(((0, 0, 0), (1, 1, 3), (2, 1, 40))), window=20, test_share=0.0)
    assert [data.size(0, t) for t in (0, 3, 40)] == [1, 1, 0]
    assert [data.size(1, t) for t in (0, 3, 40)] == [0, 1, 1]
    assert len(data.shard(0, 40).train) == 0 and data.arrived(0, 40) == []
    assert data.drifted(3).tolist() == [1] and data.drifted(40).tolist() == [0, 1]
    assert data.label_counts(np.array([0]), 40).tolist() == [[0] * 10]
    empty = StreamDigits(num_clients=2, arrivals=Given(()))
    assert empty.sizes(5).tolist() == [0, 0] and len(empty.events) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"num_clients": 0}, "data.num_clients"),
        ({"window": 0}, "data.window"),
        ({"test_share": 0.6}, "data.test_share"),
        ({"shared": "all"}, "data.shared"),
        ({"proxy_per_class": 100}, "data.proxy_per_class"),
        ({"arrivals": Given(((0, 0, -21),))}, "data.window"),
        ({"arrivals": Given(((0, 20, 0),))}, "client 20"),
        ({"arrivals": Given(((-1, 0, 0),))}, "sample -1"),
        ({"arrivals": LabelBuckets(labels_per_client=(5, 11))}, "labels_per_client"),
        ({"arrivals": LabelBuckets(samples=(2000, 3000))}, "samples"),
        ({"arrivals": LabelBuckets(samples=(100, 100), reuse=False)}, "reuse"),
        ({"arrivals": FrameIntervals(samples=(900, 900))}, "samples"),
        ({"arrivals": FrameIntervals(samples=(900, 900), reuse=False)}, "reuse"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(arguments, named):
    with pytest.raises(UserError, match=named):
        StreamDigits(**arguments).setup()


def test_turning_needs_square_images():
    shape = {"num_classes": 10, "input_shape": (1, 4, 8), "mean": (0.0,), "std": (1.0,)}
    with pytest.raises(UserError, match="square"):
        StreamImages(dataset="flcluster.datamodules.sources.digits.Digits", shift=RotationDrift(), **shape).setup()


def test_unknown_clients_are_an_index_error():
    for call in (StreamDigits().size, StreamDigits().shard, StreamDigits().arrived):
        with pytest.raises(IndexError):
            call(20, 0)
