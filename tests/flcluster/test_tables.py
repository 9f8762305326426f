"""Rows of the papers and of our runs, against numbers read in the CSVs or worked out by hand."""

import csv
import math

import pytest

from flcluster import tables
from flcluster.errors import UserError
from flcluster.tables import Row


def summary(algorithm="CDFL", seed=0, **values):
    base = {"algorithm": algorithm, "dataset": "FashionMNIST", "num_clusters": 4, "num_clients": 80, "updates": 100}
    return {**base, "seed": seed, **values}


def found(rows, *key):
    """The one row with this method, metric and source."""
    (row,) = [row for row in rows if (row.method, row.metric, row.source) == key]
    return row


def test_a_papers_own_method_is_looked_up_in_its_own_table():
    assert tables.paper_rows("FashionMNIST", 4, "CDFL") == [
        Row("FashionMNIST", 4, "CDFL", "client_after", 0.800, 0.006, "CDFL paper"),
        Row("FashionMNIST", 4, "CDFL", "cluster", 0.829, 0.005, "CDFL paper"),
    ]
    assert [(row.metric, row.mean, row.std, row.source) for row in tables.paper_rows("FashionMNIST", 4, "CCFL")] == [
        ("client_before", 0.768, 0.020, "CCFL paper"),
        ("client_after", 0.801, 0.006, "CCFL paper"),
        ("cluster", 0.830, 0.005, "CCFL paper"),
    ]


def test_baselines_are_looked_up_in_both_tables_under_our_class_name():
    rows = tables.paper_rows("FashionMNIST", 4, "FedSoftAsync")
    assert rows == tables.paper_rows("FashionMNIST", 4, "FedSoft-Async")
    assert found(rows, "FedSoft-Async", "client_after", "CDFL paper").mean == 0.786
    assert found(rows, "FedSoft-Async", "client_after", "CCFL paper").mean == 0.785
    local = tables.paper_rows("FashionMNIST", 4, "Local")
    assert [(row.metric, row.mean, row.std) for row in local] == [("client", 0.694, 0.072), ("client", 0.693, 0.076)]


@pytest.mark.parametrize("key", [("digits", 4, "CDFL"), ("FashionMNIST", 5, "CDFL"), ("FashionMNIST", 4, "IFCA")])
def test_what_no_paper_prints_has_no_rows(key):
    assert tables.paper_rows(*key) == []


def test_every_shipped_table_prints_all_its_rows():
    assert {"cdfl_table1", "ccfl_table1", "dfca_table1", "fielding_headline", "apfl_table2"} <= set(
        tables.list_tables()
    )
    for name in tables.list_tables():
        rows, table = tables.read_table(name), tables.paper_table(name)
        assert table.row_count == len(rows) > 0
        assert [column.header for column in table.columns] == list(rows[0])
    assert len(tables.read_table("cdfl_table1")) == 91
    assert len(tables.read_table("ccfl_table1")) == 84


def test_an_unknown_table_names_those_there_are():
    with pytest.raises(UserError, match=r"cdfl_table9.*cdfl_table1"):
        tables.paper_table("cdfl_table9")


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
    keys = list(tables.repeats(runs))
    assert [(K, method) for _, K, method in keys] == [(2, "Local"), (4, "CDFL"), (4, "IFCA"), (4, "Alpha"), (4, "Zeta")]


def test_runs_that_are_no_plain_repeats_are_pointed_out():
    plain = [summary(seed=0), summary(seed=1)]
    assert tables.cautions(tables.repeats(plain)) == []
    (said,) = tables.cautions(tables.repeats([*plain, summary(seed=1, num_clients=1000)]))
    assert "CDFL on FashionMNIST, K=4" in said
    assert "num_clients" in said
    assert "repeated seed" in said
    assert "updates" not in said


def test_markdown_puts_ours_and_the_papers_side_by_side():
    groups = tables.repeats([summary(client_acc_after=0.8), summary(seed=1, client_acc_after=0.9), summary("Local")])
    rows = tables.our_rows(groups) + [row for key in groups for row in tables.paper_rows(*key)]
    header, _, cdfl, local = [line.strip("| ").split(" | ") for line in tables.markdown(groups, rows).splitlines()]
    assert "Cluster (ours)" not in header  # nothing measured, no column
    line = dict(zip(header, cdfl, strict=False))
    assert line["Runs"] == "2"
    assert line["Client after (ours)"] == "0.850 ±0.071"
    assert line["Client after (CDFL paper)"] == "0.800 ±0.006"
    assert line["Cluster (CDFL paper)"] == "0.829 ±0.005"
    assert dict(zip(header, local, strict=False))["Client after (CCFL paper)"] == "0.693 ±0.076"


def test_written_rows_have_the_schema_and_empty_cells_for_nan(tmp_path):
    tables.write_rows([Row("a,b", 2, "CDFL", "kl", 0.1, math.nan, "ours")], tmp_path / "rows.csv")
    header, row = csv.reader((tmp_path / "rows.csv").open())
    assert header == ["dataset", "K", "method", "metric", "mean", "std", "source"]
    assert row == ["a,b", "2", "CDFL", "kl", "0.1", "", "ours"]


@pytest.mark.parametrize(("args", "text"), [((0.5,), "0.500"), ((0.5, 0.25, 1), "0.5 ±0.2"), ((math.nan, 1.0), "")])
def test_plus_minus(args, text):
    assert tables.plus_minus(*args) == text
