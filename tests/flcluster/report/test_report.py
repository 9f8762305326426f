"""Run directories written by hand, read back, tabled and reported."""

import csv

import numpy as np
import pytest
from rich.console import Console
from runs import write_run

from flcluster.errors import UserError
from flcluster.records.reader import Run, load_runs
from flcluster.report.report import summary_table, write_report

METRICS = {"update": [5, 10], "epoch": [0, 1], "time": [1.5, 3.0], "client_acc_before": [0.5, 0.7]}
METRICS |= {"client_acc_after": [0.6, 0.8], "cluster_acc": ["", 0.82], "kl": ["", 0.125]}
CLIENTS = {"update": [1, 2], "client": [7, 39], "status": ["accepted", "refused"], "fresh": [True, False]}
CLIENTS |= {"true_0": [0.9, 0.3], "true_1": [0.1, 0.7], "est_0": [0.8, ""], "est_1": [0.2, ""]}


def ran(path, algorithm="CDFL", seed=0, **values):
    base = {"client_acc_before": 0.71, "client_acc_before_std": 0.02, "client_acc_after": 0.8}
    base |= {
        "client_acc_after_std": 0.01,
        "cluster_acc": 0.82,
        "kl": 0.125,
        "fresh_share": 0.75,
        "refused": 1,
        "undone": 0,
    }
    base |= {"deprecated_share": 0.2, "download_bytes": 1000, "client_compute": 50, "wall_seconds": 3723.4}
    return write_run(path, algorithm, seed, METRICS, CLIENTS, **{**base, **values})


def test_a_run_is_read_as_written(tmp_path):
    run = Run.load(ran(tmp_path / "run", "FedSoft-Async", seed=3))
    assert run.label == "FedSoft-Async FashionMNIST K=2 seed=3"
    assert run.summary["client_acc_after"] == 0.8
    np.testing.assert_array_equal(run.metrics["cluster_acc"], [np.nan, 0.82])
    np.testing.assert_array_equal(run.clients["client"], [7, 39])
    np.testing.assert_array_equal(run.clients["fresh"], [1, 0])
    assert run.clients["status"].tolist() == ["accepted", "refused"]
    np.testing.assert_array_equal(run.clients["est_1"], [0.2, np.nan])


def test_a_run_without_uploads_has_empty_columns(tmp_path):
    path = ran(tmp_path / "run")
    (path / "clients.csv").write_text(",".join(CLIENTS) + "\n")
    assert Run.load(path).clients["est_0"].shape == (0,)


@pytest.mark.parametrize("name", ["summary.json", "metrics.csv", "clients.csv"])
def test_a_missing_file_is_named(tmp_path, name):
    path = ran(tmp_path / "run")
    (path / name).unlink()
    with pytest.raises(UserError, match=rf"run/{name} is missing: resume"):
        Run.load(path)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("summary.json", '{"algorithm": "CD', "not valid JSON"),
        ("summary.json", "[1, 2]", "lacks algorithm, dataset, num_clusters"),
        ("summary.json", '{"algorithm": "CDFL", "dataset": "x", "num_clusters": null}', "lacks num_clusters"),
        ("summary.json", '{"algorithm": "CDFL", "dataset": "x", "num_clusters": 2, "kl": "low"}', "kl is 'low'"),
        ("metrics.csv", "", "no column update"),
        ("metrics.csv", "update,kl\n1,0.5\n2", r"line 3: 1 cells instead of 2"),
        ("metrics.csv", "update,kl\n1,oops\n", "line 2, column kl: 'oops' is no number"),
        ("clients.csv", "update,client\n1,2\n", "no column status"),
    ],
)
def test_a_corrupt_file_is_named_with_what_is_wrong(tmp_path, name, text, says):
    path = ran(tmp_path / "run")
    (path / name).write_text(text)
    with pytest.raises(UserError, match=rf"{name}.*{says}"):
        Run.load(path)


def test_binary_garbage_is_a_user_error(tmp_path):
    path = ran(tmp_path / "run")
    (path / "metrics.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(UserError, match=r"metrics.csv cannot be read"):
        Run.load(path)


def test_runs_are_found_at_any_depth_once_and_in_table_order(tmp_path):
    ran(tmp_path / "a" / "deep" / "local", "Local")
    ran(tmp_path / "b", "CDFL", seed=1)
    ran(tmp_path / "c", "CDFL", seed=0)
    runs = load_runs([tmp_path, tmp_path / "b"])
    assert [run.path.name for run in runs] == ["c", "b", "local"]


def test_an_unfinished_run_in_a_folder_is_left_out_aloud(tmp_path):
    ran(tmp_path / "done")
    (ran(tmp_path / "killed") / "summary.json").unlink()
    with pytest.warns(UserWarning, match="killed has no summary.json"):
        assert [run.path.name for run in load_runs([tmp_path])] == ["done"]
    with pytest.raises(UserError, match=r"killed/summary.json is missing"):
        load_runs([tmp_path / "killed"])


def test_paths_without_runs_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="holds no finished run"):
        load_runs([tmp_path])
    with pytest.raises(UserError, match="nowhere is not a directory"):
        load_runs([tmp_path / "nowhere"])
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is not a directory"):
        load_runs([tmp_path / "file"])


