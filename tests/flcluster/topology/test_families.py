"""Graphs of clients: their laws against binomial bounds, their shapes against networkx and hand counts, and files."""

import math
import re
import subprocess
import sys
from dataclasses import dataclass, replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonargparse import ArgumentParser

from flcluster.errors import UserError
from flcluster.topology.base import Topology, edge_table
from flcluster.topology.families import Complete, EdgeList, ErdosRenyi, RandomRegular, Ring, SmallWorld, Torus
from flcluster.topology.files import as_edges, read_graphs

DRAWN = [ErdosRenyi(p=0.3), RandomRegular(degree=3), SmallWorld(rewire=0.5)]
FIXED = [Ring(reach=2), Torus(), Complete()]


def graph(topology, n, t=0, seed=0):
    """Rebuild the graph in networkx from the links alone."""
    found = nx.empty_graph(n)
    found.add_edges_from(topology.edges(n, t, seed).tolist())
    return found


def degrees(topology, n, **where):
    return [d for _, d in graph(topology, n, **where).degree]


def within(count, trials, p):
    """Whether a count of successes lies within four standard deviations of its mean."""
    return abs(count - trials * p) < 4 * math.sqrt(trials * p * (1 - p))


# --------------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("topology", DRAWN + FIXED, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("n", [1, 8, 24])
def test_links_are_sorted_pairs_and_a_symmetric_matrix_without_diagonal(topology, n):
    edges = topology.edges(n, 3, 5)
    assert edges.dtype == np.int64 and edges.shape[1:] == (2,) and not edges.flags.writeable
    pairs = list(map(tuple, edges.tolist()))
    assert pairs == sorted(set(pairs)) and all(0 <= i < j < n for i, j in pairs)
    links = topology.links(n, 3, 5)
    assert links.dtype == bool and links.shape == (n, n) and links.has_sorted_indices
    dense = links.toarray()
    assert sorted(zip(*np.nonzero(np.triu(dense)), strict=True)) == pairs
    assert (dense == dense.T).all() and not dense.diagonal().any()
    assert topology.online(n, 3, 5).tolist() == [True] * n


@pytest.mark.parametrize(("n", "reach"), [(2, 1), (3, 1), (10, 1), (10, 3), (9, 4), (10, 5)])
def test_ring(n, reach):
    """Client i and j are linked if they are at most ``reach`` steps apart on the circle."""
    expected = [(i, j) for i in range(n) for j in range(i + 1, n) if min(j - i, n - j + i) <= reach]
    assert list(map(tuple, Ring(reach=reach).edges(n, 0, 0).tolist())) == expected
    assert set(degrees(Ring(reach=reach), n)) == {min(2 * reach, n - 1)}


@pytest.mark.parametrize(("n", "rows", "shape"), [(12, None, (3, 4)), (30, 3, (3, 10)), (36, None, (6, 6))])
def test_torus_has_four_neighbours_each(n, rows, shape):
    found = graph(Torus(rows=rows), n)
    assert set(dict(found.degree).values()) == {4}
    assert nx.is_isomorphic(found, nx.grid_2d_graph(*shape, periodic=True))
    last = n - 1  # the last corner: the one before it, the one above, and around both edges
    assert sorted(found[last]) == sorted([last - 1, last - shape[1], last - shape[1] + 1, shape[1] - 1])


def test_a_torus_two_wide_has_no_double_links():
    assert set(degrees(Torus(rows=2), 10)) == {3}
    assert degrees(Torus(), 4) == [2, 2, 2, 2]
    assert set(degrees(Torus(), 26)) == {3}  # 2 x 13


@pytest.mark.parametrize(("n", "degree"), [(20, 3), (21, 4), (30, 20), (40, 37), (12, 11), (2, 1)])
def test_random_regular(n, degree):
    """Dense ones too, which networkx alone does not finish."""
    assert set(degrees(RandomRegular(degree=degree), n)) == {degree}


