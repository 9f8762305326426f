"""FedSPD's rounds: samples divided by loss, one drawn cluster a round, averages of those who drew the same."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from fedspd_people import COMMON, division, people, samples
from gossip import CLASSES, CLOSE, PIXELS, WIDTH, graph, rows_of, scatter
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms import FedSPD
from flcluster.algorithms.gossip.fedspd import borrowed
from flcluster.cli import main
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.topology.families import Complete

EXAMPLES = settings(deadline=None, max_examples=100, database=None)

# --------------------------------------------------------------------------------------------------------- first round


@pytest.mark.parametrize("k", [2, 3])
def test_the_first_round_trains_all_models_on_a_division(k, script, federate, spied, tmp_path):
    """Every sample trains one model (a model without any borrows one); each is averaged over all neighbours."""
    fed = federate(people(script))
    topology, adjacency = graph(tmp_path, 8, 0.4, 1)
    algorithm = FedSPD(**COMMON, num_clusters=k, topology=topology)
    state = algorithm.init(fed)
    assert state.labels.tolist() == [-1] * 8
    before, log = rows_of(algorithm, fed), spied(fed)
    state, done = algorithm.step(state, 0, fed)
    assert sorted(job.client for job, _ in log) == sorted(list(range(8)) * k)
    trained, sizes = np.full_like(before, np.nan), set()
    for i in range(8):
        mine = [(job, row) for job, row in log if job.client == i]
        used, held = sum((samples(job.view) for job, _ in mine), Counter()), samples(fed.data.shard(i, 0).train)
        assert not held - used
        assert (used - held).total() <= sum(len(job.view) == 1 for job, _ in mine)
        sizes.add(tuple(len(job.view) for job, _ in mine))
        for job, row in mine:
            (s,) = (s for s in range(k) if np.array_equal(job.start.double().numpy(), before[i * k + s]))
            trained[i * k + s] = row.double().numpy()
    assert len(sizes) > 1  # by chance, not by a rule
    cubes, closed = trained.reshape(8, k, -1), adjacency | np.eye(8, dtype=bool)
    expected = np.stack([cubes[closed[i]].mean(0) for i in range(8)]).reshape(8 * k, -1)
    np.testing.assert_allclose(rows_of(algorithm, fed), expected, **CLOSE)
    assert state.messages == k * adjacency.sum() == sum(done.uploads) == sum(done.downloads)


def test_global_and_local_beginnings(script, federate):
    fed = federate(people(script))
    algorithm = FedSPD(**COMMON, num_clusters=3)
    algorithm.init(fed)
    rows = rows_of(algorithm, fed).reshape(8, 3, -1)
    assert (rows == rows[:1]).all()
    assert len(np.unique(rows[0], axis=0)) == 3
    own = FedSPD(**COMMON, num_clusters=3, initialisation="local")
    found = []
    for _ in range(2):
        fed = federate(people(script))
        own.init(fed)
        found.append(rows_of(own, fed))
    assert len(np.unique(found[0], axis=0)) == 24
    assert np.array_equal(*found)


# -------------------------------------------------------------------------------------------------------- later rounds


@pytest.mark.parametrize("k", [2, 3])
def test_a_round_trains_one_cluster_on_its_samples_and_averages_it(k, script, federate, spied, tmp_path):
    """Samples go to the model with the smallest loss; only neighbours that drew the same cluster are averaged."""
    fed = federate(people(script))
    topology, adjacency = graph(tmp_path, 8, 0.6, 1)
    algorithm = FedSPD(**COMMON, num_clusters=k, topology=topology, rounds=10)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log, drawn, alone = spied(fed), set(), 0
    for t in range(1, 5):
        before, sent = rows_of(algorithm, fed), state.messages
        log.clear()
        state, done = algorithm.step(state, t, fed)
        assert [job.client for job, _ in log] == list(range(8)) == [r.client for r in done.results]
        labels, half = list(done.cohort.labels), before.copy()
        assert state.labels.tolist() == labels
        for i, (job, row) in enumerate(log):
            s = labels[i]
            assert np.array_equal(job.start.double().numpy(), before[i * k + s])
            own = division(before, k, i, t, fed) == s
            assert own.any()
            assert samples(job.view) == samples(fed.data.shard(i, t).train.where(torch.from_numpy(own)))
            half[i * k + s] = row.double().numpy()
        expected = half.copy()
        for i, s in enumerate(labels):
            same = [i] + [m for m in range(8) if adjacency[i, m] and labels[m] == s]
            expected[i * k + s] = half[[m * k + s for m in same]].mean(0)
            alone += len(same) == 1
        np.testing.assert_allclose(rows_of(algorithm, fed), expected, **CLOSE)
        others = [i * k + s for i in range(8) for s in range(k) if s != labels[i]]
        assert np.array_equal(rows_of(algorithm, fed)[others], before[others])
        assert state.messages - sent == adjacency.sum()
        drawn.add(tuple(labels))
    assert len(drawn) > 1
    assert alone < 32


def test_what_is_sent_is_received(script, federate, tmp_path):
    """A model that goes over a link leaves one end and reaches the other, whatever is done with it there."""
    fed = federate(people(script))
    topology, adjacency = graph(tmp_path, 8, 0.6, 1)
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=topology, rounds=10)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    before = state.messages
    state, done = algorithm.step(state, 1, fed)
    assert list(done.uploads) == adjacency.sum(1).tolist()
    assert list(done.downloads) == adjacency.sum(1).tolist()
    assert sum(done.uploads) == state.messages - before


def test_who_does_not_take_part_keeps_its_models(script, federate, spied):
    fed = federate(people(script))
    topology = Complete(node_dropout=0.3, link_failure=0.3)
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=topology, participants=5, rounds=10)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log = spied(fed)
    for t in range(1, 5):
        before = rows_of(algorithm, fed)
        log.clear()
        state, done = algorithm.step(state, t, fed)
        clients = [job.client for job, _ in log]
        assert set(clients) <= set(np.flatnonzero(topology.online(8, t, fed.seed)).tolist())
        assert len(clients) <= 5
        links, half = topology.links(8, t, fed.seed).toarray(), before.copy()
        labels = dict(zip(clients, done.cohort.labels, strict=True))
        for job, row in log:
            half[job.client * 2 + labels[job.client]] = row.double().numpy()
        expected = half.copy()
        for i, s in labels.items():
            same = [i] + [m for m in clients if links[i, m] and labels[m] == s]
            expected[i * 2 + s] = half[[m * 2 + s for m in same]].mean(0)
        np.testing.assert_allclose(rows_of(algorithm, fed), expected, **CLOSE)


def says(label):
    """A model that always says the same class."""
    row = torch.zeros(WIDTH)
    row[PIXELS * CLASSES + label] = 5.0
    return row


def test_the_cluster_is_drawn_from_the_shares(script, federate):
    """Twelve samples fit the first model and four the second: about a quarter of many clients draw the second."""
    n = 100
    fed = federate(script({0: {m: [0] * 12 + [1] * 4 for m in range(n)}}))
    algorithm = FedSPD(**COMMON, num_clusters=3, topology=Complete(link_failure=1.0), rounds=10)
    state = algorithm.init(fed)
    for m in range(n):
        for s in range(3):
            algorithm.models(fed)[3 * m + s] = says(s)
    _, done = algorithm.step(state, 1, fed)
    counts = np.bincount(done.cohort.labels, minlength=3)
    assert counts[2] == 0  # nobody has a sample for it
    assert 12 <= counts[1] <= 38  # 25 ± 3·4.3; equal groups would have 33 of each, or 50


def test_a_small_cluster_borrows_for_its_training(script, federate, spied):
    """Two samples of the drawn cluster, five at least: all of its own and five of the largest's."""
    n = 30
    fed = federate(script({0: {m: [0] * 2 + [1] * 9 + [2] * 6 for m in range(n)}}))
    algorithm = FedSPD(**{**COMMON, "min_samples": 5}, num_clusters=3, topology=Complete(link_failure=1.0), rounds=10)
    state = algorithm.init(fed)
    for m in range(n):
        for s in range(3):
            algorithm.models(fed)[3 * m + s] = says(s)
    log = spied(fed)
    _, done = algorithm.step(state, 1, fed)
    assert set(done.cohort.labels) == {0, 1, 2}
    for (job, _), s in zip(log, done.cohort.labels, strict=True):
        labels = Counter(job.view.tensors()[1].tolist())
        assert labels == [{0: 2, 1: 5}, {1: 9}, {2: 6}][s]


