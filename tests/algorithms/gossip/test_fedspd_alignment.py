"""FedSPD's cluster numbers, aligned from client to client, against every order there is."""

import itertools

import numpy as np
import pytest
import torch
from fedspd_people import COMMON, people
from gossip import WIDTH, filled, rows_of

import flcluster.algorithms.gossip.fedspd as alignment
from flcluster.algorithms import FedSPD
from flcluster.federation.bank import FileTable, Table
from flcluster.topology.families import Complete


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
