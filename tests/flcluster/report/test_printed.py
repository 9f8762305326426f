"""Our rows beside the papers', against numbers read in their tables."""

import pytest
from runs import make_run

from flcluster.records.columns import COLUMNS
from flcluster.report import summaries as tables
from flcluster.report.paper_tables import read_table
from flcluster.report.printed import paper_rows, sources
from flcluster.report.report import report_grid
from flcluster.report.summaries import Row
from flcluster.report.tables import markdown


def ran(algorithm="CDFL", seed=0, **values):
    return make_run(algorithm, seed, **{"num_clusters": 4, **values})


def lines_of(*runs):
    """The report's table, a dictionary a line."""
    groups = tables.repeats(runs)
    rows = tables.our_rows(groups) + [
        row for key, group in groups.items() for row in paper_rows(*key, group[0].summary)
    ]
    heads, _, *lines = [line[2:-2].split(" | ") for line in markdown(report_grid(groups, rows)).splitlines()[:-2]]
    return [dict(zip(heads, line, strict=True)) for line in lines]


def found(rows, *key):
    """The one row with this method, metric and source."""
    (row,) = [row for row in rows if (row.method, row.metric, row.source) == key]
    return row


def test_a_papers_own_method_is_looked_up_in_its_own_table():
    assert paper_rows("FashionMNIST", 4, "CDFL") == [
        Row("FashionMNIST", 4, "CDFL", "client_acc_after", 0.800, 0.006, "CDFL paper"),
        Row("FashionMNIST", 4, "CDFL", "cluster_acc", 0.829, 0.005, "CDFL paper"),
    ]
    assert [(row.metric, row.mean, row.std, row.source) for row in paper_rows("FashionMNIST", 4, "CCFL")] == [
        ("client_acc_before", 0.768, 0.020, "CCFL paper"),
        ("client_acc_after", 0.801, 0.006, "CCFL paper"),
        ("cluster_acc", 0.830, 0.005, "CCFL paper"),
    ]


def test_baselines_are_looked_up_in_both_tables_however_they_are_hyphened():
    rows = paper_rows("FashionMNIST", 4, "FedSoft-Async")
    assert [row[3:] for row in rows] == [row[3:] for row in paper_rows("FashionMNIST", 4, "FedSoftAsync")]
    assert found(rows, "FedSoft-Async", "client_acc_after", "CDFL paper").mean == 0.786
    assert found(rows, "FedSoft-Async", "client_acc_after", "CCFL paper").mean == 0.785
    local = paper_rows("FashionMNIST", 4, "Local")
    assert [(row.metric, row.mean, row.std) for row in local] == [
        ("client_acc_after", 0.694, 0.072),
        ("client_acc_after", 0.693, 0.076),
    ]


@pytest.mark.parametrize(
    "key",
    [
        ("digits", 4, "CDFL"),
        ("FashionMNIST", 5, "CDFL"),
        ("FashionMNIST", 4, "IFCA"),
        ("MNIST", 3, "IFCA"),
        ("MNIST", 2, "AsyncDFCA-GI"),
        ("MNIST", 4, "FedSPD"),
    ],
)
def test_what_no_paper_prints_has_no_rows(key):
    assert paper_rows(*key) == []


@pytest.mark.parametrize(
    ("key", "mean", "std"),
    [
        (("MNIST", 2, "DFCA-GI"), 0.937, 0.0007),
        (("MNIST", 2, "FedSPD"), 0.862, 0.0152),
        (("MNIST", 4, "DFCA-LI"), 0.924, 0.0022),
        (("EMNIST", 2, "DFedAvgM"), 0.735, 0.0119),
        (("EMNIST", 4, "IFCA"), 0.844, 0.0183),
        (("CIFAR-10", 2, "IFCA"), 0.825, 0.0011),
        (("FEMNIST", 4, "DFCA-GI"), 0.871, 0.0030),
    ],
)
def test_percentages_of_both_tables_become_shares_of_all_clients(key, mean, std):
    assert paper_rows(*key) == [Row(*key, "client_acc", mean, std, "DFCA paper")]


@pytest.mark.parametrize(
    ("key", "mean"),
    [
        (("MNIST", 2, "DFedAvgM (θ = 0)"), 0.914),
        (("MNIST (pixels in [0, 1])", 2, "DFCA-GI"), 0.937),
        (("MNIST (pixels in [0, 1])", 2, "DFCA-LI (idle neighbours)"), 0.929),
    ],
)
def test_variants_stand_beside_what_is_printed_for_their_family(key, mean):
    """Of a setting that a paper does not state, its number belongs to every value; rows keep the variant's names."""
    (row,) = paper_rows(*key)
    assert (row[:3], row.metric, row.mean) == (key, "client_acc", mean)


def test_markdown_puts_ours_and_the_papers_side_by_side():
    cdfl, local = lines_of(ran(client_acc_after=0.8), ran(seed=1, client_acc_after=0.9), ran("Local"))
    assert "Cluster" not in cdfl  # nothing measured, no column
    assert (cdfl["Runs"], cdfl["Client after"]) == ("2", "0.850 ±0.071")
    assert cdfl["Client after (CDFL paper)"] == "0.800 ±0.006"
    assert cdfl["Cluster (CDFL paper)"] == "0.829 ±0.005"
    assert local["Client after (CCFL paper)"] == "0.693 ±0.076"


def test_markdown_compares_all_clients_and_shows_purity():
    here = {"dataset": "MNIST", "num_clusters": 2}
    runs = [ran("DFCA-GI", s, client_acc=a, purity=p, **here) for s, a, p in ((0, 0.9, 1.0), (1, 0.92, 0.9))]
    dfca, one_model = lines_of(*runs, ran("DFedAvgM", client_acc=0.5, **here))
    assert (dfca["Accuracy"], dfca["Accuracy (DFCA paper)"]) == ("0.910 ±0.014", "0.937 ±0.0007")
    assert (dfca["Purity"], one_model["Purity"]) == ("0.950 ±0.071", "")
    assert one_model["Accuracy (DFCA paper)"] == "0.914 ±0.0021"


def test_every_table_that_is_compared_with_has_what_it_is_found_by():
    for source in sources():
        for line in read_table(source["table"]):
            assert {"dataset", "method", "metric"} <= set(line) and {"mean", "mean_pct"} & set(line)
            assert line["metric"] in COLUMNS