def cells(table):
    columns = [list(column.cells) for column in table.columns]
    titles = [str(column.header).replace("\n", " ") for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in zip(*columns, strict=True)]


def test_the_summary_table_has_our_numbers_and_the_papers(tmp_path):
    ran(tmp_path / "cdfl", download_bytes=500, updates=20)
    soft = {"download_bytes": 750, "kl": None, "wall_seconds": None, "deprecated_share": None}
    ran(tmp_path / "soft", "FedSoft-Async", **soft)
    table = summary_table(load_runs([tmp_path]))
    ours, paper, soft_row, soft_cdfl, soft_ccfl = cells(table)
    assert list(ours.values()) == [
        *("CDFL", "FashionMNIST", "2", "40", "20", "0.710 ±0.020", "0.800 ±0.010", "0.820", "0.125"),
        *("75.0", "20.0", "1.00", "3723"),
    ]
    assert list(paper.values())[:8] == [" CDFL paper", "FashionMNIST", "2", "", "", "", "0.834 ±0.003", "0.838 ±0.007"]
    assert (soft_row["Method"], soft_row["Download, ratio"]) == ("FedSoft-Async", "3.00")
    assert (soft_row["KL"], soft_row["Depr., %"], soft_row["Wall time, s"]) == ("", "", "")
    assert soft_cdfl["Cluster"] == "0.833 ±0.008"
    assert (soft_ccfl["Method"], soft_ccfl["Client before"]) == (" CCFL paper", "0.798 ±0.012")
    assert [row.style for row in table.rows] == [None, "dim", None, "dim", "dim"]


def test_columns_that_no_run_has_are_left_out(tmp_path):
    """A run under drift: all clients are measured, nobody uploads a mixture."""
    none = dict.fromkeys(("client_acc_before", "client_acc_before_std", "client_acc_after", "cluster_acc", "kl"))
    drift = {"client_acc": 0.61, "client_acc_std": 0.1, "reclusterings": 7, "heterogeneity": 0.4, "dataset": "Stream"}
    ran(tmp_path / "drift", "Fielding", **{**none, **drift, "client_acc_after_std": None, "num_clusters": 1})
    (row,) = cells(summary_table(load_runs([tmp_path])))
    assert list(row) == ["Method", "Dataset", "K", "Clients", "Updates", "Accuracy", "Heterogeneity",
                         "Re-clusterings", "Fresh, %", "Depr., %", "Wall time, s"]  # fmt: skip
    assert (row["Accuracy"], row["Re-clusterings"], row["Heterogeneity"]) == ("0.610 ±0.100", "7", "0.400")
    ran(tmp_path / "cdfl")
    drift_row, cdfl_row, *_ = reversed(
        [r for r in cells(summary_table(load_runs([tmp_path]))) if "paper" not in r["Method"]]
    )
    assert (drift_row["Client after"], cdfl_row["Client after"], cdfl_row["Accuracy"]) == ("", "0.800 ±0.010", "")
    written = write_report(load_runs([tmp_path / "drift"]), tmp_path / "out")
    assert "| Stream | 1 | Fielding | 1 | 0.610 | 0.400 | 7 |" in written[0].read_text()


def test_a_gossip_method_stands_beside_its_paper_by_all_clients(tmp_path):
    none = dict.fromkeys(("client_acc_before", "client_acc_before_std", "client_acc_after", "client_acc_after_std"))
    none |= {"cluster_acc": None, "kl": None, "fresh_share": 0.0, "deprecated_share": 0.0}
    here = {**none, "dataset": "EMNIST", "client_acc_std": 0.03}
    ran(tmp_path / "gi", "DFCA-GI", **here, client_acc=0.85, purity=0.98)
    ran(tmp_path / "avg", "DFedAvgM", **here, client_acc=0.71)
    ran(tmp_path / "async", "AsyncDFCA-GI", **here, client_acc=0.84, purity=1.0)
    table = summary_table(load_runs([tmp_path / name for name in ("gi", "avg", "async")]))  # in this order
    rows = [(row["Method"], row["Accuracy"], row["Purity"]) for row in cells(table)]
    assert rows == [
        ("DFCA-GI", "0.850 ±0.030", "0.980"),
        (" DFCA paper", "0.856 ±0.0013", ""),
        ("DFedAvgM", "0.710 ±0.030", ""),
        (" DFCA paper", "0.735 ±0.0119", ""),
        ("AsyncDFCA-GI", "0.840 ±0.030", "1.000"),
    ]
    assert [row.style for row in table.rows] == [None, "dim", None, "dim", None]
    assert "DFCA paper: ± over 5 seeds" in table.caption


