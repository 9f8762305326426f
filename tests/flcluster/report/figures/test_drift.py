"""What a run's drift picture shows, and what it reads from the metrics."""

import math

import pytest
from runs import make_run

from flcluster.report.curves import cluster_sizes, counts_rounds, points
from flcluster.report.figures.drift import drift_figure
from flcluster.report.figures.of_run import accuracy_of, run_pictures

NAN = math.nan
FULL = {"client_acc": [0.1, 0.4, 0.5], "clusters": [2, 2, 3], "delta": [0.1, 0.2, 0.4], "reclusterings": [0, 0, 1]}
FULL |= {"heterogeneity": [0.5, 0.6, 0.4], "max_distance": [1, 2, 2], "p95_distance": [1, 1, 1]}
FULL |= {"cluster_size_0": [3, 4, 2], "cluster_size_1": [3, 2, 2], "cluster_size_2": [NAN, NAN, 2]}


def drifting(path="unused", step=60.0, **columns):
    base = {"update": [0, 10, 20], "epoch": [0, 1, 2], "time": [0, step, 2 * step]}
    return make_run("Fielding", metrics={**base, **columns}, path=path, dataset="Stream", num_clusters=1)


def panel(figure, title):
    (axes,) = [axes for axes in figure.axes if axes.get_title().startswith(title)]
    return axes


def test_points_are_where_both_were_measured():
    run = drifting(client_acc=[0.1, NAN, 0.3])
    assert [column.tolist() for column in points(run, "epoch", "client_acc")] == [[0, 2], [0.1, 0.3]]
    assert len(points(run, "epoch", "absent")[0]) == 0


def test_time_that_counts_rounds_is_no_simulated_time():
    assert counts_rounds(drifting(step=1)) and not counts_rounds(drifting(step=60))


def test_cluster_sizes_leave_out_rows_and_clusters_without_clients():
    columns = {f"cluster_size_{k}": [NAN, 0, 0] for k in range(11)} | {
        "cluster_size_10": [NAN, 4, 1],
        "cluster_size_2": [NAN, 1, 4],
    }
    rounds, sizes = cluster_sizes(drifting(**columns))
    assert rounds.tolist() == [1, 2]
    assert sizes.tolist() == [[1, 4], [4, 1]]  # 2 before 10


def test_all_panels_of_a_drift_run():
    figure = drift_figure(drifting(**FULL))
    assert len(figure.axes) == 7
    assert panel(figure, "accuracy over rounds").lines[0].get_xydata().tolist() == [[0, 0.1], [1, 0.4], [2, 0.5]]
    assert panel(figure, "accuracy over simulated").lines[0].get_xdata().tolist() == [0, 60, 120]
    assert panel(figure, "accuracy over simulated").get_xlabel() == "simulated time (s)"
    assert panel(figure, "heterogeneity").lines[0].get_ydata().tolist() == [0.5, 0.6, 0.4]
    assert panel(figure, "threshold").lines[0].get_label() == "threshold Δ"
    sizes = panel(figure, "cluster sizes")
    assert len(sizes.collections) == 3 and [line.get_xdata()[0] for line in sizes.lines] == [2]


def test_only_panels_with_data():
    figure = drift_figure(
        drifting(step=1, **{"client_acc": [0.1, 0.2, 0.3], "delta": [NAN] * 3, "clusters": [1, 1, 2]})
    )
    assert [axes.get_title() for axes in figure.axes] == ["accuracy over rounds", "clusters"]


@pytest.mark.parametrize("step", [1, 60.0])
@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"client_acc": [0.1, 0.2, 0.3]},
        {"delta": [NAN] * 3},
        {"client_acc": [0.1, 0.2, 0.3], "heterogeneity": [1.7] * 3, "clusters": [1] * 3, "cluster_size_0": [9] * 3},
    ],
)
def test_a_run_without_drift_has_no_drift_picture(columns, step):
    """Accuracy alone is none, over simulated time neither (accuracy.png has it); nor are level lines, one cluster."""
    assert drift_figure(drifting(step=step, **columns)) is None


def test_pictures_of_a_drift_run(tmp_path):
    run = drifting(tmp_path, **FULL)
    assert [path.name for path in run_pictures(run)] == ["accuracy.png", "drift.png"]
    (clients,) = accuracy_of(run).axes
    assert [line.get_ydata().tolist() for line in clients.lines] == [[0.1, 0.4, 0.5]]


def test_all_clients_are_drawn_rather_than_those_of_a_round():
    figure = accuracy_of(drifting(client_acc=[0.1, 0.2, 0.3], client_acc_after=[0.2, 0.3, 0.4]))
    assert [line.get_ydata().tolist() for line in figure.axes[0].lines] == [[0.1, 0.2, 0.3]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Fielding", "mean over all clients"]
