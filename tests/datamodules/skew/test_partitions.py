"""Partitions and the counting under them, against what their definitions promise."""

from collections import Counter
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.datamodules import (
    IID,
    APFLTable1,
    Dirichlet,
    NaturalIds,
    Partition,
    Pathological,
    PathologicalDropout,
    QuantitySkew,
    Samples,
    Shards,
)
from flcluster.datamodules.skew.dealing import count_table, deal, fill_quotas, log_dirichlet, parts_of, share_like
from flcluster.datamodules.skew.pathological import dealt_classes
from flcluster.errors import UserError

EVERYTHING = [
    IID(),
    Dirichlet(alpha=0.3),
    Dirichlet(alpha=0.05, balanced=True),
    QuantitySkew(alpha=0.5),
    Shards(per_client=3),
    Pathological(classes_per_client=3),
    APFLTable1(),
    PathologicalDropout(),
]


def rng(seed=0):
    return np.random.default_rng(seed)


def samples(per_class=100, classes=10, seed=0):
    labels = rng(seed).permutation(np.repeat(np.arange(classes), per_class))
    return Samples(labels, classes)


def table(partition, data, clients=10, seed=0):
    owner = partition.owners(data, clients, rng(seed))
    return count_table(owner, data.labels, clients, data.num_classes)


@pytest.mark.parametrize("partition", EVERYTHING, ids=lambda p: type(p).__name__)
def test_every_sample_goes_to_exactly_one_client_and_everyone_has_some(partition):
    data = samples()
    owner = partition.owners(data, 10, rng())
    parts = parts_of(owner, 10)
    assert Counter(np.concatenate(parts).tolist()) == Counter(range(1000))
    assert all(len(part) and (np.diff(part) > 0).all() for part in parts)
    for client, part in enumerate(parts):
        assert (owner[part] == client).all()


