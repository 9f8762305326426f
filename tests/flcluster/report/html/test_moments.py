"""What is known of every client over time, and what pages say of it: the distribution, clusters, moves."""

import math

import numpy as np
from pages import cdfl_run
from runs import make_run

from flcluster.records.reader import Run, load_runs
from flcluster.report.html.cautions import said_of
from flcluster.report.html.clusters import bars, clusters_section, flows_plot, moves_plot, ribbons, sizes_plot
from flcluster.report.html.group import grouped
from flcluster.report.html.moments import history
from flcluster.report.html.people import clients_section, finals
from flcluster.report.style import shade
from flcluster.score import Score

NAN = math.nan


def uploads(rows, sessions, **summary):
    """A run of uploads (update, client, label, before, after)."""
    names = ("update", "client", "label", "acc_before", "acc_after")
    columns = {name: np.array(column, float) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    columns["status"] = np.array(["accepted"] * len(rows))
    return make_run("DFCA", metrics={"update": sessions}, clients=columns, **{"num_clients": 3, **summary})


ROWS = [(1, 0, 0, 0.1, 0.2), (2, 1, 1, 0.3, NAN), (3, 0, 1, 0.5, 0.6), (4, 1, 1, 0.7, 0.8)]


def test_uploads_tell_of_a_client_until_its_next():
    moments = history(uploads(ROWS, [0, 2, 4]))
    assert moments.updates.tolist() == [2, 4]
    assert moments.labels.tolist() == [[0, 1, -1], [1, 1, -1]]
    np.testing.assert_array_equal(moments.accuracies, [[0.2, 0.3, NAN], [0.6, 0.8, NAN]])


def test_the_population_is_believed_before_uploads(tmp_path):
    path = cdfl_run(tmp_path / "run", clients=3)
    told = "update,epoch,client,label,accuracy\n0,0,0,1,0.5\n0,0,1,1,0.25\n0,0,2,-1,\n6,6,1,0,0.75\n"
    (path / "population.csv").write_text(told)
    moments = history(Run.load(path))
    assert moments.updates.tolist() == [0, 3, 6]
    assert moments.labels.tolist() == [[1, 1, -1], [1, 1, -1], [1, 0, -1]]
    np.testing.assert_array_equal(finals(Run.load(path)), [0.5, 0.75, NAN])


def test_an_estimate_is_a_cluster_by_its_largest_share(tmp_path):
    path = cdfl_run(tmp_path / "run", clients=4, cycles=1, K=3)
    run = Run.load(path)
    largest = np.stack([run.clients[f"est_{k}"] for k in range(3)], 1).argmax(1)
    assert history(run).labels[-1].tolist() == largest.tolist()


def test_ribbons_are_as_wide_as_clients_go_and_fit_together():
    """0 → 0: client 0; 0 → 1: clients 1 and 2; 1 → 1: client 3. On the right cluster 1 begins at 1."""
    drawn = ribbons(np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1]), at=0)
    assert [each["text"] for each in drawn] == [
        "1 stayed in cluster 0",
        "2 went from cluster 0 to cluster 1: 1, 2",
        "1 stayed in cluster 1",
    ]
    sides = [[each["y"][i] for i in (0, 8, 9, 17)] for each in drawn]  # left low, right low, right high, left high
    assert sides == [[0, 0, 1, 1], [1, 1, 3, 3], [3, 3, 4, 4]]
    colours = [each["fillcolor"] for each in drawn]
    assert colours == [f"{shade(0)}/25", f"{shade(0)}/60", f"{shade(1)}/25"]
    assert [each["text"] for each in bars(np.array([0, 1, 1]), 0)] == ["cluster 0: 1 clients", "cluster 1: 2 clients"]


def test_sizes_and_moves_count_clients():
    moments = history(uploads(ROWS, [0, 2, 4]))
    assert {trace["name"]: trace["y"] for trace in sizes_plot(moments)["traces"]} == {
        "cluster 0": [1, 0],
        "cluster 1": [1, 2],
    }
    (trace,) = moves_plot(moments)["traces"]
    assert (trace["x"], trace["y"], trace["text"]) == ([4.0], [1], ["1 moved: clients 0"])
    assert flows_plot(moments)["layout"]["xaxis"]["ticktext"] == ["2", "4"]


def test_one_cluster_is_no_section():
    assert clusters_section(grouped([uploads([(1, 0, 0, 0.1, 0.2), (2, 1, 0, 0.1, 0.2)], [0, 2])])) is None


def test_numbers_of_the_clients_are_those_of_their_last_models():
    """Twenty clients, 0.05 to 1: the worst decile are two, on average 0.075."""
    rows = [(i + 1, i, 0, 0.0, (i + 1) / 20) for i in range(20)]
    section = clients_section(grouped([uploads(rows, [0, 20], num_clients=20)]), Score())
    table, views = section["blocks"]
    row = dict(zip(table["heads"], table["rows"][0], strict=True))
    assert (row["Clients"], row["Mean"], row["Worst decile"], row["Best"]) == ("20", "0.525", "0.075", "1.000")
    assert row["Worst clients"] == "0, 1, 2, 3, 4"
    (curve,) = views["options"][0]["blocks"][0]["traces"]
    assert curve["y"][:2] == [0.05, 0.1] and curve["text"][0] == "DFCA: 0.050<br>client 0"
    loss = clients_section(grouped([uploads(rows, [0, 20], num_clients=20)]), Score("loss", higher=False))
    assert loss["blocks"][0]["rows"][0][3] == "0.975" and loss["blocks"][0]["rows"][0][-1] == "19, 18, 17, 16, 15"
    (counts,) = views["options"][1]["blocks"][0]["traces"]
    assert sum(counts["y"]) == 20


def test_warnings_name_what_and_who(tmp_path):
    (run,) = load_runs([cdfl_run(tmp_path / "run", status="stopped: SIGINT", lost=3)])
    said = said_of(run)
    assert said[0] == "stopped: SIGINT, so its numbers are not final"
    assert said[1] == "1 uploads were refused (not finite or of the wrong shape), by clients 2 (1)"
    assert said[2] == "3 times a client went offline before it was done"
    (fine,) = load_runs([cdfl_run(tmp_path / "other")])
    assert len(said_of(fine)) == 1


def test_warnings_of_the_log_are_repeated_once(tmp_path):
    (run,) = load_runs([cdfl_run(tmp_path / "run")])
    lines = ["2026-01-01 10:00:00 CDFL: round 1", *["2026-01-01 10:00:01 UserWarning: no GPU."] * 2]
    (run.path / "run.log").write_text("\n".join([*lines, "2026-01-01 10:00:02 ended by UserError: no data"]))
    assert said_of(run)[1:] == ["the log says: UserWarning: no GPU", "the log says: ended by UserError: no data"]
