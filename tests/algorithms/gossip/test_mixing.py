"""Averages between neighbours: Eq. 7 and Eq. 8 of DFCA against NumPy, Metropolis weights, rows mixed in place."""

import numpy as np
import pytest
import torch
from gossip import contents, filled
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, identity

from flcluster.algorithms.gossip.mixing import (
    average_in_turn,
    disagreement,
    metropolis,
    mix_rows,
    neighbour_means,
    running_average,
)
from flcluster.federation.bank import FileTable, Table

EXAMPLES = settings(deadline=None, max_examples=80, database=None)
WIDTH = 5


# ------------------------------------------------------------------------------------------------- written in the test


def as_links(adjacency):
    links = csr_array(np.asarray(adjacency, dtype=bool))
    links.eliminate_zeros()
    return links


def symmetric(draw, n, p):
    upper = np.triu(draw.random((n, n)) < p, 1)
    return upper | upper.T


def eq7(adjacency, sent, rows, receive=None):
    """θ_ij ← (θ_ij + Σ_{m ∈ N_i, m sent j} θ_mj) / (1 + |…|), one pair after the other, in float64."""
    n, k = sent.shape
    out = rows.astype(np.float64).copy()
    for i in range(n):
        for j in range(k):
            if receive is None or receive[i, j]:
                heard = [m for m in range(n) if adjacency[i, m] and sent[m, j]]
                total = rows[i * k + j] + sum((rows[m * k + j] for m in heard), np.zeros(rows.shape[1]))
                out[i * k + j] = total / (1 + len(heard))
    return out


def in_turn(adjacency, sent, draw, receive=None):
    """All messages (row that receives, row that was sent) in a random order."""
    n, k = sent.shape
    found = [
        (i * k + j, m * k + j)
        for i in range(n)
        for m in range(n)
        for j in range(k)
        if adjacency[i, m] and sent[m, j] and (receive is None or receive[i, j])
    ]
    return [found[a] for a in draw.permutation(len(found))]


@st.composite
def meetings(draw):
    """A graph, who sent which models (some nothing, some several), who averages, and the rows."""
    n, k = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    adjacency = symmetric(rng, n, draw(st.sampled_from([0.0, 0.2, 0.5, 1.0])))
    labels = rng.integers(-1, k, size=n)  # −1: sent nothing
    sent = labels[:, None] == np.arange(k)
    if draw(st.booleans()):
        sent |= rng.random((n, k)) < 0.3
    receive = rng.random((n, k)) < 0.7 if draw(st.booleans()) else None
    rows = rng.uniform(-1, 1, (n * k, WIDTH)).astype(np.float32).astype(np.float64)
    return adjacency, sent, receive, rows, rng


# ------------------------------------------------------------------------------------------------------------ batch


def test_eq7_by_hand():
    """The path 0–1–2–3, two models; 0 and 2 trained the first, 1 the second, 3 sent nothing.

    1 hears the first model from 0 and 2; 0 and 2 hear the second from 1; 3 hears the first from 2.
    """
    path = np.eye(4, k=1) + np.eye(4, k=-1)
    sent = np.array([[1, 0], [0, 1], [1, 0], [0, 0]], dtype=bool)
    third = 1 / 3
    expected = np.zeros((8, 8))
    expected[0, 0] = 1  # 0's first: nobody beside it sent one
    expected[1, [1, 3]] = 0.5
    expected[2, [2, 0, 4]] = third
    expected[3, 3] = 1
    expected[4, 4] = 1
    expected[5, [5, 3]] = 0.5
    expected[6, [6, 4]] = 0.5
    expected[7, 7] = 1
    weights = neighbour_means(as_links(path), sent)
    assert weights.shape == (8, 8)
    np.testing.assert_allclose(weights.toarray(), expected, atol=1e-7)
    table = filled(Table(8, 1), [[8.0], [1.0], [2.0], [4.0], [5.0], [10.0], [7.0], [3.0]])
    mix_rows(table, weights)
    assert contents(table).ravel() == pytest.approx([8, 2.5, 5, 4, 5, 7, 6, 3], abs=1e-6)


def test_the_own_copy_counts_even_if_it_was_not_sent():
    """Client 0 trained model 1 and has an old copy of model 0: the old copy is half of its new one."""
    weights = neighbour_means(as_links([[0, 1], [1, 0]]), np.array([[False, True], [True, False]])).toarray()
    assert weights[0] == pytest.approx([0.5, 0, 0.5, 0])
    assert weights[3] == pytest.approx([0, 0.5, 0, 0.5])
    assert weights[1] == pytest.approx([0, 1, 0, 0])
    assert weights[2] == pytest.approx([0, 0, 1, 0])