@pytest.mark.parametrize("partition", EVERYTHING, ids=lambda p: type(p).__name__)
def test_the_generator_decides_alone(partition):
    first, again, other = (partition.owners(samples(), 10, rng(seed)) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()


def test_which_samples_a_client_gets_is_random():
    """Client 0 has half of class 0; over seeds every sample of the class is its own about half of the time."""
    data = Samples(np.zeros(40, dtype=np.int64), 1)
    owns = np.mean([Dirichlet(balanced=True).owners(data, 2, rng(seed)) == 0 for seed in range(400)], axis=0)
    assert 0.35 < owns.min() < owns.max() < 0.65


# Dirichlet -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_plain_dirichlet_divides_each_class_by_the_distribution(alpha):
    """Shares of a class have the mean 1/K and the variance (1/K)(1 - 1/K) / (K alpha + 1) of Dir(alpha)."""
    clients, classes = 5, 2000
    data = samples(per_class=200, classes=classes)
    shares = table(Dirichlet(alpha=alpha), data, clients).T / 200
    variance = 0.2 * 0.8 / (clients * alpha + 1)
    error = np.sqrt(variance / classes)  # of a mean over independent classes
    np.testing.assert_allclose(shares.mean(axis=0), 0.2, atol=5 * error)
    assert shares.var() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_balanced_dirichlet_gives_clients_the_distribution_while_classes_last(alpha):
    """With stock enough for all wishes, class shares of clients are Dir(alpha), but for drawing 500 of them."""
    clients, classes, each = 3000, 4, 500
    wishes = log_dirichlet(alpha, (clients, classes), rng())
    counts = fill_quotas(wishes, np.full(clients, each), np.full(classes, clients * each), rng(1))
    shares = counts / each
    variance = 0.25 * 0.75 / (classes * alpha + 1)
    np.testing.assert_allclose(shares.mean(axis=0), 0.25, atol=5 * np.sqrt(variance / clients))
    drawn = variance + (0.25 * 0.75 - variance) / each  # a multinomial draw adds its own
    assert shares.var() == pytest.approx(drawn, rel=0.1)


def test_log_dirichlet_keeps_the_order_of_shares_that_underflow():
    logs = log_dirichlet(0.001, (50, 10), rng())
    assert np.isfinite(logs).all() and all(len(set(row)) == 10 for row in logs.tolist())
    assert (np.exp(logs - logs.max(axis=1, keepdims=True)) == 0).any()


@pytest.mark.parametrize("alpha", [0.001, 0.1, 1.0, 1000.0])
def test_balanced_clients_have_equal_sizes(alpha):
    data = samples(per_class=101)
    sizes = table(Dirichlet(alpha=alpha, balanced=True), data, 7).sum(axis=1)
    assert sizes.min() == 1010 // 7 and sizes.max() == 1010 // 7 + 1


def test_smaller_alpha_means_fewer_classes():
    def held(alpha, balanced):
        shares = table(Dirichlet(alpha=alpha, balanced=balanced), samples(per_class=500), 10) / 500
        return (np.sort(shares, axis=1)[:, ::-1].cumsum(axis=1) < 0.9 * shares.sum(axis=1)[:, None]).sum(1).mean() + 1

    for balanced in (False, True):
        strong, medium, weak = (held(alpha, balanced) for alpha in (0.05, 0.5, 50))
        assert strong < 4 and strong < medium < weak and weak > 8


def test_dirichlet_is_drawn_again_until_everyone_has_enough():
    data = samples()
    few = [table(Dirichlet(alpha=0.3), data, seed=seed).sum(axis=1).min() for seed in range(20)]
    enough = [table(Dirichlet(alpha=0.3, min_samples=40), data, seed=seed).sum(axis=1).min() for seed in range(20)]
    assert min(few) < 40 <= min(enough)


# The others ----------------------------------------------------------------------------------------------------------


def test_quantity_skew_changes_sizes_but_not_labels():
    data = samples(per_class=1000)
    counts = table(QuantitySkew(alpha=0.5), data)
    sizes = counts.sum(axis=1)
    assert sizes.max() > 3 * sizes.min()
    large = counts[sizes > 500] / sizes[sizes > 500][:, None]
    assert len(large) >= 3
    np.testing.assert_allclose(large, 0.1, atol=5 * np.sqrt(0.09 / 500))


def test_sizes_follow_the_distribution():
    data = samples(per_class=100)
    shares = np.stack([table(QuantitySkew(alpha=2.0), data, 4, seed).sum(axis=1) for seed in range(800)]) / 1000
    assert shares.var() == pytest.approx(0.25 * 0.75 / 9, rel=0.15)
    np.testing.assert_allclose(shares.mean(axis=0), 0.25, atol=0.03)


def test_iid_clients_are_alike():
    counts = table(IID(), samples(per_class=1001))
    assert set(counts.sum(axis=1)) == {1001}
    np.testing.assert_allclose(counts / 1001, 0.1, atol=0.05)


def test_shards_are_consecutive_in_the_order_of_labels():
    """20 clients with two shards of 25: sorted by label, four shards make a class, so no shard has two of them."""
    data = samples()
    owner = Shards(per_client=2).owners(data, 20, rng())
    counts = count_table(owner, data.labels, 20, 10)
    assert set(counts.sum(axis=1)) == {50} and set(counts[counts > 0]) <= {25, 50}
    assert {len(np.flatnonzero(row)) for row in counts} <= {1, 2}


def test_shards_differ_by_at_most_one():
    sizes = table(Shards(per_client=3), samples(per_class=37), 7).sum(axis=1)
    assert sizes.sum() == 370 and sizes.min() >= 3 * 17 and sizes.max() <= 3 * 18


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 99))
def test_classes_are_dealt_evenly_and_never_twice(clients, classes, each, seed):
    if each > classes:
        return
    dealt = dealt_classes(clients, classes, each, rng(seed))
    assert all(len(set(row)) == each for row in dealt.tolist())
    held = np.bincount(dealt.reshape(-1), minlength=classes)
    assert held.max() - held.min() <= 1


def test_pathological_clients_hold_so_many_classes_and_share_them_equally():
    counts = table(Pathological(classes_per_client=3), samples(per_class=100), 7)
    assert set((counts > 0).sum(axis=1)) == {3}
    for column in counts.T:
        held = column[column > 0]
        assert 2 <= len(held) <= 3 and held.max() - held.min() <= 1 and held.sum() == 100


def test_a_table_says_who_holds_what():
    counts = table(Pathological(table=((0,), (0, 1), (1, 2))), samples(classes=3, per_class=10), 3)
    assert counts.tolist() == [[5, 0, 0], [5, 5, 0], [0, 5, 10]]


# AP-FL's table -------------------------------------------------------------------------------------------------------

PRINTED = ((0, 1), (2, 3), (6, 7), (4, 5), (2, 4), (2, 3), (6, 7), (4, 5), (8, 9), (0, 1))
"""As it stands in the paper."""


def test_the_printed_partition_exactly():
    assert APFLTable1().table(10) == PRINTED and APFLTable1().dropouts == (8,)
    counts = table(APFLTable1(), samples(per_class=60))
    assert [tuple(np.flatnonzero(row)) for row in counts] == list(PRINTED)
    holders = Counter(label for row in PRINTED for label in row)
    assert all(counts[client, label] == 60 / holders[label] for client, row in enumerate(PRINTED) for label in row)


