"""Our rows beside the papers', against numbers read in their tables."""

import pytest

from flcluster.report import summaries as tables
from flcluster.report.printed import markdown, paper_rows
from flcluster.report.summaries import Row


def summary(algorithm="CDFL", seed=0, **values):
    base = {"algorithm": algorithm, "dataset": "FashionMNIST", "num_clusters": 4, "num_clients": 80, "updates": 100}
    return {**base, "seed": seed, **values}


def found(rows, *key):
    """The one row with this method, metric and source."""
    (row,) = [row for row in rows if (row.method, row.metric, row.source) == key]
    return row


def test_a_papers_own_method_is_looked_up_in_its_own_table():
    assert paper_rows("FashionMNIST", 4, "CDFL") == [
        Row("FashionMNIST", 4, "CDFL", "client_after", 0.800, 0.006, "CDFL paper"),
        Row("FashionMNIST", 4, "CDFL", "cluster", 0.829, 0.005, "CDFL paper"),
    ]
    assert [(row.metric, row.mean, row.std, row.source) for row in paper_rows("FashionMNIST", 4, "CCFL")] == [
        ("client_before", 0.768, 0.020, "CCFL paper"),
        ("client_after", 0.801, 0.006, "CCFL paper"),
        ("cluster", 0.830, 0.005, "CCFL paper"),
    ]


def test_baselines_are_looked_up_in_both_tables_under_our_class_name():
    rows = paper_rows("FashionMNIST", 4, "FedSoftAsync")
    assert rows == paper_rows("FashionMNIST", 4, "FedSoft-Async")
    assert found(rows, "FedSoft-Async", "client_after", "CDFL paper").mean == 0.786
    assert found(rows, "FedSoft-Async", "client_after", "CCFL paper").mean == 0.785
    local = paper_rows("FashionMNIST", 4, "Local")
    assert [(row.metric, row.mean, row.std) for row in local] == [("client", 0.694, 0.072), ("client", 0.693, 0.076)]


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
    assert paper_rows(*key) == [Row(*key, "client_all", mean, std, "DFCA paper")]


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
    assert (row[:3], row.metric, row.mean) == (key, "client_all", mean)


def test_markdown_puts_ours_and_the_papers_side_by_side():
    groups = tables.repeats([summary(client_acc_after=0.8), summary(seed=1, client_acc_after=0.9), summary("Local")])
    rows = tables.our_rows(groups) + [row for key in groups for row in paper_rows(*key)]
    header, _, cdfl, local = [line.strip("| ").split(" | ") for line in markdown(groups, rows).splitlines()]
    assert "Cluster (ours)" not in header  # nothing measured, no column
    line = dict(zip(header, cdfl, strict=False))
    assert line["Runs"] == "2"
    assert line["Client after (ours)"] == "0.850 ±0.071"
    assert line["Client after (CDFL paper)"] == "0.800 ±0.006"
    assert line["Cluster (CDFL paper)"] == "0.829 ±0.005"
    assert dict(zip(header, local, strict=False))["Client after (CCFL paper)"] == "0.693 ±0.076"


def test_markdown_compares_all_clients_and_shows_purity():
    here = {"dataset": "MNIST", "num_clusters": 2}
    runs = [summary("DFCA-GI", s, client_acc=a, purity=p, **here) for s, a, p in ((0, 0.9, 1.0), (1, 0.92, 0.9))]
    groups = tables.repeats([*runs, summary("DFedAvgM", client_acc=0.5, **here)])
    rows = tables.our_rows(groups) + [row for key in groups for row in paper_rows(*key)]
    lines = [line[2:-2].split(" | ") for line in markdown(groups, rows).splitlines()]
    dfca, one_model = (dict(zip(lines[0], line, strict=True)) for line in lines[2:])
    assert (dfca["All clients (ours)"], dfca["All clients (DFCA paper)"]) == ("0.910 ±0.014", "0.937 ±0.0007")
    assert (dfca["Purity (ours)"], one_model["Purity (ours)"]) == ("0.950 ±0.071", "")
    assert one_model["All clients (DFCA paper)"] == "0.914 ±0.0021"