@EXAMPLES
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
    st.integers(0, 3),
    st.integers(0, 15),
    st.integers(0, 2**32 - 1),
)
def test_borrowed(division, s, least, seed):
    """A cluster's own samples always; if they are too few, ``least`` of the largest's, or all of them."""
    division = np.array(division)
    before = division.copy()
    mask = borrowed(division, s, least, np.random.default_rng(seed))
    assert mask.dtype == bool
    assert mask.shape == division.shape
    assert np.array_equal(division, before)
    own, counts = division == s, np.bincount(division, minlength=4)
    assert mask[own].all()
    lent = mask & ~own
    if counts[s] >= least:
        assert not lent.any()
    elif counts[s] < counts.max():
        assert len(set(division[lent].tolist())) == 1
        assert counts[division[lent][0]] == counts.max()
        assert lent.sum() == min(least, counts.max())
    assert np.array_equal(mask, borrowed(division, s, least, np.random.default_rng(seed)))


def test_borrowed_samples_are_drawn():
    """Not always the same ones."""
    division = np.array([0] + [1] * 20)
    masks = {tuple(borrowed(division, 0, 4, np.random.default_rng(seed)).tolist()) for seed in range(20)}
    assert len(masks) > 10


def test_a_failed_training_spreads_no_further(script, federate, spied, broken):
    fed = federate(people(script))
    broken(fed, 3)
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=Complete(), rounds=10)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log = spied(fed)
    half = rows_of(algorithm, fed)
    state, done = algorithm.step(state, 1, fed)
    labels = list(done.cohort.labels)
    for job, row in log:
        if job.client != 3:
            half[job.client * 2 + labels[job.client]] = row.double().numpy()
    rows = rows_of(algorithm, fed)
    assert np.isfinite(rows).all()
    for i in range(8):
        same = [m for m in range(8) if m != 3 and labels[m] == labels[i]]
        if i != 3:
            np.testing.assert_allclose(
                rows[i * 2 + labels[i]], half[[m * 2 + labels[i] for m in same]].mean(0), **CLOSE
            )
    assert done.uploads[3] == 0
    assert state.messages == 7 * 7


