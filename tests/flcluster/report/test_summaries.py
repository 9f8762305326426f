"""Rows of our runs and the papers' tables, against numbers worked out by hand."""

import csv
import math

import pytest
from runs import make_run

from flcluster.errors import UserError
from flcluster.records.columns import plus_minus
from flcluster.report import summaries as tables
from flcluster.report.paper_tables import list_tables, paper_table, read_table
from flcluster.report.printed import units
from flcluster.report.summaries import Row
from flcluster.report.tables import write_csv


def ran(algorithm="CDFL", seed=0, **values):
    return make_run(algorithm, seed, **{"num_clusters": 4, "num_clients": 80, "updates": 100, **values})


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
    runs = [ran(seed=s, client_acc_after=a, kl=None) for s, a in enumerate((0.80, 0.82, 0.87))]
    rows = tables.our_rows(tables.repeats(runs))
    after = found(rows, "CDFL", "client_acc_after", "ours")
    assert after.mean == pytest.approx(0.83)
    assert after.std == pytest.approx(math.sqrt((0.03**2 + 0.01**2 + 0.04**2) / 2))
    assert {row.metric for row in rows} == {"client_acc_after", "updates"}


def test_one_run_has_no_deviation_and_nulls_do_not_count():
    rows = tables.our_rows(tables.repeats([ran(cluster_acc=0.5), ran(seed=1, cluster_acc=None)]))
    row = found(rows, "CDFL", "cluster_acc", "ours")
    assert row.mean == 0.5
    assert math.isnan(row.std)


def test_overheads_are_per_update_and_relative_to_cdfl_before_ccfl():
    runs = [
        ran(download_bytes=1000),
        ran("CCFL", download_bytes=500),
        ran("FedSoft-Async", download_bytes=2000, updates=50),
        ran("FedSoft-Async", seed=1, download_bytes=None),
    ]
    bases = units("download_bytes")
    groups, soft = tables.repeats(runs), ("FashionMNIST", 4, "FedSoft-Async")
    assert tables.ratios(groups, soft, "download_bytes", bases) == [4.0, pytest.approx(math.nan, nan_ok=True)]
    assert tables.ratios(tables.repeats(runs[1:3]), soft, "download_bytes", bases) == [8.0]
    assert math.isnan(tables.ratios(tables.repeats(runs[2:3]), soft, "download_bytes", bases)[0])


def test_order_is_dataset_then_number_of_clusters_then_appearance():
    runs = [ran("Zeta"), ran("IFCA"), ran("Local", num_clusters=2), ran("Alpha"), ran("IFCA", 1), ran(dataset="A")]
    keys = [(dataset[0], K, method) for dataset, K, method in tables.repeats(runs)]
    assert keys == [("A", 4, "CDFL"), ("F", 2, "Local"), ("F", 4, "Zeta"), ("F", 4, "IFCA"), ("F", 4, "Alpha")]


def with_settings(seed=0, algorithm="CDFL", lr=0.1, **values):
    settings = {"seed_everything": seed, "model": {"class_path": "MLP", "init_args": {"lr": lr}}}
    return ran(algorithm, seed, settings=settings, **values)


def test_runs_of_one_name_but_different_configurations_are_no_repeats():
    runs = [with_settings(0), with_settings(1), with_settings(0, lr=0.01), with_settings(0, "Local", lr=0.01)]
    groups = tables.repeats(runs)
    assert {key[2]: len(group) for key, group in groups.items()} == {
        "CDFL (lr=0.1)": 2,
        "CDFL (lr=0.01)": 1,
        "Local": 1,
    }
    assert tables.cautions(groups) == []
    mixed = tables.repeats([with_settings(0), ran(seed=1)])
    assert [key[2] for key in mixed] == ["CDFL", "CDFL (settings unknown)"]


def test_a_unit_that_ran_in_several_configurations_is_the_first():
    runs = [with_settings(download_bytes=100), with_settings(lr=0.01, download_bytes=400), with_settings(0, "B")]
    groups = tables.repeats(runs)
    dear = ("FashionMNIST", 4, "CDFL (lr=0.01)")
    assert tables.ratios(groups, dear, "download_bytes", ["CDFL"]) == [4.0]
    assert tables.unit_of(groups, dear, ["CCFL"]) is None


def test_who_holds_what_tells_runs_apart():
    skewed = [ran(partition=f"Dirichlet({alpha})", num_clients=n) for alpha, n in ((0.1, 5), (0.1, 10), (0.5, 5))]
    groups = tables.repeats([*skewed, ran(seed=1, partition="Dirichlet(0.1)", num_clients=5), ran()])
    assert [(key[0], len(group)) for key, group in groups.items()] == [
        ("FashionMNIST", 1),
        ("FashionMNIST, Dirichlet(0.1), 10 clients", 1),
        ("FashionMNIST, Dirichlet(0.1), 5 clients", 2),
        ("FashionMNIST, Dirichlet(0.5), 5 clients", 1),
    ]
    assert tables.cautions(groups) == []


def test_accuracies_under_label_skew_have_rows():
    values = {"acc_global": 0.5, "acc_local_dropouts": 0.25, "friend_acc_global": 0.75, "global_model_acc": 1.0}
    rows = tables.our_rows(tables.repeats([ran("AP-FL (MiniLM)", **values)]))
    assert {row.metric: row.mean for row in rows if row.metric != "updates"} == values


def test_runs_that_are_no_plain_repeats_are_pointed_out():
    plain = [ran(seed=0), ran(seed=1)]
    assert tables.cautions(tables.repeats(plain)) == []
    (said,) = tables.cautions(tables.repeats([*plain, ran(seed=1, num_clients=1000)]))
    assert "CDFL on FashionMNIST, K=4" in said
    assert "num_clients" in said
    assert "repeated seed" in said
    assert "updates" not in said


def test_a_methods_own_numbers_have_rows_and_bookkeeping_has_none():
    rows = tables.our_rows(tables.repeats([ran("Unheard", my_loss=0.5, client_acc_std=0.1, cluster_size_0=3)]))
    assert {row.metric: row.mean for row in rows} == {"updates": 100, "my_loss": 0.5}


def test_written_rows_have_the_schema_and_empty_cells_for_nan(tmp_path):
    write_csv(tmp_path / "rows.csv", Row._fields, [Row("a,b", 2, "CDFL", "kl", 0.1, math.nan, "ours")])
    header, row = csv.reader((tmp_path / "rows.csv").open())
    assert header == ["dataset", "K", "method", "metric", "mean", "std", "source"]
    assert row == ["a,b", "2", "CDFL", "kl", "0.1", "", "ours"]


@pytest.mark.parametrize(
    ("args", "text"),
    [((0.5,), "0.500"), ((0.5, 0.25, 1), "0.5 ±0.2"), ((0.937, 0.0007, 3, 1), "0.937 ±0.0007"), ((math.nan, 1.0), "")],
)
def test_plus_minus(args, text):
    assert plus_minus(*args) == text