ONE_MISSING = (*PRINTED[:4], (4, 8), *PRINTED[5:])
"""10 %: client 4 gives up class 2, which clients 1 and 5 hold too, for class 8; client 8 is alone with class 9."""


def test_a_tenth_of_the_classes_missing_by_hand():
    """60 of each class. Class 2 then has two holders, class 4 still three, class 8 two, class 9 one."""
    assert APFLTable1(missing=10).table(10) == ONE_MISSING and APFLTable1(missing=10).dropouts == (8,)
    counts = table(APFLTable1(missing=10), samples(per_class=60))
    held = [{c: int(n) for c, n in enumerate(row) if n} for row in counts]
    assert held == [
        {0: 30, 1: 30},
        {2: 30, 3: 30},
        {6: 30, 7: 30},
        {4: 20, 5: 30},
        {4: 20, 8: 30},
        {2: 30, 3: 30},
        {6: 30, 7: 30},
        {4: 20, 5: 30},
        {8: 30, 9: 60},
        {0: 30, 1: 30},
    ]


def test_a_tenth_of_more_classes_missing_by_hand():
    """Edges of 26 classes in tenths: 0 3 5 8 10 13 16 18 21 23 26 (2.6 each, rounded)."""
    hundred, letters = APFLTable1(missing=10).table(100), APFLTable1(missing=10).table(26)
    assert hundred[4] == (*range(40, 50), *range(80, 90)) and hundred[8] == tuple(range(80, 100))
    assert letters[4] == (10, 11, 12, 21, 22) and letters[8] == (21, 22, 23, 24, 25)
    assert letters[1] == letters[5] == (5, 6, 7, 8, 9)


# AP-FL's dropout setting with more classes each ----------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([10, 20]), st.integers(2, 8), st.integers(6, 14), st.integers(0, 5), st.integers(0, 99))
def test_everyone_holds_kappa_classes_and_the_dropout_alone_some_of_its(missing, kappa, clients, dropout, seed):
    """Of ten classes, with 60 each: the last one or two are the dropout's alone, and whole."""
    data = samples(per_class=60)
    counts = table(PathologicalDropout(classes_per_client=kappa, missing=missing, dropout=dropout), data, clients, seed)
    alone = list(range(10 - missing // 10, 10))
    assert set((counts > 0).sum(axis=1)) == {kappa}
    assert (counts[dropout, alone] == 60).all()
    others = np.delete(counts, dropout, axis=0)
    assert (others.sum(axis=0) > 0).tolist() == [c not in alone for c in range(10)]  # who stays misses just these
    holders = (counts > 0).sum(axis=0)[: alone[0]]
    assert holders.max() - holders.min() <= 1
    for column in counts.T:
        assert column.sum() == 60 and np.ptp(column[column > 0]) <= 1


def test_tenths_of_more_classes_are_dealt_whole():
    counts = table(PathologicalDropout(), samples(per_class=20, classes=100), 10)
    tenths = (counts > 0).reshape(10, 10, 10)
    assert (tenths.all(axis=2) == tenths.any(axis=2)).all() and set((counts > 0).sum(axis=1)) == {50}
    assert (counts[8, 80:] == 20).all() and counts[:8, 80:].sum() == 0
    letters = table(PathologicalDropout(missing=10), samples(per_class=60, classes=26), 10)
    assert np.flatnonzero(np.delete(letters, 8, axis=0).sum(axis=0) == 0).tolist() == [23, 24, 25]


def test_who_holds_what_depends_on_the_draw():
    data = samples(per_class=60)
    first, again, other = (table(PathologicalDropout(), data, 10, seed) for seed in (0, 0, 1))
    assert (first == again).all() and ((first > 0) != (other > 0)).any()


def test_its_names_and_its_dropout():
    assert PathologicalDropout().title == "AP-FL dropout (κ = 5, 20 % missing)"
    assert PathologicalDropout(classes_per_client=3, missing=10).title == "AP-FL dropout (κ = 3, 10 % missing)"
    assert PathologicalDropout().dropouts == (8,) and PathologicalDropout(dropout=2).dropouts == (2,)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"missing": 30}, r"data\.partition\.missing is 30"),
        ({"classes_per_client": 1}, r"data\.partition\.classes_per_client is 1: it must be from 2 .* to 8"),
        ({"classes_per_client": 9}, r"data\.partition\.classes_per_client is 9"),
        ({"classes_per_client": 0, "missing": 10}, r"data\.partition\.classes_per_client is 0: .* from 1 .* to 9"),
    ],
)
def test_numbers_of_classes_that_cannot_be(wrong, named):
    with pytest.raises(UserError, match=named):
        PathologicalDropout(**wrong)