def test_the_printed_table_says_whose_numbers_are_whose(tmp_path):
    console = Console(width=130, record=True, quiet=False, file=(tmp_path / "out").open("w"))
    console.print(summary_table([Run.load(ran(tmp_path / "run", dataset="[odd]")), Run.load(ran(tmp_path / "known"))]))
    text = console.export_text()
    assert "OURS" in text
    assert "PAPER" in text
    assert "[odd]" in text
    assert "0.800 ±0.010" in text


def test_runs_that_differ_in_a_setting_are_rows_of_their_own(tmp_path):
    for name, lr, after in (("a", 0.1, 0.8), ("b", 0.01, 0.4)):
        settings = {"seed_everything": 0, "model": {"class_path": "MLP", "init_args": {"lr": lr}}}
        ran(tmp_path / "runs" / name, settings=settings, client_acc_after=after)
    runs = load_runs([tmp_path / "runs"])
    assert [row["Method"] for row in cells(summary_table(runs))][::2] == ["CDFL (lr=0.1)", "CDFL (lr=0.01)"]
    written = write_report(runs, tmp_path / "out")
    text = written[0].read_text()
    assert "| CDFL (lr=0.1) | 1 | 0.710 | 0.800 | 0.834 ±0.003 |" in text
    assert "| CDFL (lr=0.01) | 1 | 0.710 | 0.400 | 0.834 ±0.003 |" in text
    assert "mixtures_FashionMNIST_K2_CDFL_lr_0.01.png" in {path.name for path in written}


def test_the_report_aggregates_seeds_and_cites_the_papers(tmp_path):
    ran(tmp_path / "runs" / "s0", seed=0, client_acc_after=0.80)
    ran(tmp_path / "runs" / "s1", seed=1, client_acc_after=0.84)
    ran(tmp_path / "runs" / "local", "Local", cluster_acc=None, kl=None, download_bytes=0)
    written = write_report(load_runs([tmp_path / "runs"]), tmp_path / "out")
    assert {path.name for path in written} >= {"report.md", "report.csv", "accuracy_FashionMNIST_K2.png", "kl.png"}
    assert all(path.stat().st_size > 100 for path in written)
    with (tmp_path / "out" / "report.csv").open() as file:
        reader = csv.DictReader(file)
        rows = {(row["method"], row["metric"], row["source"]): row for row in reader}
    assert reader.fieldnames == ["dataset", "K", "method", "metric", "mean", "std", "source"]
    after = rows["CDFL", "client_acc_after", "ours"]
    assert (after["dataset"], after["K"]) == ("FashionMNIST", "2")
    assert float(after["mean"]) == pytest.approx(0.82)
    assert float(after["std"]) == pytest.approx(0.04 / 2**0.5)
    assert (rows["CDFL", "cluster_acc", "CDFL paper"]["mean"], rows["CDFL", "cluster_acc", "CDFL paper"]["std"]) == (
        "0.838",
        "0.007",
    )
    assert rows["Local", "client_acc_after", "ours"]["std"] == ""
    assert rows["Local", "client_acc_after", "CCFL paper"]["mean"] == "0.784"


def test_the_markdown_has_the_table_the_pictures_and_the_cautions(tmp_path):
    ran(tmp_path / "runs" / "s0", seed=0)
    ran(tmp_path / "runs" / "s1", seed=0, num_clients=80)
    written = write_report(load_runs([tmp_path / "runs"]), tmp_path / "new" / "out")
    text = (tmp_path / "new" / "out" / "report.md").read_text()
    assert "| FashionMNIST | 2 | CDFL | 2 | 0.710 ±0.000 | 0.800 ±0.000 | 0.834 ±0.003 |" in text
    assert "not plain repeats (num_clients, a repeated seed)" in text
    pictures = [path.name for path in written if path.suffix == ".png"]
    assert "mixtures_FashionMNIST_K2_CDFL.png" in pictures
    assert all(f"]({name})" in text for name in pictures)
    assert str(tmp_path / "runs" / "s1") in text


def test_a_report_on_nothing_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="no run to report on"):
        write_report([], tmp_path / "out")
    assert not (tmp_path / "out").exists()
