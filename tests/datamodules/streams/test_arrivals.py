"""The plans: which labels, how many, when; and how places become samples."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.datamodules import FrameIntervals, LabelBuckets, StreamSetting, Timestamps
from flcluster.datamodules.sources.counts import systematic
from flcluster.datamodules.streams.filling import Places, fill, places_of
from flcluster.datamodules.streams.label_buckets import shuffle_some
from flcluster.datamodules.streams.timeline import Timeline, split_along_time
from flcluster.errors import UserError


def setting(num_clients=20, num_classes=10, size=5000, seed=0, window=100, test_share=0.2):
    labels = np.random.default_rng(1).permutation(np.arange(size) % num_classes)
    return StreamSetting(labels, num_classes, num_clients, window, test_share, seed)


def label_buckets_of(found, told, client):
    """Return the labels that arrive at each round for a client."""
    mine = found.client == client
    pairs = set(zip(found.arrival[mine].tolist(), told.labels[found.sample[mine]].tolist(), strict=True))
    return {r: {label for at, label in pairs if at == r} for r in sorted({at for at, _ in pairs})}


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 10),
    st.integers(1, 12),
    st.integers(1, 60),
    st.sampled_from([None, 0.3, 3.0]),
    st.booleans(),
)
def test_label_buckets_are_partitions_of_a_clients_labels(few, many, buckets, gap, concentration, reuse):
    few, many = min(few, many), max(few, many)
    plan = LabelBuckets((30, 50), (few, many), buckets, gap, concentration, reuse=reuse)
    told = setting()
    found = plan.draw(told)
    sizes = np.bincount(found.client, minlength=20)
    assert 30 <= sizes.min() <= sizes.max() <= 50
    for client in range(20):
        by_round = label_buckets_of(found, told, client)
        held = sum(len(labels) for labels in by_round.values())
        assert few <= held <= many and len(set().union(*by_round.values())) == held  # each label in one bucket
        assert list(by_round) == [j * gap - 100 for j in range(min(buckets, held))]
        lengths = [len(labels) for labels in by_round.values()]
        assert max(lengths) - min(lengths) <= 1
    pairs = set(zip(found.client.tolist(), found.sample.tolist(), strict=True))
    assert len(pairs) == len(found.sample)  # no sample twice for a client
    if not reuse:
        assert len(set(found.sample.tolist())) == len(found.sample)


def orders(plan, told):
    found = plan.draw(told)
    return [label_buckets_of(found, told, client) for client in range(told.num_clients)]


def test_groups_share_their_buckets_up_to_noise():
    told = setting(num_clients=60)
    alone = orders(LabelBuckets(), told)
    assert sum(alone[c] == alone[c % 3] for c in range(3, 60)) == 0
    grouped = orders(LabelBuckets(groups=3, group_noise=0.0), told)
    assert all(grouped[c] == grouped[c % 3] for c in range(60)) and grouped[0] != grouped[1]
    quiet = orders(LabelBuckets(groups=3, group_noise=0.0), told)
    noisy = orders(LabelBuckets(groups=3, group_noise=0.4), told)
    away = np.mean([noisy[c][r] != quiet[c][r] for c in range(60) for r in quiet[c]])
    assert 0.2 < away < 0.4  # of 4 shuffled places about one stays


def test_groups_draw_the_same_labels_where_there_are_many():
    told = setting(num_clients=40, num_classes=50)
    held = [set().union(*order.values()) for order in orders(LabelBuckets(groups=2, group_noise=0.0), told)]
    assert all(held[c] == held[c % 2] for c in range(40)) and held[0] != held[1]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 5))
def test_shuffling_some_keeps_rows_and_most_places(width, share, seed):
    rows = np.stack([np.random.default_rng(i).permutation(width) for i in range(30)])
    out = shuffle_some(rows, share, np.random.default_rng(seed))
    assert (np.sort(out, axis=1) == np.arange(width)).all()
    if share == 0:
        assert (out == rows).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 50), st.integers(1, 6), st.integers(0, 100))
def test_systematic_rounding(total, labels, seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(labels), 8)
    counts = systematic(shares, np.full(8, total), rng.random(8))
    assert (counts.sum(axis=1) == total).all() and (np.abs(counts - total * shares) < 1 + 1e-9).all()
    assert (counts >= 0).all()


def test_systematic_rounding_is_fair():
    shares = np.tile([[0.07, 0.33, 0.6]], (20000, 1))
    mean = systematic(shares, np.full(20000, 3), np.random.default_rng(0).random(20000)).mean(axis=0)
    np.testing.assert_allclose(mean, [0.21, 0.99, 1.8], atol=0.01)


def test_places_list_each_count():
    places = places_of(np.array([4, 7]), np.array([-3, 9]), np.array([[2, 0, 1], [0, 1, 0]]))
    assert [column.tolist() for column in places] == [[4, 4, 4, 7], [0, 0, 2, 1], [-3, -3, -3, 9]]


@pytest.mark.parametrize("reuse", [True, False])
def test_filling_gives_every_place_its_label(reuse):
    rng = np.random.default_rng(0)
    client = np.sort(rng.integers(0, 30, 2000))
    places = Places(client, rng.integers(0, 10, 2000), np.zeros(2000, dtype=np.int64))
    told = setting(num_clients=30)
    found = fill(places, told, reuse)
    assert (told.labels[found.sample] == places.label).all() and found.test.mean() == pytest.approx(0.2, abs=0.01)
    assert not set(found.sample[found.test].tolist()) & set(found.sample[~found.test].tolist())


def test_reused_samples_are_all_used_alike():
    told = setting(num_clients=3000, num_classes=2, size=200)
    places = Places(np.repeat(np.arange(3000), 10), np.zeros(30000, dtype=np.int64), np.zeros(30000, dtype=np.int64))
    found = fill(places, told, reuse=True)
    uses = np.bincount(found.sample[~found.test])
    uses = uses[uses > 0]
    assert len(uses) == 80 and (abs(uses - 300) < 5 * 300**0.5).all()  # 24,000 training places, 80 samples of label 0


def test_splitting_takes_every_fifth_from_a_random_place():
    client = np.repeat(np.arange(400), 20)
    test = split_along_time(client, 0.2, 400, np.random.default_rng(0)).reshape(400, 20)
    assert (np.diff(np.nonzero(test)[1].reshape(400, 4), axis=1) == 5).all()
    assert (np.bincount(np.argmax(test, axis=1), minlength=5) > 50).all()  # all five phases


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 9)), max_size=40), st.integers(-9, 12), st.integers(-9, 12)
)
def test_spans_of_a_timeline(rows, after, upto):
    rows = sorted(rows)
    client, arrival = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    line = Timeline.of(np.arange(len(rows)), client, arrival)
    starts, ends = line.spans(np.arange(5), after, upto)
    for c in range(5):
        expected = [i for i, (k, a) in enumerate(rows) if k == c and after < a <= upto]
        assert list(range(starts[c], ends[c])) == expected
        assert line.arrival_of(c, after, upto).tolist() == [rows[i][1] for i in expected]


def test_frames_come_in_equal_intervals():
    told = setting()
    found = FrameIntervals(samples=(95, 105), gap=20).draw(told)
    for client in range(20):
        rounds, counts = np.unique(found.arrival[found.client == client], return_counts=True)
        assert rounds.tolist() == [20 * j - 100 for j in range(10)] and set(counts) <= {9, 10, 11}


def test_a_mixture_that_does_not_wander_stays():
    told = setting(test_share=0.0)
    for wander, alike in ((0.0, True), (1.0, False)):
        found = FrameIntervals(samples=(100, 100), wander=wander).draw(told)
        counts = np.zeros((20, 10, 10), dtype=int)
        np.add.at(counts, (found.client, (found.arrival + 100) // 30, told.labels[found.sample]), 1)
        assert (counts == counts[:, :1]).all() == alike


def test_days_have_bursts_and_a_widespread_jump():
    told = setting(num_clients=100)
    found = Timestamps(days=200, jump_days=(90, 110), jump_share=1.0, wander=0.0, scatter=0.0).draw(told)
    assert found.arrival.min() >= -100 and found.arrival.max() <= 298 and (found.arrival % 2 == 0).all()
    per_day = np.zeros((100, 200))
    np.add.at(per_day, (found.client, (found.arrival + 100) // 2), 1)
    assert (per_day == 0).mean() > 0.8 and per_day.max() > 50
    day, shares = (found.arrival + 100) // 2, []
    for first, last in ((0, 45), (45, 90), (111, 155), (155, 200)):
        counts = np.zeros((100, 10))
        chosen = (day >= first) & (day < last)
        np.add.at(counts, (found.client[chosen], told.labels[found.sample[chosen]]), 1)
        shares.append(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    moved = [np.abs(a - b).sum(axis=1).mean() for a, b in pairwise(shares)]
    assert moved[1] > 2 * max(moved[0], moved[2])


def test_chunks_of_clients_fit_in_memory(monkeypatch):
    monkeypatch.setattr("flcluster.datamodules.streams.wandering.CHUNK", 500)
    found = FrameIntervals(samples=(30, 30)).draw(setting(num_clients=33))
    assert np.bincount(found.client).tolist() == [30] * 33 and (np.diff(found.client) >= 0).all()


@pytest.mark.parametrize(
    ("plan", "arguments", "named"),
    [
        (LabelBuckets, {"samples": (20, 10)}, "samples"),
        (LabelBuckets, {"samples": (5, 10)}, "samples"),
        (LabelBuckets, {"labels_per_client": (0, 3)}, "labels_per_client"),
        (LabelBuckets, {"buckets": 0}, "buckets"),
        (LabelBuckets, {"gap": 0}, "gap"),
        (LabelBuckets, {"concentration": 0.0}, "concentration"),
        (LabelBuckets, {"groups": 0}, "groups"),
        (LabelBuckets, {"group_noise": 2.0}, "group_noise"),
        (FrameIntervals, {"intervals": 0}, "intervals"),
        (FrameIntervals, {"samples": (0, 3)}, "samples"),
        (FrameIntervals, {"wander": -1.0}, "wander"),
        (Timestamps, {"days": 0}, "days"),
        (Timestamps, {"jump_days": (5, 2)}, "jump_days"),
        (Timestamps, {"jump_share": 1.5}, "jump_share"),
    ],
)
def test_impossible_plans_are_refused_by_their_key(plan, arguments, named):
    with pytest.raises(UserError, match=f"data.arrivals.*{named}"):
        plan(**arguments)
