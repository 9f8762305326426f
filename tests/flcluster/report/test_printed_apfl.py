"""AP-FL's printed numbers are found for a run by its setting, and stand beside ours in reports and studies."""

import math

import pytest
from runs import make_run, make_study, write_run

from flcluster.records.reader import key_of, load_runs
from flcluster.report import summaries as tables
from flcluster.report.printed import notes, paper_rows
from flcluster.report.report import report_grid, summary_table, write_report
from flcluster.report.study.values import grid

TABLE1 = "AP-FL Table 1 (20 % missing)"


def summary(algorithm="AP-FL (MiniLM)", dataset="CIFAR-10", partition="Dirichlet(0.1)", num_clients=5, seed=0, **more):
    base = {"algorithm": algorithm, "dataset": dataset, "num_clusters": 1, "partition": partition, "seed": seed}
    semantics = {"semantics": algorithm[7:-1]} if algorithm.startswith("AP-FL") else {}
    return {**base, **semantics, "num_clients": num_clients, "updates": 9, **more}


def printed(**values):
    """Return {metric: (mean, deviation)} that the paper has for a run."""
    run = summary(**values)
    rows = paper_rows(*key_of(run), run)
    assert all(row.source == "AP-FL paper" and row[:3] == key_of(run) for row in rows)
    return {row.metric: (row.mean, None if math.isnan(row.std) else row.std) for row in rows}


@pytest.mark.parametrize(
    ("setting", "mean", "std"),
    [
        ({}, 0.6946, 0.0018),
        ({"algorithm": "SCAFFOLD"}, 0.6737, 0.0102),
        ({"algorithm": "FedGen", "partition": "Dirichlet(0.01)", "num_clients": 10}, 0.2667, 0.0250),
        ({"algorithm": "Local", "dataset": "CIFAR-100", "partition": "Dirichlet(0.05)"}, 0.2453, 0.0044),
        ({"algorithm": "FedDF", "dataset": "EMNIST", "num_clients": 10}, 0.8912, 0.0016),
        ({"algorithm": "AP-FL (openai/clip-vit-base-patch32)", "dataset": "EMNIST"}, 0.9160, 0.0016),
        ({"dataset": "FashionMNIST", "partition": "Dirichlet(0.5)"}, 0.8936, 0.0058),
        ({"algorithm": "FedAvg", "dataset": "FashionMNIST", "partition": "Dirichlet(0.3)"}, 0.8828, 0.0089),
    ],
)
def test_table_2_is_found_by_dataset_clients_alpha_and_method(setting, mean, std):
    assert printed(**setting) == {"acc_global": (mean, std)}


NONE = [
    {"num_clients": 20},
    {"partition": "Dirichlet(0.2)"},
    {"partition": "balanced Dirichlet(0.1)"},
    {"partition": "Dirichlet(0.1), dropouts 3"},
    {"partition": "AP-FL dropout (κ = 5, 20 % missing), dropouts none", "num_clients": 10},
    {"algorithm": "FedProx", "partition": "AP-FL dropout (κ = 5, 20 % missing)", "num_clients": 10},
    {"dataset": "FashionMNIST", "partition": "IID"},
    {"dataset": "MNIST"},
    {"algorithm": "FedAvg-FT"},
    {"algorithm": "AP-FL (one-hot (control))"},
    {"algorithm": "AP-FL (hashed names (fallback))"},
    {"algorithm": "AP-FL (random (control))", "partition": TABLE1, "num_clients": 10},
    {"algorithm": "FedProx", "partition": TABLE1, "num_clients": 10},
    {"dataset": "EMNIST byclass"},
    {"partition": None},
]


@pytest.mark.parametrize("setting", NONE)
def test_another_setting_has_no_printed_number(setting):
    assert printed(**setting) == {}


def test_table_3_is_about_dropouts_and_table_4_about_friends():
    here = {"partition": TABLE1, "num_clients": 10}
    friends = {"friend_acc_global": (0.5821, None), "friend_acc_global_dropouts": (0.4979, None)}
    assert printed(**here) == {"acc_global_dropouts": (0.3297, 0.0026)}, "the paper has no friends with MiniLM"
    assert printed(**here, algorithm="AP-FL (CLIP)") == {"acc_global_dropouts": (0.3297, 0.0026), **friends}
    ten = printed(**{**here, "partition": "AP-FL Table 1 (10 % missing)"}, algorithm="AP-FL (CLIP)")
    assert ten == {"acc_global_dropouts": (0.3418, 0.0049), **friends}
    five = {**here, "partition": "AP-FL dropout (κ = 5, 10 % missing)"}  # how many classes a client has is unstated
    assert printed(**five, algorithm="AP-FL (CLIP)") == ten
    assert printed(**five, algorithm="Local") == {"acc_global_dropouts": (0.2947, 0.0169)}
    fashion = printed(**here, dataset="FashionMNIST", algorithm="FedAvg-FT")
    assert fashion == {"acc_global_dropouts": (0.5196, 0.0074)}


@pytest.mark.parametrize(("title", "mean"), [("bert-base-uncased", 0.5592), ("word2vec", 0.5074), ("CLIP", 0.5821)])
def test_table_4_is_found_by_the_kind_of_semantics(title, mean):
    assert printed(algorithm=f"AP-FL ({title})", partition=TABLE1)["friend_acc_global"] == (mean, None)


@pytest.mark.parametrize("title", ["people/bert/minilm", "distilroberta-base", "clipped.npz", "MiniLM"])
def test_other_models_are_not_the_papers(title):
    assert "friend_acc_global" not in printed(algorithm=f"AP-FL ({title})", partition=TABLE1)


