"""Moving clients and warm starts, against loops over clients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from selections import ids

from flcluster.algorithms.drift.reassign import compact, move, warm_start
from flcluster.clustering.distances import L1, L2, JensenShannon

EXAMPLES = settings(deadline=None, max_examples=60, database=None)


def ints(*values):
    return torch.tensor(values, dtype=torch.int64)


def column(*values):
    return torch.tensor(values, dtype=torch.float32)[:, None]


@st.composite
def scenes(draw):
    """Histograms of some clients (some unknown), K centres, and who moves; every unknown client's report is NaN."""
    n, K, D = draw(st.integers(2, 9)), draw(st.integers(1, 4)), draw(st.integers(2, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    reports = torch.tensor(random.dirichlet(np.full(D, 0.4), n), dtype=torch.float32)
    centres = torch.tensor(random.dirichlet(np.ones(D), K), dtype=torch.float32)
    labels = torch.tensor(random.integers(-1, K, n))
    movers = np.flatnonzero(random.random(n) < 0.5)
    reports[(labels < 0) & ~torch.tensor(np.isin(np.arange(n), movers))] = torch.nan
    return labels, centres, reports, movers, random


def plain_distance(distance, x, y):
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if isinstance(distance, L1):
        return np.abs(x - y).sum()
    if isinstance(distance, L2):
        return np.sqrt(((x - y) ** 2).sum())
    middle = (x + y) / 2
    halves = [sum(a * np.log2(a / m) for a, m in zip(p, middle, strict=True) if a > 0) for p in (x, y)]
    return np.sqrt(max(sum(halves) / 2, 0.0))


@EXAMPLES
@given(scenes(), st.sampled_from([L1(), L2(), JensenShannon()]))
def test_movers_go_to_the_nearest_frozen_centre_and_centres_follow(scene, distance):
    labels, centres, reports, movers, _ = scene
    kept = labels.clone(), centres.clone(), reports.clone()
    new, after = move(labels, centres, reports, movers, distance)
    for i in range(len(labels)):
        if i not in movers:
            assert new[i] == labels[i]
            continue
        apart = [plain_distance(distance, reports[i], centre) for centre in centres]
        assert apart[int(new[i])] == pytest.approx(min(apart), abs=1e-5)
    for k in range(len(centres)):
        members = reports[new == k]
        expected = members.double().mean(0) if len(members) else centres[k].double()  # an empty one stays
        torch.testing.assert_close(after[k].double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(labels, kept[0])
    assert torch.equal(centres, kept[1])
    assert torch.equal(reports.nan_to_num(-1), kept[2].nan_to_num(-1))


@EXAMPLES
@given(scenes())
def test_the_order_of_the_movers_does_not_matter(scene):
    labels, centres, reports, movers, random = scene
    one = move(labels, centres, reports, movers, L1())
    other = move(labels, centres, reports, random.permutation(movers), L1())
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


def test_centres_do_not_move_while_clients_do():
    """Client 0 goes from 0 to .9, to the cluster at 1. Were that centre then .95, client 1 at .49 would follow it."""
    labels, centres = move(ints(0, 0, 1), column(0.0, 1.0), column(0.9, 0.49, 1.0), ids(0, 1), L1())
    assert labels.tolist() == [1, 0, 1]
    torch.testing.assert_close(centres, column(0.49, 0.95))


def test_a_centre_follows_a_member_that_stays():
    """A report that changed without a move changes the mean as well."""
    labels, centres = move(ints(0, 0, 1), column(0.0, 1.0), column(0.2, 0.0, 1.0), ids(0), L1())
    assert labels.tolist() == [0, 0, 1]
    torch.testing.assert_close(centres, column(0.1, 1.0))


def test_an_unknown_client_joins_the_nearest_and_others_stay_unknown():
    reports = column(0.0, 1.0, 0.7, torch.nan)
    labels, centres = move(ints(0, 1, -1, -1), column(0.0, 1.0), reports, ids(2), L1())
    assert labels.tolist() == [0, 1, 1, -1]
    torch.testing.assert_close(centres, column(0.0, 0.85))


def test_a_cluster_may_lose_all_its_clients():
    labels, centres = move(ints(0, 1), column(0.0, 1.0), column(0.9, 1.0), ids(0), L1())
    assert labels.tolist() == [1, 1]
    torch.testing.assert_close(centres, column(0.0, 0.95))


# ---------------------------------------------------------------------------------------------------------- warm start


@EXAMPLES
@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32))
def test_a_new_model_is_the_mean_of_what_its_clients_used(extra, old_count, new_count, seed):
    """Client by client, each counting alike."""
    draw = torch.Generator().manual_seed(seed)
    n = new_count + extra
    models = torch.randn(old_count, 6, generator=draw)
    old = torch.randint(old_count, (n,), generator=draw)
    new = torch.cat([torch.arange(new_count), torch.randint(new_count, (extra,), generator=draw)])
    found = warm_start(models, old, new, new_count)
    assert found.shape == (new_count, 6)
    for k in range(new_count):
        used = [models[int(old[i])].double() for i in range(n) if int(new[i]) == k]
        torch.testing.assert_close(found[k].double(), sum(used) / len(used), rtol=1e-5, atol=1e-6)


def test_the_same_clusters_keep_their_models():
    models = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.equal(warm_start(models, ints(0, 0, 1), ints(1, 1, 0), 2), models[[1, 0]])


# ------------------------------------------------------------------------------------------------------------- compact


@EXAMPLES
@given(st.lists(st.integers(-1, 5), min_size=1, max_size=12).filter(lambda labels: max(labels) >= 0))
def test_compact_keeps_the_order_of_the_clusters_in_use(values):
    labels = torch.tensor(values)
    new, kept = compact(labels, 6)
    assert kept.tolist() == sorted({v for v in values if v >= 0})
    assert [kept[i].item() if i >= 0 else -1 for i in new.tolist()] == values
    assert labels.tolist() == values