@pytest.mark.parametrize(("classes", "missing", "alone"), [(100, 20, 20), (100, 10, 10), (26, 20, 5), (26, 10, 3)])
def test_more_classes_keep_the_shape_of_the_table(classes, missing, alone):
    rows = APFLTable1(missing=missing).table(classes)
    others = {label for client, row in enumerate(rows) for label in row if client != 8}
    assert set(range(classes)) - others == set(range(classes - alone, classes))
    assert set().union(*rows) == set(range(classes))
    assert all(abs(len(row) - classes / 5) < 1 for row in rows)  # κ = C/5
    if classes == 100:
        assert rows[0] == tuple(range(20)) and rows[8] == tuple(range(80, 100))


# Natural owners ------------------------------------------------------------------------------------------------------


def test_natural_owners_keep_their_samples():
    ids = np.repeat([7, 2, 5, 9], [10, 4, 8, 1])
    data = Samples(rng().integers(0, 3, 23), 3, ids)
    owner = NaturalIds(path="x", min_samples=4).owners(data, 2, rng(3))
    chosen = {int(ids[owner == client][0]) for client in range(2)}
    assert len(chosen) == 2 and chosen < {7, 2, 5}
    for client in range(2):
        mine = ids[owner == client]
        assert len(set(mine)) == 1 and len(mine) == (ids == mine[0]).sum()
    assert (owner[~np.isin(ids, list(chosen))] == -1).all()


# What cannot be ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Dirichlet(alpha=0), "data.partition.alpha must be above 0 and finite, got 0"),
        (lambda: Dirichlet(alpha=-1.0), "data.partition.alpha must be above 0 and finite, got -1"),
        (lambda: Dirichlet(alpha=float("nan")), "data.partition.alpha must be above 0 and finite, got nan"),
        (lambda: QuantitySkew(alpha=0), "data.partition.alpha"),
        (lambda: Dirichlet(min_samples=0), "data.partition.min_samples must be at least 1, got 0"),
        (lambda: Shards(per_client=0), "data.partition.per_client must be at least 1, got 0"),
        (lambda: Pathological(classes_per_client=0), "data.partition.classes_per_client must be at least 1, got 0"),
        (lambda: NaturalIds(), "a path or an attribute"),
        (lambda: NaturalIds(path="a", attribute="b"), "a path or an attribute"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, named):
    with pytest.raises(UserError, match=named):
        make()


@pytest.mark.parametrize(
    ("partition", "clients", "named"),
    [
        (IID(), 1001, "data.num_clients is 1001, but there are 1000 training samples"),
        (Dirichlet(min_samples=101), 10, "at most 100 to each"),
        (Dirichlet(balanced=True, min_samples=101), 10, "at most 100 to each"),
        (QuantitySkew(min_samples=101), 10, "at most 100 to each"),
        (Dirichlet(alpha=0.001, min_samples=90), 10, "raise data.partition.alpha, lower data.partition.min_samples"),
        (QuantitySkew(alpha=0.001, min_samples=90), 10, "raise data.partition.alpha"),
        (Dirichlet(alpha=0.001), 900, "does each of 900 clients get at least 1 of 1000"),
        (Shards(per_client=101), 10, "at most 100 a client would work"),
        (Pathological(classes_per_client=2), 4, "at most 8 of 10 classes; 3 classes each or 5 clients would work"),
        (Pathological(classes_per_client=11), 4, "there are 10 classes to deal"),
        (Pathological(classes_per_client=10), 101, "gives class 0 to 101 clients, but it has 100"),
        (Pathological(table=((0, 1),) * 3), 3, "gives class 2 to 0 clients"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Partition) else "",
)
def test_splits_that_cannot_be_made_are_refused_at_once(partition, clients, named):
    begun = perf_counter()
    with pytest.raises(UserError, match=named):
        partition.owners(samples(), clients, rng())
    assert perf_counter() - begun < 5


@pytest.mark.parametrize(
    ("partition", "clients", "classes", "named"),
    [
        (Pathological(classes_per_client=2), 4, 10, "at most 8 of 10 classes"),
        (
            Pathological(table=((0, 1), (1, 2))),
            3,
            3,
            "data.num_clients is 3, but data.partition lists the classes of 2",
        ),
        (Pathological(table=((0, 1), (1, 3))), 2, 3, "different ones from 0 to 2"),
        (Pathological(table=((0, 1), (2, 2))), 2, 3, "gives client 1 the classes"),
        (Pathological(table=((0, 1), ())), 2, 2, "gives client 1 the classes"),
        (Pathological(table=((0, 1), (1,))), 2, 3, r"gives the classes \[2\] to nobody"),
        (APFLTable1(), 5, 10, "data.num_clients is 5"),
        (APFLTable1(), 10, 9, "ten classes or more, not 9"),
        (PathologicalDropout(), 10, 9, "ten classes or more, not 9"),
        (PathologicalDropout(), 8, 10, "data.partition.dropout is 8: it must be from 0 to 7"),
        (PathologicalDropout(classes_per_client=2, dropout=0), 4, 10, "at most 6 of the 8 tenths .* 5 clients would"),
    ],
)
def test_some_need_no_data_to_be_refused(partition, clients, classes, named):
    with pytest.raises(UserError, match=named):
        partition.check(clients, classes)


def test_too_few_natural_owners_are_counted():
    data = Samples(np.zeros(10, dtype=np.int64), 1, np.arange(10) % 3)
    with pytest.raises(UserError, match="only 1 natural owners have at least 4"):
        NaturalIds(path="x", min_samples=4).owners(data, 2, rng())


def test_a_partition_of_ones_own_that_forgets_a_client_is_refused():
    class First(Partition):
        def draw(self, samples, num_clients, rng):
            return np.zeros(len(samples.labels), dtype=np.int64)

    with pytest.raises(UserError, match="leaves client 1 of 3 without"):
        First().owners(samples(), 3, rng())


# Counting ------------------------------------------------------------------------------------------------------------

tables = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 999))