def test_links_are_read_by_rows():
    """Client i hears the columns of its row, also where hearing is not mutual."""
    one_way = neighbour_means(as_links([[0, 1], [0, 0]]), np.ones((2, 1), dtype=bool)).toarray()
    np.testing.assert_allclose(one_way, [[0.5, 0.5], [0, 1]])


@EXAMPLES
@given(meetings())
def test_batch_weights_are_eq7(meeting):
    """Rows sum to one, and WΘ is Eq. 7 for every pair; nothing is said of columns."""
    adjacency, sent, receive, rows, _ = meeting
    weights = neighbour_means(as_links(adjacency), sent, receive)
    np.testing.assert_allclose(np.asarray(weights.sum(axis=1)).ravel(), 1, atol=1e-6)
    assert weights.toarray().min() >= 0
    np.testing.assert_allclose(weights.toarray() @ rows, eq7(adjacency, sent, rows, receive), atol=1e-6)


# ------------------------------------------------------------------------------------------------------- sequential


@EXAMPLES
@given(meetings(), st.sampled_from(["memory", "file", "shared file"]))
def test_sequential_is_batch_in_any_order(tmp_path_factory, meeting, kind):
    """To 1e-6, for any graph, labels, order of arrival; isolated clients and silent ones included."""
    adjacency, sent, receive, rows, draw = meeting
    folder = tmp_path_factory.mktemp("gossip")

    def make(name):
        if kind == "memory":
            return filled(Table(*rows.shape), rows)
        return filled(FileTable(folder / name, *rows.shape, shared=kind != "file"), rows)

    batch, sequential = make("a.rows"), make("b.rows")
    mix_rows(batch, neighbour_means(as_links(adjacency), sent, receive))
    average_in_turn(sequential, in_turn(adjacency, sent, draw, receive))
    np.testing.assert_allclose(contents(sequential), contents(batch), rtol=0, atol=1e-6)
    np.testing.assert_allclose(contents(batch), eq7(adjacency, sent, rows, receive), rtol=0, atol=1e-6)


def test_one_hundred_messages_are_still_a_mean():
    draw = np.random.default_rng(0)
    rows = draw.uniform(-1, 1, (101, 40))
    table = filled(Table(101, 40), rows)
    average_in_turn(table, [(0, m) for m in (draw.permutation(100) + 1).tolist()])
    np.testing.assert_allclose(contents(table)[0], rows.mean(0), atol=1e-6)


def test_the_first_message_has_half_the_weight():
    """The sentence before Eq. 8, read literally, gives it all the weight and loses the own model; Algorithm 1 not."""
    table = filled(Table(3, 2), [[0.0, 6.0], [3.0, 0.0], [9.0, 3.0]])
    average_in_turn(table, [(0, 1)])
    assert contents(table)[0].tolist() == [1.5, 3.0]
    table = filled(Table(3, 2), [[0.0, 6.0], [3.0, 0.0], [9.0, 3.0]])
    average_in_turn(table, [(0, 1), (0, 2)])
    assert contents(table)[0] == pytest.approx([4.0, 3.0], abs=1e-6)
    without_self = np.array([6.0, 1.5])
    assert not np.allclose(contents(table)[0], without_self, atol=0.1)
    assert contents(table)[1:].tolist() == [[3.0, 0.0], [9.0, 3.0]]


@pytest.mark.parametrize(("r", "weight"), [(1, 1 / 2), (2, 1 / 3), (3, 1 / 4), (9, 1 / 10)])
def test_running_average_by_hand(r, weight):
    own, message = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([3.0, 2.0, 10.0])
    expected = (1 - weight) * own.double() + weight * message.double()
    before = message.clone()
    back = running_average(own, message, r)
    torch.testing.assert_close(own.double(), expected, rtol=0, atol=1e-6)  # in place
    assert torch.equal(back, own)
    assert torch.equal(message, before)