def ran(**values):
    told = summary(**values)
    return make_run(told.pop("algorithm"), told.pop("seed"), **told)


def test_the_report_has_ours_and_the_papers_side_by_side():
    runs = [ran(seed=s, acc_global=a, acc_local=0.8) for s, a in ((0, 0.6), (1, 0.64))]
    runs += [ran(algorithm="FedAvg", acc_global=0.5, acc_local=0.7), ran(partition="Dirichlet(0.05)", acc_global=0.4)]
    groups = tables.repeats(runs)
    rows = tables.our_rows(groups) + [
        row for key, group in groups.items() for row in paper_rows(*key, group[0].summary)
    ]
    table = report_grid(groups, rows)
    skewed, ours, average = table.rows
    assert (ours["Dataset"], ours["Runs"]) == ("CIFAR-10, Dirichlet(0.1), 5 clients", "2")
    assert (ours["Global test"], ours["Global test (AP-FL paper)"]) == ("0.620 ±0.028", "0.695 ±0.0018")
    assert (average["Method"], average["Global test (AP-FL paper)"]) == ("FedAvg", "0.658 ±0.0177")
    assert (skewed["Global test"], skewed["Global test (AP-FL paper)"]) == ("0.400", "0.651 ±0.0032")
    assert ours["Local test"] == "0.800 ±0.000" and "Dropouts, global test" not in table.heads
    assert "its numbers fit tests on all classes" in notes(rows) and notes(tables.our_rows(groups)) == ""


def written(path, **values):
    told = summary(**values)
    return write_run(path, told.pop("algorithm"), told.pop("seed"), {"update": [9], "acc_global": [0.3]}, **told)


def cells(table):
    titles = [str(column.header).replace("\n", " ") for column in table.columns]
    rows = zip(*(list(column.cells) for column in table.columns), strict=True)
    return [dict(zip(titles, row, strict=True)) for row in rows]


def test_the_printed_table_and_the_report_show_both_accuracies_and_dropouts(tmp_path):
    here = {"partition": TABLE1, "num_clients": 10, "dataset": "FashionMNIST"}
    both = {"acc_global": 0.81, "acc_local": 0.9, "acc_global_dropouts": 0.41, "acc_local_dropouts": 0.7}
    friends = {"friend_acc_global": 0.6, "friend_acc_global_dropouts": 0.3}
    written(tmp_path / "runs" / "apfl", algorithm="AP-FL (CLIP)", **here, **both, **friends)
    written(tmp_path / "runs" / "local", algorithm="Local", **here, **both)
    runs = load_runs([tmp_path / "runs"])
    assert [run.label for run in runs] == [
        f"{method} FashionMNIST, {TABLE1}, 10 clients seed=0" for method in ("AP-FL (CLIP)", "Local")
    ]
    table = summary_table(runs)
    ours, paper, local, its_paper = cells(table)
    assert (ours["Global test"], ours["Local test"], ours["Friends, global test"]) == ("0.810", "0.900", "0.600")
    assert [ours[f"Dropouts{name} test"] for name in (", global", ", local", "' friends, global")] == [
        "0.410",
        "0.700",
        "0.300",
    ]
    assert (paper["Method"], paper["Dropouts, global test"], paper["Friends, global test"]) == (
        " AP-FL paper",
        "0.568 ±0.0032",
        "0.742",
    )
    assert (local["Friends, global test"], its_paper["Dropouts, global test"], paper["Global test"]) == (
        "",
        "0.476 ±0.0098",
        "",
    )
    assert "its text says local tests" in table.caption
    files = write_report(runs, tmp_path / "out")
    text = files[0].read_text()
    assert "| Dropouts, global test | Dropouts, global test (AP-FL paper) |" in text
    assert "its text says local tests" in text
    report = (tmp_path / "out" / "report.csv").read_text()
    assert f'"FashionMNIST, {TABLE1}, 10 clients",1,AP-FL (CLIP),friend_acc_global,0.7416,,AP-FL paper' in report


def lines(table):
    return [table.heads, *([row[head] for head in table.heads] for row in table.rows)]


def test_a_study_that_names_the_table_has_its_numbers_beside_ours():
    runs = {"AP-FL": {0: ran(acc_global=0.6, acc_local=0.9)}}
    runs["one-hot"] = {0: ran(algorithm="AP-FL (one-hot (control))", acc_global=0.5, acc_local=0.8)}
    study = make_study(*runs, table=("acc_global", "acc_local"), paper=("apfl_table2",))
    assert lines(grid(study, runs)) == [
        ["Variant", "Seeds", "Global test", "Global test (AP-FL paper)", "Local test"],
        ["AP-FL", "1", "0.600", "0.695 ±0.0018", "0.900"],
        ["one-hot", "1", "0.500", "", "0.800"],
    ]
    assert grid(study, runs).caption.startswith("One seed each. AP-FL paper: its text says local tests")
    other = grid(make_study(*runs, table=("acc_global",), paper=("apfl_table3",)), runs)
    assert other.heads == ["Variant", "Seeds", "Global test"] and other.caption == "One seed each."


def test_a_study_of_dfca_has_its_papers_numbers_beside_ours():
    run = make_run("DFCA-GI", dataset="MNIST", client_acc=0.9)
    (row,) = grid(make_study("GI", table=("client_acc",), paper=("dfca_table1",)), {"GI": {0: run}}).rows
    assert row["Accuracy (DFCA paper)"] == "0.937 ±0.0007"