@settings(max_examples=80, deadline=None)
@given(tables)
def test_dealing_gives_exactly_the_counts(shape):
    clients, classes, seed = shape
    counts = rng(seed).integers(0, 5, (clients, classes))
    labels = rng(seed).permutation(np.repeat(np.arange(classes), counts.sum(axis=0)))
    owner = deal(labels, counts, rng(seed))
    assert (count_table(owner, labels, clients, classes) == counts).all()
    assert [len(part) for part in parts_of(owner, clients)] == counts.sum(axis=1).tolist()


@settings(max_examples=80, deadline=None)
@given(tables, st.floats(0, 1))
def test_quotas_are_filled_whatever_the_wishes(shape, share):
    clients, classes, seed = shape
    stock = rng(seed).integers(0, 20, classes)
    quota = rng(seed).multinomial(int(share * stock.sum()), np.ones(clients) / clients)
    counts = fill_quotas(log_dirichlet(0.01, (clients, classes), rng(seed)), quota, stock, rng(seed))
    assert (counts.sum(axis=1) == quota).all() and (counts.sum(axis=0) <= stock).all() and counts.min() >= 0


def test_who_asks_for_a_scarce_class_is_served_alike():
    """Two clients want class 0 only; there is half of what they want, and the rest comes from class 1."""
    wishes = np.log([[1.0, 1e-30], [1.0, 1e-30]])
    counts = [fill_quotas(wishes, np.array([100, 100]), np.array([100, 100]), rng(seed)) for seed in range(200)]
    assert all(c.sum(axis=0).tolist() == [100, 100] for c in counts)
    assert np.mean([c[0, 0] for c in counts]) == pytest.approx(50, abs=2)  # hypergeometric, σ = 3.5 a draw


@settings(max_examples=80, deadline=None)
@given(tables)
def test_tests_are_shared_like_training_samples(shape):
    clients, classes, seed = shape
    counts = rng(seed).integers(0, 9, (clients, classes)) * rng(seed + 1).integers(0, 2, (clients, classes))
    totals = rng(seed).integers(0, 30, classes)
    shared = share_like(counts, totals, rng(seed))
    held = counts.sum(axis=0)
    exact = totals * counts / np.maximum(held, 1)
    assert (shared.sum(axis=0) == np.where(held, totals, 0)).all()
    assert (shared >= np.floor(exact + 1e-9)).all() and (shared <= np.ceil(exact - 1e-9)).all()
    assert (np.abs((shared - exact).sum(axis=1)) < 2).all()


def test_rounding_leaves_no_small_client_without_tests():
    """100 equal clients, 10 classes, 12 tests a class: rounding each class on its own would leave many with none."""
    shared = share_like(np.full((100, 10), 16), np.full(10, 12), rng())
    assert shared.sum() == 120 and set(shared.sum(axis=1)) == {1, 2}


def test_the_printed_table_misses_10_or_20():
    with pytest.raises(UserError, match=r"data\.partition\.missing is 15"):
        APFLTable1(missing=15)