@EXAMPLES
@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_running_average_is_the_mean_of_all(count, seed):
    rows = np.random.default_rng(seed).uniform(-1, 1, (count + 1, 7)).astype(np.float32)
    own = torch.tensor(rows[0])
    for r in range(1, count + 1):
        own = running_average(own, torch.tensor(rows[r]), r)
    np.testing.assert_allclose(own.numpy(), rows.astype(np.float64).mean(0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_messages_have_the_values_before_the_first(tmp_path, kind):
    """Row 2 gets row 1 as it was, although row 1 has taken in row 0 by then; likewise around a circle."""
    values = [[0.0], [8.0], [16.0], [4.0]]
    table = filled(Table(4, 1) if kind == "memory" else FileTable(tmp_path / "t.rows", 4, 1), values)
    average_in_turn(table, [(1, 0), (2, 1), (0, 2), (2, 3)])
    assert contents(table).ravel() == pytest.approx([8.0, 4.0, (16 + 8 + 4) / 3, 4.0], abs=1e-6)


def test_without_messages_nothing_changes():
    table = filled(Table(3, 2), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    before = contents(table)
    average_in_turn(table, [])
    mix_rows(table, neighbour_means(as_links(np.zeros((3, 3))), np.ones((3, 1), dtype=bool)))
    assert np.array_equal(contents(table), before)


# --------------------------------------------------------------------------------------------------------- Metropolis


def test_metropolis_of_a_path_by_hand():
    """Degrees 1, 2, 1: both links weigh 1/3, the ends keep 2/3 and the middle 1/3."""
    found = metropolis(as_links([[0, 1, 0], [1, 0, 1], [0, 1, 0]])).toarray()
    np.testing.assert_allclose(found, np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3, atol=1e-7)


@EXAMPLES
@given(st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.4, 1.0]), st.integers(0, 2**32 - 1))
def test_metropolis_on_any_graph(n, p, seed):
    """Symmetric, doubly stochastic, nonnegative, nothing off the graph; the mean of all rows stays what it is."""
    draw = np.random.default_rng(seed)
    adjacency = symmetric(draw, n, p)
    weights = metropolis(as_links(adjacency))
    assert weights.shape == (n, n)
    dense, degree = weights.toarray(), adjacency.sum(1)
    for i in range(n):
        for m in range(n):
            if i != m:
                expected = 1 / (1 + max(degree[i], degree[m])) if adjacency[i, m] else 0
                assert dense[i, m] == pytest.approx(expected, abs=1e-7)
    np.testing.assert_allclose(dense, dense.T, atol=1e-7)
    np.testing.assert_allclose(dense.sum(0), 1, atol=1e-6)
    np.testing.assert_allclose(dense.sum(1), 1, atol=1e-6)
    assert dense.min() >= 0
    rows = draw.uniform(-1, 1, (n, WIDTH))
    table = filled(Table(n, WIDTH), rows)
    mix_rows(table, weights)
    np.testing.assert_allclose(contents(table).mean(0), rows.mean(0), atol=1e-6)
    np.testing.assert_allclose(contents(table), dense @ rows, atol=1e-6)


def test_metropolis_brings_a_connected_graph_together():
    """A ring of eight with one chord: after many rounds everyone has the mean."""
    ring = np.eye(8, k=1) + np.eye(8, k=-1) + np.eye(8, k=7) + np.eye(8, k=-7)
    ring[0, 4] = ring[4, 0] = 1
    rows = np.random.default_rng(1).uniform(-1, 1, (8, 3))
    table = filled(Table(8, 3), rows)
    for _ in range(200):
        mix_rows(table, metropolis(as_links(ring)))
    np.testing.assert_allclose(contents(table), np.tile(rows.mean(0), (8, 1)), atol=1e-5)


# ------------------------------------------------------------------------------------------------------------ mixing


def random_weights(draw, n, density):
    """Sparse and row-stochastic, not symmetric; some rows keep what they have."""
    dense = draw.random((n, n)) * (draw.random((n, n)) < density)
    dense[np.arange(n), np.arange(n)] += 0.1
    still = draw.random(n) < 0.2
    dense[still] = np.eye(n)[still]
    return dense / dense.sum(1, keepdims=True), still


@pytest.mark.parametrize("kind", ["memory", "file", "shared file"])
@pytest.mark.parametrize(("n", "width"), [(1, 1), (2, 1), (7, 3), (12, 64), (30, 1000), (9, 4097), (40, 70_000)])
def test_mixing_is_a_product(tmp_path, kind, n, width):
    draw = np.random.default_rng([n, width])
    rows = draw.normal(size=(n, width)).astype(np.float32)
    weights, still = random_weights(draw, n, 0.2)
    path = tmp_path / "t.rows"
    table = Table(n, width) if kind == "memory" else FileTable(path, n, width, shared=kind == "shared file")
    filled(table, rows)
    expected = rows.astype(np.float64)
    for _ in range(2):
        mix_rows(table, csr_array(weights))
        expected = weights @ expected
    np.testing.assert_allclose(contents(table), expected, rtol=0, atol=3e-6)
    assert np.array_equal(contents(table)[still], rows[still])  # to the bit


def test_mixing_by_the_identity_changes_no_bit():
    rows = np.random.default_rng(3).normal(size=(6, 1000)).astype(np.float32)
    table = filled(Table(6, 1000), rows)
    mix_rows(table, csr_array(identity(6, format="csr")))
    assert np.array_equal(contents(table), rows)


def test_a_row_may_be_left_out_by_all():
    """A swap, and a row that two others take whole: in place, yet no row sees another's new value."""
    table = filled(Table(4, 1), [[1.0], [2.0], [3.0], [4.0]])
    mix_rows(table, csr_array(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1.0]])))
    assert contents(table).ravel().tolist() == [2, 1, 4, 4]


