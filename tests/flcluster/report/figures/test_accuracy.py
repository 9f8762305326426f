"""The data that pictures draw, and that they are pictures."""

import math
import struct
from pathlib import Path

import numpy as np
import pytest

from flcluster.report import style as drawing
from flcluster.report.figures import accuracy as figures
from flcluster.report.figures.of_run import run_pictures
from flcluster.report.report import Run

NAN = math.nan


def make_run(algorithm="CDFL", metrics=None, clients=None, path="unused", **values):
    summary = {"algorithm": algorithm, "dataset": "FashionMNIST", "num_clusters": 2, "seed": 0, "updates": 10, **values}
    metrics = {name: np.array(column, float) for name, column in (metrics or {"update": []}).items()}
    clients = {name: np.array(column) for name, column in (clients or {"client": [], "status": []}).items()}
    return Run(Path(path), summary, metrics, clients, f"{algorithm} seed={summary['seed']}")


def uploads(n=30, estimates=True):
    true = np.linspace(0.0, 1.0, n)
    estimate = true**2 if estimates else np.full(n, NAN)
    columns = {"update": np.arange(n), "client": np.arange(n) + 900, "status": np.array(["accepted"] * n)}
    return columns | {"true_0": true, "true_1": 1 - true, "est_0": estimate, "est_1": 1 - estimate}


def png_size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24])


def heights(axes):
    """Bar heights by (method, position rank)."""
    return [(container.get_label(), pytest.approx(container[0].get_height())) for container in bars(axes)]


def bars(axes):
    return [container for container in axes.containers if hasattr(container, "datavalues")]


def test_accuracy_lines_hold_the_measured_points_only():
    columns = {"update": [0, 5, 10, 15], "client_acc_after": [0.1, 0.2, NAN, 0.4]}
    columns |= {"client_acc_before": [0.0, 0.1, 0.2, 0.3], "cluster_acc": [NAN, NAN, NAN, 0.5]}
    figure = figures.accuracy_figure([make_run(metrics=columns)])
    clients, clusters = figure.axes
    after, before = clients.lines
    np.testing.assert_array_equal(after.get_xydata(), [[0, 0.1], [5, 0.2], [15, 0.4]])
    np.testing.assert_array_equal(before.get_ydata(), [0.0, 0.1, 0.2, 0.3])
    assert (after.get_linestyle(), before.get_linestyle(), after.get_color()) == ("-", "--", drawing.COLOURS["CDFL"])
    (point,) = clusters.lines
    assert (point.get_xydata().tolist(), point.get_marker()) == ([[15, 0.5]], "o")  # one point needs a marker
    assert "updates" in clients.get_xlabel()


@pytest.mark.parametrize("recorded", ["client_acc_after", "client_acc_before"])
def test_local_has_one_solid_line_and_no_cluster_model(recorded):
    local = make_run("Local", {"update": [1, 2, 3], recorded: [0.1, 0.2, 0.3]})
    clients, clusters = figures.accuracy_figure([local]).axes
    assert [line.get_linestyle() for line in clients.lines] == ["-"]
    assert not clusters.lines
    assert clusters.texts[0].get_text() == "no cluster models"


