"""Rows of our runs and the papers' tables, against numbers worked out by hand."""

import csv
import math

import pytest

from flcluster.errors import UserError
from flcluster.report import summaries as tables
from flcluster.report.paper_tables import list_tables, paper_table, read_table
from flcluster.report.summaries import Row


def summary(algorithm="CDFL", seed=0, **values):
    base = {"algorithm": algorithm, "dataset": "FashionMNIST", "num_clusters": 4, "num_clients": 80, "updates": 100}
    return {**base, "seed": seed, **values}


def found(rows, *key):
    """The one row with this method, metric and source."""
    (row,) = [row for row in rows if (row.method, row.metric, row.source) == key]
    return row


def test_every_shipped_table_prints_all_its_rows():
    assert {"cdfl_table1", "ccfl_table1", "dfca_table1", "fielding_headline", "apfl_table2"} <= set(list_tables())
    for name in list_tables():
        rows, table = read_table(name), paper_table(name)
        assert table.row_count == len(rows) > 0
        assert [column.header for column in table.columns] == list(rows[0])
    assert len(read_table("cdfl_table1")) == 91
    assert len(read_table("ccfl_table1")) == 84


def test_an_unknown_table_names_those_there_are():
    with pytest.raises(UserError, match=r"cdfl_table9.*cdfl_table1"):
        paper_table("cdfl_table9")


def test_seeds_are_aggregated_to_mean_and_sample_deviation():
    runs = [summary(seed=s, client_acc_after=a, kl=None) for s, a in enumerate((0.80, 0.82, 0.87))]
    rows = tables.our_rows(tables.repeats(runs))
    after = found(rows, "CDFL", "client_after", "ours")
    assert after.mean == pytest.approx(0.83)
    assert after.std == pytest.approx(math.sqrt((0.03**2 + 0.01**2 + 0.04**2) / 2))
    assert {row.metric for row in rows} == {"client_after", "updates"}


def test_one_run_has_no_deviation_and_nulls_do_not_count():
    rows = tables.our_rows(tables.repeats([summary(cluster_acc=0.5), summary(seed=1, cluster_acc=None)]))
    row = found(rows, "CDFL", "cluster", "ours")
    assert row.mean == 0.5
    assert math.isnan(row.std)


@pytest.mark.parametrize("values", [{"client_acc_after": 0.6, "client_acc_before": 0.4}, {"client_acc_before": 0.6}])
def test_locals_only_accuracy_is_called_client_as_in_the_papers(values):
    rows = tables.our_rows(tables.repeats([summary("Local", **values)]))
    assert [(row.metric, row.mean) for row in rows if "client" in row.metric] == [("client", 0.6)]


def test_overheads_are_per_update_and_relative_to_cdfl_before_ccfl():
    runs = [
        summary(download_bytes=1000),
        summary("CCFL", download_bytes=500),
        summary("FedSoftAsync", download_bytes=2000, updates=50),
        summary("FedSoftAsync", seed=1, download_bytes=None),
    ]
    groups, soft = tables.repeats(runs), ("FashionMNIST", 4, "FedSoft-Async")
    assert tables.ratios(groups, soft, "download_bytes") == [4.0, pytest.approx(math.nan, nan_ok=True)]
    assert tables.ratios(tables.repeats(runs[1:3]), soft, "download_bytes") == [8.0]
    assert math.isnan(tables.ratios(tables.repeats(runs[2:3]), soft, "download_bytes")[0])


def test_order_is_dataset_then_number_of_clusters_then_method():
    runs = [summary("Zeta"), summary("IFCA"), summary("CDFL"), summary("Local", num_clusters=2), summary("Alpha")]
    runs += [summary("FedSPD"), summary("DFCA-LI"), summary("DFCA-GI")]
    keys = list(tables.repeats(runs))
    assert [(K, method) for _, K, method in keys[:4]] == [(2, "Local"), (4, "CDFL"), (4, "IFCA"), (4, "DFCA-GI")]
    assert [method for _, _, method in keys[4:]] == ["DFCA-LI", "FedSPD", "Alpha", "Zeta"]


def test_methods_for_skewed_labels_follow_the_papers_order_and_variants_stay_together():
    names = ["AP-FL (one-hot (control))", "FedAvg-FT", "FedDF", "FedGen", "Unheard", "SCAFFOLD", "FedProx"]
    runs = [summary(name) for name in [*names, "AP-FL (MiniLM)", "FedAvg", "Local"]]
    order = ["Local", "FedAvg", "FedProx", "SCAFFOLD", "FedGen", "FedDF", "FedAvg-FT", "AP-FL (MiniLM)"]
    assert [method for *_, method in tables.repeats(runs)] == [*order, "AP-FL (one-hot (control))", "Unheard"]


def test_who_holds_what_tells_runs_apart():
    skewed = [summary(partition=f"Dirichlet({alpha})", num_clients=n) for alpha, n in ((0.1, 5), (0.1, 10), (0.5, 5))]
    groups = tables.repeats([*skewed, summary(seed=1, partition="Dirichlet(0.1)", num_clients=5), summary()])
    assert [(key[0], len(group)) for key, group in groups.items()] == [
        ("FashionMNIST", 1),
        ("FashionMNIST, Dirichlet(0.1), 10 clients", 1),
        ("FashionMNIST, Dirichlet(0.1), 5 clients", 2),
        ("FashionMNIST, Dirichlet(0.5), 5 clients", 1),
    ]
    assert tables.cautions(groups) == []


def test_accuracies_under_label_skew_have_rows():
    values = {"acc_global": 0.5, "acc_local_dropouts": 0.25, "friend_acc_global": 0.75, "global_model_acc": 1.0}
    rows = tables.our_rows(tables.repeats([summary("AP-FL (MiniLM)", **values)]))
    assert {row.metric: row.mean for row in rows if row.metric != "updates"} == values


def test_runs_that_are_no_plain_repeats_are_pointed_out():
    plain = [summary(seed=0), summary(seed=1)]
    assert tables.cautions(tables.repeats(plain)) == []
    (said,) = tables.cautions(tables.repeats([*plain, summary(seed=1, num_clients=1000)]))
    assert "CDFL on FashionMNIST, K=4" in said
    assert "num_clients" in said
    assert "repeated seed" in said
    assert "updates" not in said


def test_written_rows_have_the_schema_and_empty_cells_for_nan(tmp_path):
    tables.write_rows([Row("a,b", 2, "CDFL", "kl", 0.1, math.nan, "ours")], tmp_path / "rows.csv")
    header, row = csv.reader((tmp_path / "rows.csv").open())
    assert header == ["dataset", "K", "method", "metric", "mean", "std", "source"]
    assert row == ["a,b", "2", "CDFL", "kl", "0.1", "", "ours"]


@pytest.mark.parametrize(
    ("args", "text"),
    [((0.5,), "0.500"), ((0.5, 0.25, 1), "0.5 ±0.2"), ((0.937, 0.0007, 3, 1), "0.937 ±0.0007"), ((math.nan, 1.0), "")],
)
def test_plus_minus(args, text):
    assert tables.plus_minus(*args) == text