@pytest.mark.parametrize("shared", [False, True])
def test_a_checkpoint_outlives_mixing(tmp_path, shared):
    """The file has the rows of the last checkpoint until the next one is safe, however often rows are mixed."""
    n, width = 11, 300
    draw = np.random.default_rng(5)
    table = filled(FileTable(tmp_path / "t.rows", n, width, shared), draw.normal(size=(n, width)))
    now = contents(table)
    for _ in range(4):
        saved = dict(table.save())
        table.committed()
        at_save = now
        for _ in range(3):
            weights, _ = random_weights(draw, n, 0.3)
            table.next_step()
            mix_rows(table, csr_array(weights))
            now = weights @ now
            average_in_turn(table, [(0, 1), (0, 2), (3, 0)])
            now[[0, 3]] = [now[:3].mean(0), now[[3, 0]].mean(0)]
            np.testing.assert_allclose(contents(table), now, atol=1e-5)
            back = FileTable(table.path, n, width, shared)
            back.restore(saved)
            np.testing.assert_allclose(contents(back), at_save, atol=1e-5)
        now = contents(table)
    assert table.slots <= 2 * n + 16 + n  # and the file does not grow with the number of rounds


def test_a_memory_table_comes_back_after_mixing():
    table = filled(Table(4, 3), np.arange(12.0).reshape(4, 3))
    mix_rows(table, metropolis(as_links(np.ones((4, 4)) - np.eye(4))))
    back = Table(4, 3)
    back.restore({"rows": {k: v.clone() for k, v in table.save()["rows"].items()}})
    np.testing.assert_allclose(contents(back), np.tile([4.5, 5.5, 6.5], (4, 1)), atol=1e-6)


# ------------------------------------------------------------------------------------------------------- disagreement


def by_hand(rows, n, k, numbers):
    apart = rows.reshape(n, k, -1)[:, :, :numbers]
    return float(((apart - apart.mean(0)) ** 2).sum(2).mean(0).mean())


def test_disagreement_of_two_clients_by_hand():
    """Model 0: 0 and 2, both 1 from the mean, so 1; model 1: equal; the mean is 1/2. The second column is no number."""
    table = filled(Table(4, 2), [[0.0, 9.0], [5.0, 1.0], [2.0, -9.0], [5.0, 0.0]])
    assert disagreement(table, 2, 2, 1) == pytest.approx(0.5, abs=1e-7)


@pytest.mark.parametrize(
    ("n", "k", "width", "numbers"), [(1, 3, 4, 4), (5, 2, 7, 7), (5, 2, 7, 4), (8, 3, 70_000, 69_990)]
)
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_disagreement_is_its_formula(tmp_path, kind, n, k, width, numbers):
    rows = np.random.default_rng(width).normal(size=(n * k, width)).astype(np.float32)
    table = filled(Table(*rows.shape) if kind == "memory" else FileTable(tmp_path / "t.rows", *rows.shape), rows)
    expected = by_hand(rows.astype(np.float64), n, k, numbers)
    assert disagreement(table, n, k, numbers) == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_disagreement_of_near_equal_models():
    """Weights around 10 that differ in the fourth digit: the difference is not lost in the weights."""
    draw = np.random.default_rng(2)
    rows = (10 * draw.normal(size=(1, 5000)) + 1e-3 * draw.normal(size=(6, 5000))).astype(np.float32)
    expected = by_hand(rows.astype(np.float64), 6, 1, 5000)
    assert disagreement(filled(Table(6, 5000), rows), 6, 1, 5000) == pytest.approx(expected, rel=1e-2)
    same = filled(Table(6, 5000), np.tile(rows[:1], (6, 1)))
    assert disagreement(same, 6, 1, 5000) == pytest.approx(0, abs=1e-6)