def test_under_label_skew_there_is_a_panel_for_each_test_and_dropouts_are_dashed():
    columns = {"update": [1, 2], "client_acc": [0.1, 0.2], "cluster_acc": [0.3, 0.4], "acc_global": [0.5, 0.6]}
    columns |= {"acc_local": [0.7, 0.8], "acc_local_dropouts": [NAN, 0.2], "acc_global_dropouts": [NAN, NAN]}
    figure = figures.accuracy_figure([make_run("FedAvg", columns, partition="IID", num_clients=5)])
    local, everywhere = figure.axes
    assert [line.get_ydata().tolist() for line in local.lines] == [[0.7, 0.8], [0.2]]
    assert [line.get_linestyle() for line in local.lines] == ["-", "--"]
    assert [line.get_ydata().tolist() for line in everywhere.lines] == [[0.5, 0.6]]
    assert [axes.get_title().splitlines() for axes in figure.axes] == [
        ["FashionMNIST, IID, 5 clients", "clients' own test data"],
        ["FashionMNIST, IID, 5 clients", "global test set"],
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FedAvg", "clients that stay", "dropouts"]


def test_settings_get_rows_of_their_own_and_methods_one_legend_entry():
    columns = {"update": [1, 2], "client_acc_after": [0.1, 0.2]}
    runs = [make_run(metrics=columns, seed=seed, num_clusters=K) for seed in (0, 1) for K in (2, 4)]
    figure = figures.accuracy_figure(runs)
    assert [len(axes.lines) for axes in figure.axes] == [2, 0, 2, 0]
    assert [axes.get_title() for axes in figure.axes[::2]] == [
        "FashionMNIST, K = 2: clients",
        "FashionMNIST, K = 4: clients",
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["CDFL", "client after", "client before"]


def test_mixtures_leave_out_uploads_without_an_estimate_and_show_the_last_twenty():
    clients = uploads()
    clients["status"][-1], clients["est_0"][-1], clients["est_1"][-1] = "refused", NAN, NAN
    scatter, pairs = figures.mixtures_figure(make_run(clients=clients)).axes
    points = scatter.collections[0].get_offsets()
    np.testing.assert_allclose(points, np.stack([clients["true_0"], clients["est_0"]], 1)[:29])
    np.testing.assert_array_equal(scatter.lines[0].get_xydata(), [[0, 0], [1, 1]])
    assert [label.get_text() for label in pairs.get_xticklabels()] == [str(900 + i) for i in range(9, 29)]
    true_0, true_1, est_0, est_1 = pairs.containers
    np.testing.assert_allclose(est_0.datavalues, clients["est_0"][9:29])
    np.testing.assert_allclose([bar.get_height() for bar in true_1], clients["true_1"][9:29])
    np.testing.assert_allclose([bar.get_y() for bar in est_1], clients["est_0"][9:29])  # stacked on cluster 0
    assert true_0[0].get_x() < est_0[0].get_x()


def test_mixtures_of_many_clusters_have_as_many_colours():
    K = 11
    shares = {f"{kind}_{k}": [1 / K] for kind in ("true", "est") for k in range(K)}
    figure = figures.mixtures_figure(
        make_run(clients={"client": [3], "status": ["accepted"], **shares}, num_clusters=K)
    )
    assert len({tuple(points.get_facecolor()[0]) for points in figure.axes[0].collections}) == K


def test_kl_bars_are_means_over_seeds_and_relative_to_fedsoft_async():
    runs = [make_run(kl=0.1), make_run(kl=0.3, seed=1), make_run("FedSoftAsync", kl=0.4), make_run("FedBuff", kl=None)]
    absolute, ratio = figures.kl_figure(runs).axes
    assert heights(absolute) == [("CDFL", 0.2), ("FedSoft-Async", 0.4)]
    assert heights(ratio) == [("CDFL", 0.5), ("FedSoft-Async", 1.0)]
    (low, high) = bars(absolute)[0].errorbar.lines[2][0].get_segments()[0][:, 1]
    assert high - low == pytest.approx(2 * math.sqrt(0.02))


def test_kl_without_fedsoft_async_has_one_panel():
    figure = figures.kl_figure([make_run(kl=0.1), make_run("CCFL", kl=0.2, dataset="digits")])
    assert len(figure.axes) == 1
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["FashionMNIST\nK = 2", "digits\nK = 2"]


def test_overheads_are_per_update_relative_to_cdfl():
    cdfl = make_run(download_bytes=100, client_compute=50)
    soft = make_run("FedSoftAsync", download_bytes=400, client_compute=120, updates=20)
    lone = make_run("FedSoftAsync", download_bytes=400, client_compute=60, dataset="digits")
    download, compute = figures.overheads_figure([cdfl, soft, lone]).axes
    assert heights(download) == [("CDFL", 1.0), ("FedSoft-Async", 2.0)]  # digits has no CDFL to compare with
    assert heights(compute) == [("CDFL", 1.0), ("FedSoft-Async", 1.2)]
    assert download.get_ylabel() == "ratio (CDFL = 1)"
    ccfl = make_run("CCFL", download_bytes=100, client_compute=50)
    assert figures.overheads_figure([ccfl, soft]).axes[0].get_ylabel() == "ratio (CCFL = 1)"


def test_nothing_to_draw_gives_none_and_writes_nothing(tmp_path):
    empty, path = make_run("FedBuff", clients=uploads(estimates=False)), tmp_path / "x.png"
    assert figures.accuracy_over_time([empty], path) is None
    assert figures.accuracy_over_time([], path) is None
    assert figures.mixtures(empty, path) is None
    assert figures.mixtures(make_run(), path) is None
    assert figures.kl_per_method([empty], path) is None
    assert figures.overheads([make_run("FedSoftAsync", download_bytes=1, client_compute=1)], path) is None
    assert not path.exists()


def test_pictures_are_pngs_of_a_readable_size(tmp_path):
    columns = {"update": [1, 2], "client_acc_after": [0.1, 0.2], "cluster_acc": [0.1, 0.3]}
    totals = {"kl": 0.1, "download_bytes": 10, "client_compute": 10}
    runs = [make_run(m, columns, uploads(), num_clusters=2, dataset=d, **totals)
            for m in ("CDFL", "FedSoftAsync") for d in ("a", "b", "c")]  # fmt: skip
    drawn = [figures.kl_per_method(runs, tmp_path / "new" / "kl.png"), figures.overheads(runs, tmp_path / "over.png")]
    drawn += [
        figures.accuracy_over_time(runs[:1], tmp_path / "acc.png"),
        figures.mixtures(runs[0], tmp_path / "mix.png"),
    ]
    for path in drawn:
        width, height = png_size(path)
        assert 600 <= width <= 4000
        assert 400 <= height <= 4000


@pytest.mark.parametrize(("estimates", "names"), [(True, ["accuracy.png", "mixtures.png"]), (False, ["accuracy.png"])])
def test_a_run_draws_into_its_own_directory(tmp_path, estimates, names):
    columns = {"update": [1], "client_acc_after": [0.1]}
    run = make_run("FedBuff", columns, uploads(estimates=estimates), path=tmp_path)
    assert run_pictures(run) == [tmp_path / name for name in names]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_each_method_has_its_own_colour():
    assert len(set(drawing.COLOURS.values())) == len(drawing.COLOURS) == 8
    beside = [*drawing.DRIFT_COLOURS.values(), drawing.colour("FedAvg"), drawing.colour("IFCA")]
    assert len(set(beside)) == len(beside) == 10
    gossip = [drawing.colour(name) for name in ("DFCA-GI", "DFCA-LI", "DFedAvgM", "FedSPD", "AsyncDFCA-GI")]
    beside = [*gossip, drawing.colour("AsyncDFCA-LI"), drawing.colour("FedAvg"), drawing.colour("IFCA")]
    assert len(set(beside)) == len(beside) == 8
    skewed = [*drawing.SKEW_COLOURS.values(), drawing.colour("FedAvg"), drawing.colour("Local")]
    assert len(set(skewed)) == len(skewed) == 8
    assert drawing.colour("AP-FL (MiniLM)") == drawing.colour("AP-FL") != drawing.colour("AP-FL (one-hot (control))")
    assert drawing.colour("FedSoftAsync") == drawing.colour("FedSoft-Async") == drawing.COLOURS["FedSoft-Async"]
    assert drawing.colour("Unheard") == drawing.colour("Unheard") in drawing.OTHERS
