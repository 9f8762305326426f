"""FedSPD: samples divided by loss, one drawn cluster a round, aligned numbers and personal models, by brute force."""

import csv
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import flcluster.algorithms.gossip.fedspd as alignment
from flcluster.algorithms import FedSPD
from flcluster.algorithms.gossip.fedspd import borrowed
from flcluster.cli import main
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.federation.bank import FileTable, Table
from flcluster.modules import MLP
from flcluster.seeds import rng
from flcluster.topology.families import Complete, EdgeList

CLASSES, PIXELS, WIDTH = 4, 6, 28
COMMON = {"local_epochs": 1, "batch_size": 8, "min_samples": 1, "align_every": 0}
CLOSE = {"rtol": 0, "atol": 1e-6}
EXAMPLES = settings(deadline=None, max_examples=100, database=None)


# ------------------------------------------------------------------------------------------------- written in the test


def sample_losses(row, view):
    """Softmax regression in float64: the row is the weights, then the biases."""
    x, y = view.tensors()
    x, y, row = x.double().numpy().reshape(len(y), -1), y.numpy(), np.asarray(row, dtype=np.float64)
    logits = x @ row[: PIXELS * CLASSES].reshape(CLASSES, PIXELS).T + row[PIXELS * CLASSES :]
    top = logits.max(1, keepdims=True)
    return np.log(np.exp(logits - top).sum(1)) + top[:, 0] - logits[np.arange(len(y)), y]


def division(rows, k, client, t, fed):
    """The first of a client's models with the smallest loss, for each of its samples."""
    view = fed.data.shard(client, t).train
    return np.stack([sample_losses(rows[client * k + s], view) for s in range(k)]).argmin(0)


def samples(view):
    """Which samples a view has, and how often."""
    return Counter((id(source), i) for source, index in view.parts for i in index.tolist())


def rows_of(algorithm, fed):
    table = algorithm.models(fed)
    return np.stack([table[i].double().numpy() for i in range(len(table))])


def scatter(algorithm, fed, seed=0):
    table, draw = algorithm.models(fed), np.random.default_rng(seed)
    for i in range(len(table)):
        table[i] = torch.tensor(0.5 * draw.normal(size=table.width), dtype=torch.float32)


def people(script, n=8, each=6):
    """Clients that hold samples of all classes; some of them call them by other names."""
    return script({0: {m: ([0, 1, 2, 3] * each + [m % 4] * m, m % 3) for m in range(n)}})


def graph(tmp_path, n=8, p=0.4, seed=1):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    path = tmp_path / "graph.txt"
    path.write_text("\n".join(f"{i} {j}" for i, j in zip(*np.nonzero(upper), strict=True)) + "\n")
    return EdgeList(path=str(path)), upper | upper.T


# --------------------------------------------------------------------------------------------------------- first round


@pytest.mark.parametrize("k", [2, 3])
def test_the_first_round_trains_all_models_on_a_division(k, script, federate, spied, tmp_path):
    """Every sample trains one model (a model without any borrows one); each is averaged over all neighbours."""
    fed = federate(people(script))
    topology, adjacency = graph(tmp_path)
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
    topology, adjacency = graph(tmp_path, p=0.6)
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
    topology, adjacency = graph(tmp_path, p=0.6)
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


# ----------------------------------------------------------------------------------------------------------- alignment


def filled(table, rows):
    for i, row in enumerate(rows):
        table[i] = torch.tensor(row, dtype=torch.float32)
    return table


