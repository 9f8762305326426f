"""The picture of a run's graph: what it reads, how it matches colours, and where it puts clients."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from runs import make_run

from flcluster.errors import UserError
from flcluster.report.figures.network import GREY, Moment, grouped, moments, network_figure, sunflower, with_partners
from flcluster.report.figures.of_run import run_pictures
from flcluster.report.style import shade
from flcluster.topology.base import edge_table
from flcluster.topology.families import ErdosRenyi

NAN = math.nan
EDGES = "round,source,target\n0,0,1\n0,1,2\n0,2,4\n9,0,3\n"
TRUTH = [0, 0, 1, 1, NAN]
ROWS = [(0, 1), (1, 0), (2, 0), (3, 0), (0, NAN), (1, 1), (0, 1), (2, 0), (3, 1)]
"""(client, label) in order of time: at the end 0 and 1 have label 1, client 2 has 0, and 3 wrongly 1; 4 is absent."""


def gossip(path, rows=ROWS, truth=TRUTH, edges=EDGES, **summary):
    clients = {"client": [c for c, _ in rows], "label": [label for _, label in rows], "update": range(len(rows))}
    if truth is not None:
        clients |= {f"true_{k}": [0.8 if truth[c] == k else 0.2 for c, _ in rows] for k in (0, 1)}
    if edges is not None:
        (Path(path) / "edges.csv").write_text(edges)
    columns = {name: np.array(list(column), float) for name, column in clients.items()}
    told = {"dataset": "MNIST", "num_clients": 5, "label": "DFCA MNIST K=2", **summary}
    return make_run("DFCA", clients={**columns, "status": ["accepted"] * len(rows)}, path=path, **told)


def dots(axes):
    """Return {position: (colour, outline)} of all clients of a panel."""
    found = {}
    for points in axes.collections:
        if isinstance(points, PathCollection) and len(points.get_offsets()):
            edge = to_hex(points.get_edgecolor()[0])
            for at, ink in zip(points.get_offsets(), points.get_facecolor(), strict=True):
                found[tuple(np.round(at, 6))] = (to_hex(ink), edge)
    return found


def clients_of(figure, run):
    """Return, for each panel, (colour, outline) client by client."""
    positions = np.round(grouped(moments(run)[1].truth)[0], 6)
    return [[dots(axes)[tuple(at)] for at in positions] for axes in figure.axes]


def segments(axes):
    (lines,) = [lines for lines in axes.collections if isinstance(lines, LineCollection)]
    return sorted(np.round(segment, 6).tolist() for segment in lines.get_segments())


def test_moments_are_each_clients_first_and_last_row_with_a_label(tmp_path):
    start, end = moments(gossip(tmp_path))
    assert start.labels.tolist() == [1, 0, 0, 0, -1]
    assert end.labels.tolist() == [1, 1, 0, 1, -1]
    assert start.truth.tolist() == end.truth.tolist() == [0, 0, 1, 1, -1]


def test_clients_beyond_the_summary_and_without_a_mixture(tmp_path):
    start, _ = moments(gossip(tmp_path, rows=[(6, 2)], truth=None, num_clients=None))
    assert start.labels.tolist() == [-1] * 6 + [2]
    assert start.truth.tolist() == [-1] * 7


def test_colours_outlines_and_titles(tmp_path):
    """Label 1 is matched with cluster 0, label 0 with 1. Start: 0:1 right, 1:0 wrong, 2:0 right, 3:0 right."""
    blue, orange, grey = shade(0).lower(), shade(1).lower(), to_hex(GREY)
    white, black = "#ffffff", "#000000"
    run = gossip(tmp_path)
    figure = network_figure(run)
    start, end = clients_of(figure, run)
    assert start == [(blue, white), (orange, black), (orange, white), (orange, white), (grey, white)]
    assert end == [(blue, white), (blue, white), (orange, white), (blue, black), (grey, white)]
    left, right = (axes.get_title() for axes in figure.axes)
    assert left == "start: purity 0.75, 3 links (graph of round 0)"
    assert right == "end: purity 0.75, 1 link (graph of round 9)"
    names = ["assigned cluster 1", "assigned cluster 0", "not its true cluster", "never took part"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
    assert [t.get_text() for t in figure.axes[0].texts] == ["true cluster 0", "true cluster 1", "true cluster unknown"]


def test_purity_is_that_of_the_moment_under_its_own_best_matching(tmp_path):
    """All labels are swapped at the start: pure, but under the colours of the end all wrong."""
    run = gossip(tmp_path, rows=[(0, 0), (1, 0), (2, 1), (3, 1), (0, 1), (1, 1), (2, 0), (3, 0)])
    figure = network_figure(run)
    assert [axes.get_title().split(",")[0] for axes in figure.axes] == ["start: purity 1.00", "end: purity 1.00"]
    start, end = clients_of(figure, run)
    assert [edge for _, edge in start[:4]] == ["#000000"] * 4 and [edge for _, edge in end[:4]] == ["#ffffff"] * 4


def test_links_join_their_clients(tmp_path):
    run = gossip(tmp_path)
    at = np.round(grouped(moments(run)[1].truth)[0], 6)
    first, last = (segments(axes) for axes in network_figure(run).axes)
    assert first == sorted([at[i].tolist(), at[j].tolist()] for i, j in ((0, 1), (1, 2), (2, 4)))
    assert last == [[at[0].tolist(), at[3].tolist()]]


def test_a_graph_that_did_not_change_is_drawn_twice(tmp_path):
    run = gossip(tmp_path, edges="round,source,target\n0,0,1\n")
    first, last = (segments(axes) for axes in network_figure(run).axes)
    assert first == last and len(first) == 1


def test_labels_without_a_partner_take_what_is_left():
    """At the end label 5 is matched with 2 and label 0 with 0; 7 was there at the start only and takes 1; 8 takes 3."""
    end = Moment(np.array([5, 5, 0, 8]), np.array([2, 2, 0, 0]))
    start = Moment(np.array([7, 5, 0, -1]), end.truth)
    end.labels[3] = 0
    assert with_partners(start, end) == {0: 0, 7: 1, 5: 2}
    more = Moment(np.array([8, 5, 0, 7]), end.truth)
    assert with_partners(more, end) == {0: 0, 7: 1, 5: 2, 8: 3}


@pytest.mark.parametrize("sizes", [[7], [5, 9], [1, 1, 1], [60, 60, 60, 60, 20], [3] * 9])
def test_clusters_lie_in_discs_that_do_not_touch(sizes):
    truth = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)) - (len(sizes) == 5), sizes))
    positions, places = grouped(truth)
    assert sorted(place.cluster for place in places) == sorted(set(truth.tolist()))
    for place in places:
        far = np.linalg.norm(positions - place.centre, axis=1)
        assert ((far < place.radius) == (truth == place.cluster)).all()
        for other in places:
            apart = np.linalg.norm(place.centre - other.centre)
            assert other is place or apart > place.radius + other.radius


def test_seeds_lie_apart_in_their_disc():
    at = sunflower(200)
    gaps = np.linalg.norm(at[:, None] - at[None], axis=2)[~np.eye(200, dtype=bool)]
    assert gaps.min() > 1.1 and np.linalg.norm(at, axis=1).max() < math.sqrt(200)


def test_a_run_without_true_clusters_has_no_purity(tmp_path):
    figure = network_figure(gossip(tmp_path, truth=None))
    assert figure.axes[0].get_title() == "start: 3 links (graph of round 0)"
    assert "not its true cluster" not in [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("kwargs", [{"edges": None}, {"rows": []}, {"rows": [(0, NAN), (1, NAN)]}])
def test_nothing_to_draw(tmp_path, kwargs):
    assert network_figure(gossip(tmp_path, **kwargs)) is None
    without = gossip(tmp_path)
    del without.clients["label"]
    assert network_figure(without) is None


BROKEN = [("round,source,target\n0,0,9\n", "line 2: '0 0 9' must be .* from 0 to 4"), ("", "holds no links")]


@pytest.mark.parametrize(("text", "words"), [*BROKEN, ("round,source,target\n0,0\n", "line 2: '0 0' must be")])
def test_a_broken_edges_csv_is_named(tmp_path, text, words):
    with pytest.raises(UserError, match=words) as error:
        network_figure(gossip(tmp_path, edges=text))
    assert "edges.csv" in str(error.value) and "delete it to do without network.png" in str(error.value)


def test_a_run_draws_its_network(tmp_path):
    n = 40
    rows = [(c, (c + t) % 4) for t in (0, 1) for c in range(n)]
    text = edge_table(ErdosRenyi(redraw=1), n, [0, 9], 0)
    run = gossip(tmp_path, rows=rows, truth=[c % 2 for c in range(n)], edges=text, num_clients=n)
    assert run_pictures(run) == [tmp_path / "network.png"]
    assert (tmp_path / "network.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_run_of_one_client_and_no_links(tmp_path):
    figure = network_figure(gossip(tmp_path, rows=[(0, 0)], edges="round,source,target\n", num_clients=1))
    assert [axes.get_title() for axes in figure.axes] == [f"{name}: purity 1.00, 0 links (graph of round 0)"
                                                          for name in ("start", "end")]  # fmt: skip
