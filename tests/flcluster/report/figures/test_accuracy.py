"""The data that pictures draw, and that they are pictures."""

import math
import struct

import numpy as np
import pytest
from runs import make_run

from flcluster.report import style as drawing
from flcluster.report.figures.accuracy import accuracy_figure
from flcluster.report.figures.costs import kl_figure, overheads_figure
from flcluster.report.figures.mixtures import mixtures_figure
from flcluster.report.figures.of_run import accuracy_of, run_pictures
from flcluster.report.summaries import repeats

NAN = math.nan


def groups_of(*runs):
    """Repeats, and the colours of their methods."""
    groups = repeats(runs)
    return groups, drawing.inks(key[2] for key in groups)


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
    figure = accuracy_of(make_run(metrics=columns))
    clients, clusters = figure.axes
    after, before = clients.lines
    np.testing.assert_array_equal(after.get_xydata(), [[0, 0.1], [5, 0.2], [15, 0.4]])
    np.testing.assert_array_equal(before.get_ydata(), [0.0, 0.1, 0.2, 0.3])
    assert (after.get_linestyle(), before.get_linestyle(), after.get_color()) == ("-", "--", drawing.shade(0))
    (point,) = clusters.lines
    assert (point.get_xydata().tolist(), point.get_marker()) == ([[15, 0.5]], "o")  # one point needs a marker
    assert "updates" in clients.get_xlabel()


@pytest.mark.parametrize("recorded", [["after"], ["before"], ["after", "before"]])
def test_where_no_reply_parts_before_from_after_there_is_one_solid_line(recorded):
    local = make_run(
        "Local", metrics={"update": [1, 2, 3], **{f"client_acc_{when}": [0.1, NAN, 0.3] for when in recorded}}
    )
    (clients,) = accuracy_of(local).axes  # a panel of cluster models would be empty
    assert [line.get_linestyle() for line in clients.lines] == ["-"]