def aligned(rows, n, k):
    """Every order of each client's models is tried against the running mean of the clients before it."""

    def similarity(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    cubes = rows.reshape(n, k, -1).astype(np.float64).copy()
    reference = cubes[0].copy()
    for i in range(1, n):
        orders = list(itertools.permutations(range(k)))
        sums = [sum(similarity(reference[j], cubes[i, order[j]]) for j in range(k)) for order in orders]
        cubes[i] = cubes[i, list(orders[int(np.argmax(sums))])]
        reference = (i * reference + cubes[i]) / (i + 1)
    return cubes.reshape(n * k, -1)


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize(("n", "k", "seed"), [(6, 2, 0), (8, 3, 1), (5, 4, 2), (1, 3, 3), (4, 1, 4)])
def test_alignment_undoes_permutations(kind, n, k, seed, tmp_path):
    """Noisy copies of k models in a random order at every client: all get the order of client 0."""
    draw = np.random.default_rng(seed)
    models = draw.normal(size=(k, 50))
    orders = [draw.permutation(k) for _ in range(n)]
    rows = np.concatenate([models[order] + 0.3 * draw.normal(size=(k, 50)) for order in orders])
    table = filled(Table(n * k, 50) if kind == "memory" else FileTable(tmp_path / "t.rows", n * k, 50), rows)
    alignment.align(table, n, k)
    found = np.stack([table[i].double().numpy() for i in range(n * k)])
    for i in range(n):
        for j in range(k):
            (s,) = np.flatnonzero(orders[i] == orders[0][j])
            np.testing.assert_array_equal(found[i * k + j], rows.astype(np.float32)[i * k + s])


@pytest.mark.parametrize("seed", range(8))
def test_alignment_is_the_best_order_of_all(seed):
    """Also where the models have nothing in common; lengths do not matter, directions do."""
    draw = np.random.default_rng(seed)
    n, k = 5, 3
    rows = (draw.normal(size=(n * k, 12)) + 1) * draw.uniform(0.1, 10, (n * k, 1))
    table = filled(Table(n * k, 12), rows)
    alignment.align(table, n, k)
    found = np.stack([table[i].double().numpy() for i in range(n * k)])
    np.testing.assert_allclose(found, aligned(rows.astype(np.float32), n, k), rtol=1e-6)


@pytest.mark.parametrize(("every", "happens"), [(1, [0, 1, 2, 3]), (2, [1, 3]), (3, [2]), (0, [])])
def test_numbers_are_aligned_now_and_then(every, happens, script, federate):
    """Every so many rounds, after the averages; 0 is never."""
    common = {**COMMON, "num_clusters": 2, "topology": Complete(link_failure=0.8), "rounds": 10}
    algorithm, other = FedSPD(**{**common, "align_every": every}), FedSPD(**common)
    fed, twin = federate(people(script, 5, 2)), federate(people(script, 5, 2))
    state, beside, draw = algorithm.init(fed), other.init(twin), np.random.default_rng(0)
    for t in range(4):
        models = draw.normal(size=(2, WIDTH))
        for i in range(5):
            for j, row in enumerate(models[draw.permutation(2)]):
                row = torch.tensor(row + 0.1 * draw.normal(size=WIDTH), dtype=torch.float32)
                algorithm.models(fed)[2 * i + j] = other.models(twin)[2 * i + j] = row
        state, _ = algorithm.step(state, t, fed)
        beside, _ = other.step(beside, t, twin)
        plain = rows_of(other, twin)
        expected = aligned(plain, 5, 2)
        assert not np.array_equal(expected, plain)
        np.testing.assert_allclose(rows_of(algorithm, fed), expected if t in happens else plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("k", "n"), [(3, 8), (4, 8)])
def test_a_trained_model_is_found_under_its_new_number(k, n, script, federate, spied):
    """Everyone has the same k models, each client turned by other places; with three or more, unlike two, a turn is
    not its own inverse. Links are down: a row that was trained lies in the table as it is, and labels say where."""
    fed = federate(people(script, n))
    algorithm = FedSPD(
        **{**COMMON, "align_every": 1}, num_clusters=k, topology=Complete(link_failure=1.0), rounds=10, momentum=0.0
    )
    state, draw = algorithm.init(fed), np.random.default_rng(3)
    log = spied(fed)
    models = 2 * draw.normal(size=(k, WIDTH))
    for i in range(n):
        for j in range(k):
            algorithm.models(fed)[i * k + j] = torch.tensor(models[(j + i) % k], dtype=torch.float32)
    state, done = algorithm.step(state, 1, fed)
    rows, moved = rows_of(algorithm, fed).reshape(n, k, -1), 0
    for (job, row), label in zip(log, done.cohort.labels, strict=True):
        i, was = job.client, int(job.purpose.removeprefix("train "))
        (now,) = [j for j in range(k) if np.array_equal(rows[i, j], row.double().numpy())]
        assert label == int(state.labels[i]) == now
        assert now == (was + i) % k  # as client 0 has them
        moved += now != (was - i) % k
    assert moved >= 3  # clients whose turn is not its own inverse


# ------------------------------------------------------------------------------------------------------ personal models


def mixtures(algorithm, fed, k, t, n=8):
    """Σ_s u_is c_is, u the shares of the samples as they are divided now."""
    rows = rows_of(algorithm, fed)
    out = []
    for i in range(n):
        shares = np.bincount(division(rows, k, i, t, fed), minlength=k)
        out.append(shares / shares.sum() @ rows[i * k : (i + 1) * k])
    return np.stack(out)


def test_before_the_end_everyone_is_served_its_mixture(script, federate):
    fed = federate(people(script))
    algorithm = FedSPD(**COMMON, num_clusters=3, topology=Complete(link_failure=0.5), rounds=10, measure="all")
    state = algorithm.init(fed)
    for t in range(3):
        scatter(algorithm, fed, t)
        state, done = algorithm.step(state, t, fed)
        expected, served = mixtures(algorithm, fed, 3, t), algorithm.served(state, t, fed)
        for i in range(8):
            np.testing.assert_allclose(served.models[int(served.model_of[i])].double(), expected[i], **CLOSE)
            most = np.bincount(division(rows_of(algorithm, fed), 3, i, t, fed), minlength=3)
            assert most[int(served.labels[i])] == most.max()
        for place, trained in enumerate(done.results):
            np.testing.assert_allclose(done.row(place).double(), expected[trained.client], **CLOSE)
    assert not state.tuned


def heavy_ball(row, batches, lr, theta):
    """Steps y' = y − lr · g(y) + θ (y − y_before) of softmax regression, beginning without momentum, in float64."""
    y = before = row.double()
    for x, labels in batches:
        w = y.clone().requires_grad_()
        logits = x.double().flatten(1) @ w[: PIXELS * CLASSES].view(CLASSES, PIXELS).T + w[PIXELS * CLASSES :]
        (gradient,) = torch.autograd.grad(F.cross_entropy(logits, labels), w)
        y, before = y - lr * gradient + theta * (y - before), y
    return y


@pytest.mark.parametrize("participants", [None, 5])
def test_after_the_last_round_the_mixtures_are_trained(participants, script, federate, spied):
    """On all samples of each client, for so many epochs, at a smaller learning rate; also of those who rested."""
    fed = federate(people(script))
    common = {**COMMON, "tune_epochs": 4, "tune_lr": 0.3}
    algorithm = FedSPD(
        **common,
        num_clusters=2,
        topology=Complete(link_failure=0.5),
        rounds=3,
        participants=participants,
        measure="all",
    )
    state = algorithm.init(fed)
    log = spied(fed)
    for t in range(3):
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        tuned = [(job, row) for job, row in log if job.purpose == "tune"]
        assert len(tuned) == (4 * 8 if t == 2 else 0)
        assert state.tuned == (t == 2)
    expected, served = mixtures(algorithm, fed, 2, 2), algorithm.served(state, 2, fed)
    for i in range(8):
        (first, _), *_, (_, row) = mine = [(job, row) for job, row in tuned if job.client == i]
        assert all(samples(job.view) == samples(fed.data.shard(i, 2).train) for job, _ in mine)
        assert [job.epochs for job, _ in mine] == [1] * 4
        np.testing.assert_allclose(first.start.double(), expected[i], **CLOSE)
        assert all(torch.equal(after.start, row) for (_, row), (after, _) in itertools.pairwise(mine))
        assert torch.equal(served.models[int(served.model_of[i])], row)
        assert not torch.equal(row, first.start)
        assert len({job.cycle for job, _ in mine}) == 4  # each epoch in an order of its own


@pytest.mark.parametrize(
    ("given", "factors", "theta"),
    [
        ({}, [0.5, 0.5, 0.5, 0.4, 0.4], 0.5),  # the published code: lr/2, times 0.8 every three epochs
        ({"tune_epochs": 8}, [0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 0.32, 0.32], 0.5),
        ({"tune_lr": 1.0, "tune_decay": 0.5, "tune_decay_every": 2, "momentum": 0.9}, [1, 1, 0.5, 0.5, 0.25], 0.9),
        ({"tune_decay": 1.0, "momentum": 0.0}, [0.5] * 5, 0.0),
    ],
)
def test_the_last_training_decays_by_its_epochs(given, factors, theta, script, federate):
    """Replayed batch by batch. It begins at its share of the model's rate, however far rounds decayed that; momentum
    begins anew in every epoch, as in the published code, which makes a new optimiser for each."""
    fed = federate(people(script), lr=0.2)
    common = {**COMMON, "num_clusters": 2, "topology": Complete(link_failure=0.5), "rounds": 3}
    algorithm = FedSPD(**{**common, "lr_decay": 0.1, "decay_every": 1, **given})
    state = algorithm.init(fed)
    for t in range(3):
        state, _ = algorithm.step(state, t, fed)
    served = algorithm.served(state, 2, fed)
    for i, row in enumerate(mixtures(algorithm, fed, 2, 2)):
        row, (x, y) = torch.from_numpy(row), fed.data.shard(i, 2).train.tensors()
        for epoch, factor in enumerate(factors):
            order = torch.from_numpy(rng(fed.seed, "tune", i, epoch).permutation(len(y)))
            row = heavy_ball(row, [(x[part], y[part]) for part in order.split(8)], 0.2 * factor, theta)
        found = served.models[int(served.model_of[i])].double()
        torch.testing.assert_close(found, row, rtol=0, atol=3e-6)


@pytest.mark.parametrize(("theta", "decay", "every"), [(0.5, 0.8, 5), (0.0, 0.5, 1), (0.9, 1.0, 5)])
def test_rounds_train_with_momentum_and_a_rate_that_falls_by_steps(theta, decay, every, script, federate, spied):
    """The published code: momentum 0.5, which begins anew every round, and the rate times 0.8 every five rounds."""
    usual = FedSPD()
    assert (usual.momentum, usual.lr_decay, usual.decay_every) == (0.5, 0.8, 5)
    assert (usual.tune_lr, usual.tune_decay, usual.tune_decay_every, usual.tune_epochs) == (0.5, 0.8, 3, 5)
    fed = federate(people(script), lr=0.2)
    common = {**COMMON, "local_epochs": 3, "batch_size": 64, "num_clusters": 2, "topology": Complete(), "rounds": 20}
    algorithm = FedSPD(**common, momentum=theta, lr_decay=decay, decay_every=every)
    state = algorithm.init(fed)
    log = spied(fed)
    for t in (0, 4, 5, 9, 10, 14, 15):
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        rate = 0.2 * decay ** (t // every)
        for job, row in log:
            expected = heavy_ball(job.start, [job.view.tensors()] * 3, rate, theta)
            torch.testing.assert_close(row.double(), expected, rtol=0, atol=3e-6)


def test_without_a_momentum_the_models_optimiser_is_left_alone(script, federate):
    """Null: also Adam trains; a number needs SGD."""

    def adam():
        return federate(people(script), module=MLP(CLASSES, (1, 2, 3), hidden=(), optimizer="adam", lr=0.01))

    common = {**COMMON, "num_clusters": 2, "topology": Complete(), "rounds": 1}
    fed, algorithm = adam(), FedSPD(**common, momentum=None)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    assert state.tuned
    fed, algorithm = adam(), FedSPD(**common)
    with pytest.raises(UserError, match=r"(?is)momentum.*adam"):
        algorithm.step(algorithm.init(fed), 0, fed)


def test_titles_say_what_is_not_the_published_codes():
    assert FedSPD().title == FedSPD(momentum=0.5, tune_epochs=9).title == "FedSPD"
    assert FedSPD(momentum=0.0).title == "FedSPD (θ = 0)"
    assert FedSPD(momentum=0.9, lr_decay=1.0).title == "FedSPD (θ = 0.9, no lr decay)"
    assert FedSPD(lr_decay=0.99, decay_every=1).title == "FedSPD (lr × 0.99 every 1)"
    assert FedSPD(momentum=None).title == "FedSPD (the model's own momentum)"


# ------------------------------------------------------------------------------------------------------------- its time


@pytest.mark.parametrize("budget", [{"local_epochs": 2}, {"local_steps": 5}])
@pytest.mark.parametrize("k", [2, 3])
def test_simulated_devices_count_the_division_and_the_last_training(budget, k, script, federate, given_devices):
    """A training counts three passes, a division of the samples k, the last training 3 · tune_epochs over all samples,
    whatever a round's own budget is; the slowest client sets the time."""
    fed = federate(people(script))
    ms, kbps = np.linspace(9, 1, 8), np.linspace(30, 5, 8)
    common = {**COMMON, **budget, "num_clusters": k, "topology": Complete(), "tune_epochs": 4, "rounds": 3}
    algorithm = FedSPD(**common, devices=given_devices(ms, kbps))
    state, sizes = algorithm.init(fed), fed.data.sizes(0)
    whole, rest = np.divmod(5, -(-sizes // 8))
    processed = 2 * sizes if "local_epochs" in budget else whole * sizes + rest * 8
    transfer = 2 * 7 * 4 * WIDTH * 8 / 1000 / kbps
    for t, besides in enumerate((0, k, k + k + 3 * 4)):
        state, done = algorithm.step(state, t, fed)
        seconds = (3 * processed + besides * sizes) * ms / 1000 + transfer
        assert done.cohort.seconds == pytest.approx(seconds.max())
        passes = dict.fromkeys(range(8), 0)
        for i, trained in enumerate(done.results):
            passes[trained.client] += done.cost(i)[2]
        assert list(passes.values()) == [besides] * 8


def test_a_run_of_one_round_tunes_each_client_once(script, federate):
    """The first round trains k models of each client: what comes besides is counted once."""
    fed = federate(people(script))
    algorithm = FedSPD(**COMMON, num_clusters=3, topology=Complete(), tune_epochs=4, rounds=1)
    _, done = algorithm.step(algorithm.init(fed), 0, fed)
    assert len(done.results) == 24
    assert sum(done.cost(i)[2] for i in range(24)) == (3 + 3 * 4) * 8


def test_without_tuning_epochs_the_mixture_is_the_model(script, federate):
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=Complete(), rounds=1, tune_epochs=0)
    fed = federate(people(script))
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    served = algorithm.served(state, 0, fed)
    for i, expected in enumerate(mixtures(algorithm, fed, 2, 0)):
        np.testing.assert_allclose(served.models[int(served.model_of[i])].double(), expected, **CLOSE)


def test_after_the_end_the_own_row_is_the_personal_model(script, federate):
    """What an export of a client's model writes."""
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=Complete(link_failure=0.5), rounds=1)
    fed = federate(people(script))
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    served = algorithm.served(state, 0, fed)
    for i in range(8):
        name, row = algorithm.own_row(state, i)
        assert torch.equal(fed.bank.tables[name][row], served.models[int(served.model_of[i])])


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