# --------------------------------------------------------------------------------------------------- the least there is


@pytest.mark.parametrize("least", [0, 1, 10])
def test_clients_with_hardly_any_samples(least, script, federate):
    """One sample, none at all, or fewer than clusters: everything stays finite to the end."""
    fed = federate(script({0: {0: [1], 1: [0, 2], 2: [], 3: [0, 1, 2, 3] * 3, 4: [3]}}))
    common = {**COMMON, "min_samples": least, "align_every": 1}
    algorithm = FedSPD(**common, num_clusters=3, topology=Complete(), rounds=3, measure="all")
    state = algorithm.init(fed)
    for t in range(3):
        state, _ = algorithm.step(state, t, fed)
        assert np.isfinite(rows_of(algorithm, fed)).all()
        served = algorithm.served(state, t, fed)
        assert [int(label) >= 0 for label in served.labels] == [True, True, False, True, True]
        assert all(torch.isfinite(served.models[int(served.model_of[i])]).all() for i in (0, 1, 3, 4))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"num_clusters": 0}, {"min_samples": -1}, {"align_every": -1}, {"tune_epochs": -1}, {"tune_lr": -0.5}),
        *({"momentum": 1.0}, {"momentum": -0.1}, {"lr_decay": 0.0}, {"decay_every": 0}),
        *({"tune_decay": 0.0}, {"tune_decay_every": 0}),
    ],
)
def test_wrong_settings_name_their_key(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        FedSPD(**wrong)


# ------------------------------------------------------------------------------------------------------ runs on digits


def test_a_run_on_digits_learns(tiny_run):
    flags = ["--algorithm", "FedSPD", "--algorithm.local_epochs", "3", "--algorithm.batch_size", "10"]
    flags += ["--algorithm.measure", "all", "--algorithm.rounds", "8", "--algorithm.topology", "Complete"]
    tiny_run("a", *flags, "--data.samples", "[60,80]")
    with open("a/metrics.csv") as file:
        accuracies = [float(row["client_acc"]) for row in csv.DictReader(file)]
    assert accuracies[0] < 0.3
    assert accuracies[-1] > 0.6


def test_a_clients_own_model_can_be_exported(tiny_run):
    tiny_run("a", "--algorithm", "FedSPD", "--algorithm.rounds", "1", "--algorithm.local_epochs", "1")
    assert main(["export", "a", "--client", "2", "--output", "own.ckpt"]) == 0
    assert Path("own.ckpt").exists()


def test_a_run_resumes_bit_for_bit(tiny_run):
    """Some clients rest, links fail, numbers are aligned; stopped before the personal models are made."""
    flags = ["--algorithm", "FedSPD", "--algorithm.local_epochs", "1", "--algorithm.batch_size", "16"]
    flags += ["--algorithm.rounds", "5", "--algorithm.participation", "0.8", "--engine.memory_gb", "0"]
    flags += ["--algorithm.align_every", "2", "--algorithm.measure", "all"]
    flags += ["--algorithm.topology", "Complete", "--algorithm.topology.link_failure", "0.3"]
    tiny_run("whole", *flags)
    tiny_run("cut", *flags, "--engine.max_updates", "3")
    tiny_run("cut", "--ckpt_path", "last", "--engine.max_updates", "null", new=False)
    for name in ("metrics.csv", "clients.csv"):
        assert Path("cut", name).read_text() == Path("whole", name).read_text()


def test_personal_models_come_back_from_a_checkpoint(script, federate):
    """A loop restored after its last round serves the same models."""
    fed = federate(people(script))
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=Complete(), rounds=2, measure="all")
    loop = make_loop(algorithm, fed, None, None)
    loop.begin()
    for _ in range(2):
        loop.advance()
    shown = loop.gauges()
    other = make_loop(algorithm, federate(people(script)), None, None)
    other.fed.bank.restore(fed.bank.save())
    other.restore(loop.save())
    assert other.gauges() == shown