def test_under_label_skew_there_is_a_panel_for_each_test_and_dropouts_are_dashed():
    columns = {"update": [1, 2], "client_acc": [0.1, 0.2], "cluster_acc": [0.3, 0.4], "acc_global": [0.5, 0.6]}
    columns |= {"acc_local": [0.7, 0.8], "acc_local_dropouts": [NAN, 0.2], "acc_global_dropouts": [NAN, NAN]}
    figure = accuracy_of(make_run("FedAvg", metrics=columns, partition="IID", num_clients=5))
    local, everywhere = figure.axes
    assert [line.get_ydata().tolist() for line in local.lines] == [[0.7, 0.8], [0.2]]
    assert [line.get_linestyle() for line in local.lines] == ["-", "--"]
    assert [line.get_ydata().tolist() for line in everywhere.lines] == [[0.5, 0.6]]
    assert [axes.get_title().splitlines() for axes in figure.axes] == [
        ["FashionMNIST, IID, 5 clients", "clients' own test data"],
        ["FashionMNIST, IID, 5 clients", "global test set"],
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FedAvg", "clients that stay", "dropouts"]


def test_updates_are_whole_numbers():
    run = make_run("FedAvg", metrics={"update": [20, 40], "client_acc": [0.1, 0.2]})
    (axes,) = accuracy_of(run).axes
    ticks = [tick for tick in axes.get_xticks() if 20 <= tick <= 40]
    assert len(ticks) > 1 and all(tick == int(tick) for tick in ticks)


def test_no_panel_is_empty():
    """Rows of a figure keep their places: one setting has cluster models, the other has none."""
    with_models = make_run(
        metrics={"update": [1, 2], "client_acc": [0.1, 0.2], "cluster_acc": [0.3, 0.4]}, num_clusters=2
    )
    without = make_run("FedAvg", metrics={"update": [1, 2], "client_acc": [0.1, 0.2]}, num_clusters=4)
    unseen = make_run("Local", metrics={"update": [1, 2]}, num_clusters=3)
    figure = accuracy_figure(*groups_of(with_models, without, unseen))
    assert [len(axes.lines) for axes in figure.axes] == [1, 1, 1]
    assert accuracy_of(unseen) is None


def test_settings_get_rows_of_their_own_and_methods_one_legend_entry():
    columns = {"update": [1, 2], "client_acc_after": [0.1, 0.2]}
    runs = [make_run(metrics=columns, seed=seed, num_clusters=K) for seed in (0, 1) for K in (2, 4)]
    figure = accuracy_figure(*groups_of(*runs))
    assert [len(axes.lines) for axes in figure.axes] == [1, 1]  # seeds share a line
    assert [axes.get_title() for axes in figure.axes] == [
        "FashionMNIST, K = 2: clients",
        "FashionMNIST, K = 4: clients",
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["CDFL", "client after", "client before"]


def test_mixtures_leave_out_uploads_without_an_estimate_and_show_the_last_twenty():
    clients = uploads()
    clients["status"][-1], clients["est_0"][-1], clients["est_1"][-1] = "refused", NAN, NAN
    scatter, pairs = mixtures_figure(make_run(clients=clients)).axes
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
    figure = mixtures_figure(make_run(clients={"client": [3], "status": ["accepted"], **shares}, num_clusters=K))
    assert len({tuple(points.get_facecolor()[0]) for points in figure.axes[0].collections}) == K


def test_kl_bars_are_means_over_seeds_and_relative_to_fedsoft_async():
    runs = [make_run(kl=0.1), make_run(kl=0.3, seed=1), make_run("FedSoft-Async", kl=0.4), make_run("FedBuff", kl=None)]
    absolute, ratio = kl_figure(*groups_of(*runs)).axes
    assert heights(absolute) == [("CDFL", 0.2), ("FedSoft-Async", 0.4)]
    assert heights(ratio) == [("CDFL", 0.5), ("FedSoft-Async", 1.0)]
    (low, high) = bars(absolute)[0].errorbar.lines[2][0].get_segments()[0][:, 1]
    assert high - low == pytest.approx(2 * math.sqrt(0.02))


def test_kl_without_fedsoft_async_has_one_panel():
    figure = kl_figure(*groups_of(make_run(kl=0.1), make_run("CCFL", kl=0.2, dataset="digits")))
    assert len(figure.axes) == 1
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["FashionMNIST\nK = 2", "digits\nK = 2"]


def test_overheads_are_per_update_relative_to_cdfl():
    cdfl = make_run(download_bytes=100, client_compute=50)
    soft = make_run("FedSoft-Async", download_bytes=400, client_compute=120, updates=20)
    lone = make_run("FedSoft-Async", download_bytes=400, client_compute=60, dataset="digits")
    download, compute = overheads_figure(*groups_of(cdfl, soft, lone)).axes
    assert heights(download) == [("CDFL", 1.0), ("FedSoft-Async", 2.0)]  # digits has no CDFL to compare with
    assert heights(compute) == [("CDFL", 1.0), ("FedSoft-Async", 1.2)]
    assert download.get_ylabel() == "ratio (CDFL = 1)"
    ccfl = make_run("CCFL", download_bytes=100, client_compute=50)
    assert overheads_figure(*groups_of(ccfl, soft)).axes[0].get_ylabel() == "ratio (CCFL = 1)"


def test_nothing_to_draw_gives_none_and_writes_nothing(tmp_path):
    empty, path = make_run("FedBuff", clients=uploads(estimates=False)), tmp_path / "x.png"
    lone = make_run("FedSoft-Async", download_bytes=1, client_compute=1)
    assert accuracy_of(empty) is accuracy_figure({}, {}) is None
    assert mixtures_figure(empty) is mixtures_figure(make_run()) is None
    assert kl_figure(*groups_of(empty)) is overheads_figure(*groups_of(lone)) is None
    assert drawing.save(None, path) is None and not path.exists()


def test_pictures_are_pngs_of_a_readable_size(tmp_path):
    columns = {"update": [1, 2], "client_acc_after": [0.1, 0.2], "cluster_acc": [0.1, 0.3]}
    totals = {"kl": 0.1, "download_bytes": 10, "client_compute": 10}
    runs = [make_run(m, metrics=columns, clients=uploads(), dataset=d, **totals)
            for m in ("CDFL", "FedSoft-Async") for d in ("a", "b", "c")]  # fmt: skip
    drawn = [kl_figure(*groups_of(*runs)), overheads_figure(*groups_of(*runs)), accuracy_of(runs[0])]
    for at, figure in enumerate([*drawn, mixtures_figure(runs[0])]):
        width, height = png_size(drawing.save(figure, tmp_path / "new" / f"{at}.png"))
        assert 600 <= width <= 4000
        assert 400 <= height <= 4000


@pytest.mark.parametrize(("estimates", "names"), [(True, ["accuracy.png", "mixtures.png"]), (False, ["accuracy.png"])])
def test_a_run_draws_into_its_own_directory(tmp_path, estimates, names):
    columns = {"update": [1], "client_acc_after": [0.1]}
    run = make_run("FedBuff", metrics=columns, clients=uploads(estimates=estimates), path=tmp_path)
    assert run_pictures(run) == [tmp_path / name for name in names]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_each_method_has_its_own_colour_in_order_of_appearance():
    inks = drawing.inks(["FedAvg", "Unheard", "FedAvg", *"abcdefghij"])
    assert list(inks)[:3] == ["FedAvg", "Unheard", "a"] and inks["FedAvg"] == drawing.OKABE_ITO[0]
    assert len(set(inks.values())) == len(inks) == 12


def test_a_line_is_the_mean_over_seeds_and_its_band_a_standard_deviation():
    rows = ([0.1, 0.2], [0.3, 0.6], [0.2, 0.4])
    runs = [make_run(metrics={"update": [1, 2], "client_acc_after": row}, seed=s) for s, row in enumerate(rows)]
    axes = accuracy_figure(*groups_of(*runs)).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.2, 0.4])
    band = axes.collections[0].get_paths()[0].vertices
    assert {0.1, 0.3} <= set(band[band[:, 0] == 1, 1].round(6)) and {0.2, 0.6} <= set(band[band[:, 0] == 2, 1].round(6))
    assert not accuracy_figure(*groups_of(runs[0])).axes[0].collections