def test_small_world_keeps_the_number_of_links_and_turns_some():
    """A turned link finds one of the 53 clients outside the ring's six, or rarely a place that another one left."""
    ring = {tuple(pair) for pair in Ring(reach=3).edges(60, 0, 0).tolist()}
    stayed = {}
    for rewire in (0.0, 0.2, 1.0):
        found = {tuple(pair) for pair in SmallWorld(neighbours=6, rewire=rewire).edges(60, 0, 1).tolist()}
        assert len(found) == 180
        stayed[rewire] = len(found & ring)
    assert stayed[0.0] == 180 and within(stayed[0.2], 180, 0.8) and stayed[1.0] < 40


def test_complete():
    assert degrees(Complete(), 7) == [6] * 7


@pytest.mark.parametrize(("n", "p"), [(60, 0.05), (100, 0.15), (40, 0.6)])
def test_erdos_renyi_links_every_pair_with_probability_p(n, p):
    """Over 40 graphs: the number of links, the links of client 0, of the last one, and of a single pair."""
    graphs = [ErdosRenyi(p=p).links(n, 0, seed).toarray() for seed in range(40)]
    total = np.sum(graphs, axis=0)
    assert within(total.sum() // 2, 40 * n * (n - 1) // 2, p)
    assert within(total[0].sum(), 40 * (n - 1), p) and within(total[-1].sum(), 40 * (n - 1), p)
    assert within(total[3, n // 2], 40, p)


def test_erdos_renyi_at_its_ends():
    assert len(ErdosRenyi(p=0.0).edges(20, 0, 0)) == 0
    assert len(ErdosRenyi(p=1.0).edges(20, 0, 0)) == 190


# ---------------------------------------------------------------------------------------------------- seeds and rounds


@pytest.mark.parametrize("topology", DRAWN, ids=lambda t: type(t).__name__)
def test_the_order_of_calls_does_not_matter(topology):
    shaky = replace(topology, redraw=2, link_failure=0.3, node_dropout=0.2)
    asked = [(n, t, seed) for n in (12, 20) for t in range(6) for seed in (0, 1)]  # more than the cache holds
    forth = {key: (shaky.edges(*key).copy(), shaky.links(*key).toarray(), shaky.online(*key)) for key in asked}
    for key in reversed(asked):
        again = replace(shaky)
        assert (again.online(*key) == forth[key][2]).all()
        assert (again.links(*key).toarray() == forth[key][1]).all()
        assert np.array_equal(again.edges(*key), forth[key][0])


@pytest.mark.parametrize("topology", DRAWN, ids=lambda t: type(t).__name__)
def test_a_graph_lasts_for_its_period(topology):
    fixed, moving = topology, replace(topology, redraw=3)
    texts = [str(moving.edges(20, t, 0).tolist()) for t in range(9)]
    assert len({*texts[:3]}) == len({*texts[3:6]}) == len({*texts[6:]}) == 1
    assert len(set(texts)) == 3
    assert {str(fixed.edges(20, t, 0).tolist()) for t in range(9)} == {texts[0]}
    assert not np.array_equal(fixed.edges(20, 0, 0), fixed.edges(20, 0, 1))


def test_a_graph_without_chance_stays():
    for topology in FIXED:
        moving = replace(topology, redraw=1)
        assert np.array_equal(moving.edges(12, 0, 0), moving.edges(12, 7, 3))


def test_nothing_global_is_read_or_changed():
    import random

    random.seed(1), np.random.seed(1)
    first = [topology.edges(30, 0, 11).tolist() for topology in DRAWN]
    assert (random.random(), np.random.random()) == (random.Random(1).random(), np.random.RandomState(1).random())
    for t in range(100, 120):
        ErdosRenyi(redraw=1).edges(5, t, 0)  # fill the cache with others
    random.seed(2), np.random.seed(2)
    assert [topology.edges(30, 0, 11).tolist() for topology in DRAWN] == first


def test_networkx_is_imported_only_to_draw():
    code = (
        "import sys, flcluster.seeds, scipy.sparse.csgraph; before = 'networkx' in sys.modules;"
        "import flcluster.topology; flcluster.topology.Ring(); assert ('networkx' in sys.modules) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------------------------------ connected


def test_connected_draws_until_it_is():
    """At p = ln(n)/n about a third of the graphs are connected: some first draws are not."""
    n = 40
    loose = ErdosRenyi(p=math.log(n) / n)
    tight = replace(loose, connected=True)
    before = [nx.is_connected(graph(loose, n, seed=seed)) for seed in range(20)]
    assert 0 < sum(before) < 20
    assert all(nx.is_connected(graph(tight, n, seed=seed)) for seed in range(20))
    for seed in np.flatnonzero(before):  # a first draw that is connected is kept
        assert np.array_equal(tight.edges(n, 0, int(seed)), loose.edges(n, 0, int(seed)))


@pytest.mark.parametrize(
    ("topology", "n", "words"),
    [
        (ErdosRenyi(p=0.01), 50, ["none of 3 graphs of 50 clients", "topology.p (0.01)", "ln(n)/n = 0.078"]),
        (RandomRegular(degree=1), 50, ["topology.degree (1)", "3 or more"]),
        (SmallWorld(neighbours=2, rewire=1.0), 300, ["topology.neighbours (2)", "rewire (1.0)"]),
    ],
)
def test_a_connected_graph_that_is_not_found_says_what_to_raise(monkeypatch, topology, n, words):
    monkeypatch.setattr("flcluster.topology.base.TRIES", 3)
    with pytest.raises(UserError) as error:
        replace(topology, connected=True).edges(n, 0, 0)
    assert all(word in str(error.value) for word in ["algorithm.topology.connected", *words])


def test_a_lone_client_is_connected():
    for topology in DRAWN + FIXED:
        assert len(replace(topology, connected=True).edges(1, 0, 0)) == 0


# ------------------------------------------------------------------------------------------------------------- failures


def test_links_fail_at_their_rate_independently_of_each_other_and_of_rounds():
    n, rounds, rate = 30, 200, 0.3
    topology = Complete(link_failure=rate)
    up = np.stack([topology.links(n, t, 4).toarray() for t in range(rounds)])
    assert (up == up.transpose(0, 2, 1)).all()
    i, j = np.triu_indices(n, 1)
    up = up[:, i, j]
    assert within(up.sum(), up.size, 1 - rate)
    assert within((up[1:] & up[:-1]).sum(), up[1:].size, (1 - rate) ** 2)  # a link in two successive rounds
    assert within((up[:, 1:] & up[:, :-1]).sum(), up[:, 1:].size, (1 - rate) ** 2)  # two links in a round
    spread = up.mean(axis=1).std()
    assert 0.7 < spread / math.sqrt(rate * (1 - rate) / up.shape[1]) < 1.3


def test_clients_drop_out_at_their_rate_and_take_their_links_with_them():
    n, rounds, rate = 50, 300, 0.2
    topology = ErdosRenyi(p=0.4, node_dropout=rate)
    drawn = graph(topology, n)
    online = np.stack([topology.online(n, t, 0) for t in range(rounds)])
    assert within(online.sum(), online.size, 1 - rate)
    assert within((online[1:] & online[:-1]).sum(), online[1:].size, (1 - rate) ** 2)
    for t in range(0, rounds, 50):
        there = np.flatnonzero(online[t]).tolist()
        expected = nx.to_numpy_array(drawn.subgraph(there), nodelist=there).astype(bool)
        links = topology.links(n, t, 0).toarray()
        assert (links[np.ix_(there, there)] == expected).all() and links.sum() == expected.sum()


def test_failures_leave_the_drawn_graph_alone():
    shaky = ErdosRenyi(link_failure=0.5, node_dropout=0.5)
    assert np.array_equal(shaky.edges(40, 2, 0), ErdosRenyi().edges(40, 0, 0))
    assert replace(shaky, link_failure=1.0).links(40, 0, 0).nnz == 0
    assert replace(shaky, node_dropout=1.0).links(40, 0, 0).nnz == 0


# ---------------------------------------------------------------------------------------------------------------- files


def write(tmp_path, text, name="links.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return EdgeList(path=str(path))


@pytest.mark.parametrize("topology", [*DRAWN, Complete(), ErdosRenyi(p=0.0)])
def test_a_graph_written_to_edges_csv_reads_back(tmp_path, topology):
    text = edge_table(topology, 14, [0], 3)
    assert np.array_equal(write(tmp_path, text, "edges.csv").edges(14, 5, 99), topology.edges(14, 0, 3))


def test_edges_csv_by_hand(tmp_path):
    text = edge_table(Ring(), 4, [0, 10], 0)
    ring = [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert text == "round,source,target\n" + "".join(f"{t},{i},{j}\n" for t in (0, 10) for i, j in ring)
    both = read_graphs(tmp_path / write(tmp_path, text).path)
    assert [(t, list(map(tuple, edges.tolist()))) for t, edges in both.items()] == [(0, ring), (10, ring)]


def test_of_several_rounds_the_earliest_counts(tmp_path):
    topology = ErdosRenyi(p=0.3, redraw=5)
    text = edge_table(topology, 14, [40, 0, 9], 3)
    assert np.array_equal(write(tmp_path, text).edges(14, 0, 0), topology.edges(14, 0, 3))


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n2 1\n",
        "0,1\n1,2",
        "0\t1\n1\t2\n",
        "# mine\n\n  0   1  # the first\n1 2\n2 1\n1 0\n",
        "source,target\n0,1\n1,2\n",
        "weight, Target, Source\n.5, 1, 0\n.7, 2, 1\n",
        "source\ttarget\n0\t1\n1\t2\n",
        "\ufeffround,source,target\r\n3,0,1\r\n3,1,2\r\n8,0,2\r\n",
    ],
)
def test_the_ways_to_write_a_list(tmp_path, text):
    assert write(tmp_path, text).edges(4, 0, 0).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n1 2 3\n", ["line 2: '1 2 3' must be source,target"]),
        ("0 1\n\n# x\n1\n", ["line 4: '1' must be source,target"]),
        ("0 1\na b\n", ["line 2: 'a b'", "whole numbers"]),
        ("0 1.5\n", ["line 1", "whole numbers"]),
        ("from,to\n0,1\n", ["line 1", "whole numbers"]),
        ("from,to,how\n0,1,2\n", ["line 1: 'from to how'", "or begin with source,target"]),
        ("source,target\n0,1\n1\n", ["line 3: '1' must be source,target"]),
        ("round,source,target\nx,0,1\n", ["line 2", "whole numbers"]),
        ("0 1\n1 4\n", ["line 2: '1 4'", "from 0 to 3"]),
        ("0 1\n-1 2\n", ["line 2: '-1 2'", "from 0 to 3"]),
        ("0 1\n2 2\n", ["line 2: '2 2'", "two different ones"]),
        ("# nothing\n\n", ["holds no links"]),
    ],
)
def test_a_wrong_list_names_its_line(tmp_path, text, words):
    topology = write(tmp_path, text)
    with pytest.raises(UserError) as error:
        topology.edges(4, 0, 0)
    assert all(word in str(error.value) for word in ["algorithm.topology.path", topology.path, *words])


def test_a_list_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(UserError, match=r"algorithm.topology.path: .*absent.txt cannot be read \(.*No such file"):
        EdgeList(path=str(tmp_path / "absent.txt")).edges(4, 0, 0)
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    for name, told in (("picture", "line 1: the byte 0x89 is not text in UTF-8"), (".", "cannot be read")):
        with pytest.raises(UserError, match=told):
            EdgeList(path=str(tmp_path / name)).edges(4, 0, 0)


def test_a_list_that_is_not_connected(tmp_path):
    loose = write(tmp_path, "0 1\n2 3\n")
    assert len(loose.edges(4, 0, 0)) == 2
    with pytest.raises(UserError, match=r"topology.connected: the graph is not connected; add links"):
        replace(loose, connected=True).edges(4, 0, 0)


@settings(deadline=None, max_examples=50, database=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_as_edges(pairs):
    expected = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    assert list(map(tuple, as_edges(pairs).tolist())) == expected


# ------------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ErdosRenyi(p=1.5), "algorithm.topology.p must be in [0, 1], got 1.5"),
        (lambda: ErdosRenyi(p=math.nan), "algorithm.topology.p must be in [0, 1], got nan"),
        (lambda: Ring(link_failure=-0.1), "algorithm.topology.link_failure must be in [0, 1], got -0.1"),
        (lambda: Complete(node_dropout=2), "algorithm.topology.node_dropout must be in [0, 1], got 2"),
        (lambda: ErdosRenyi(redraw=0), "algorithm.topology.redraw must be at least 1, got 0"),
        (lambda: Ring(reach=0), "algorithm.topology.reach must be at least 1, got 0"),
        (lambda: Torus(rows=1), "algorithm.topology.rows must be at least 2, got 1"),
        (lambda: RandomRegular(degree=0), "algorithm.topology.degree must be at least 1, got 0"),
        (lambda: SmallWorld(neighbours=0), "algorithm.topology.neighbours must be at least 2, got 0"),
        (lambda: SmallWorld(neighbours=3), "algorithm.topology.neighbours must be even, got 3"),
        (lambda: SmallWorld(rewire=1.01), "algorithm.topology.rewire must be in [0, 1], got 1.01"),
    ],
)
def test_impossible_settings_are_refused_at_once(make, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        make()


@pytest.mark.parametrize(
    ("topology", "n", "message"),
    [
        (
            Ring(reach=4),
            7,
            "algorithm.topology.reach must be at most half of the 7 clients (3, which links all of them)",
        ),
        (Torus(), 13, "algorithm.topology: 13 clients make no torus of two rows or more, since 13 is prime"),
        (Torus(rows=5), 12, "algorithm.topology.rows must be a divisor of the 12 clients"),
        (Torus(rows=12), 12, "algorithm.topology.rows must be a divisor of the 12 clients that leaves two columns"),
        (RandomRegular(degree=6), 6, "algorithm.topology.degree must be below the number of clients (6), got 6"),
        (RandomRegular(degree=3), 7, "algorithm.topology.degree must be even for an odd number of clients (7), got 3"),
        (SmallWorld(neighbours=6), 6, "algorithm.topology.neighbours must be below the number of clients (6), got 6"),
    ],
)
def test_settings_that_do_not_fit_the_clients_are_refused(topology, n, message):
    with pytest.raises(UserError, match=re.escape(message)):
        topology.edges(n, 0, 0)


def test_a_class_of_ones_own_and_its_mistake():
    @dataclass(frozen=True, kw_only=True)
    class Star(Topology):
        spokes: int = 0

        def draw(self, n, seed):
            return nx.star_graph(self.spokes or n - 1)

    assert Star(connected=True).edges(4, 0, 0).tolist() == [[0, 1], [0, 2], [0, 3]]
    with pytest.raises(UserError, match=r"Star.draw must return the nodes 0 to 3"):
        Star(spokes=4).edges(4, 0, 0)


def test_a_configuration_names_one():
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Topology, "topology")
    short = parser.parse_args(["--topology=ErdosRenyi", "--topology.p=0.3", "--topology.connected=true"])
    path = "flcluster.topology.families.ErdosRenyi"
    long = parser.parse_object({"topology": {"class_path": path, "init_args": {"p": 0.3, "connected": True}}})
    for settings_ in (short, long):
        assert parser.instantiate(settings_).topology == ErdosRenyi(p=0.3, connected=True)
