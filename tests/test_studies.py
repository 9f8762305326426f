"""Every shipped study is whole: its variants build, and one that switches the class keeps what the base says."""

import csv
from pathlib import Path

import pytest

from flcluster.cli import main
from flcluster.cli.jobs.variants import Variants, check
from flcluster.cli.study import study
from flcluster.engine.fit import instantiated
from flcluster.records.reader import key_of
from flcluster.report.paper_tables import read_table
from flcluster.report.printed import paper_rows
from flcluster.report.study.file import Study, read_study
from flcluster.report.study.matrix import chosen
from flcluster.report.study.series import series

CONFIGS = Path(__file__).parents[1] / "configs"
STUDIES = sorted(CONFIGS.rglob("studies/*.yaml"))
NEEDED = {f"fielding/{name}" for name in ("table3", "table6", "table7")}
NEEDED |= {f"fielding/figure{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9, 11, 12, 13)}
NEEDED |= {"dfca/figure3", "dfca/table1", "dfca/table2", "cdfl/table1"}
NEEDED |= {f"apfl/{name}" for name in ("figure1", "figure5", "table2", "table3", "table4")}
DFCA_TABLES = [("dfca_table1", name) for name in ("MNIST", "EMNIST", "CIFAR-10")]
DFCA_TABLES += [("dfca_table2", name) for name in ("MNIST", "EMNIST", "FEMNIST")]


def named(path: Path) -> str:
    """A study as paper/name."""
    return f"{path.parents[1].name}/{path.stem}"


def study_of(name: str) -> Study:
    paper, _, stem = name.partition("/")
    return read_study(CONFIGS / paper / "studies" / f"{stem}.yaml")


def build(plan, monkeypatch):
    """Build all variants of a study, by name."""
    built = []

    def kept(made):
        built.append(instantiated(made))
        return built[-1]

    monkeypatch.setattr("flcluster.engine.fit.instantiated", kept)
    assert plan.budget == "own"  # as long as the paper has them
    check(Variants(plan, list(plan.variants)))
    return dict(zip(plan.variants, built, strict=True))


def test_there_is_one_for_each_of_the_papers_figures_and_tables():
    assert {named(path) for path in STUDIES} >= NEEDED
    drawn = {picture.name for path in STUDIES for picture in read_study(path).figures}
    assert drawn >= {"figure2a", "figure2b", "figure3a", "figure3b", "figure3c", "figure3d", "figure4"}


@pytest.mark.parametrize("path", STUDIES, ids=named)
def test_every_study_builds(path, monkeypatch):
    """All clients are measured in every variant, or there would be nothing to draw; variants share a budget."""
    plan = read_study(path)
    made_by_name = build(plan, monkeypatch)
    built = made_by_name.values()
    assert plan.figures and plan.table
    if named(path).startswith("cdfl/"):
        as_printed = {} if path.stem.endswith("_small") else made_by_name
        for name, made in as_printed.items():
            cycles = {"CIFAR": 20, "MiniI": 20, "Digit": 40}.get(name[:5], 25)
            assert (made.algorithm.cycles, made.algorithm.local_epochs, made.algorithm.batch_size) == (cycles, 5, 128)
        return
    assert {made.algorithm.measure for made in built} == {"all"}
    budgets = {(m.data.name, m.algorithm.rounds, m.algorithm.participants, m.data.num_clients) for m in built}
    assert len(budgets) == len({made.data.name for made in built})
    if named(path).startswith("apfl/"):
        check_apfl(path.stem, plan, made_by_name)


def check_apfl(stem, plan, built):
    """All methods have the same budget, baselines their own settings, and every printed number its variant."""
    budgets = {(made.algorithm.local_epochs, made.algorithm.batch_size) for made in built.values()}
    small = stem.endswith("_small")
    assert len(budgets) == 1 and (small or budgets == {(20, 50)})
    for made in built.values():
        kind, algorithm, model = type(made.algorithm).__name__, made.algorithm, made.model.hparams
        assert model["optimizer"] == ("sgd" if kind == "Scaffold" else "adam")
        assert small or model["lr"] == (0.01 if kind == "Scaffold" else 0.0002)
        assert made.data.proxy_size if kind == "FedDF" else small or not made.data.proxy_size
        assert kind != "FedProx" or algorithm.prox == 0.01
        assert kind != "Scaffold" or algorithm.server_lr == 1
        assert kind != "FedGen" or (algorithm.generator_steps, algorithm.generator_batch) == (50, 32)
        assert kind != "APFL" or algorithm.interpolation == (0.01 if made.data.name.startswith("CIFAR") else 0.1)
    if stem in ("table2", "table3"):
        for dataset in {made.data.name for made in built.values()}:
            check_printed(f"apfl_{stem}", [made for made in built.values() if made.data.name == dataset])
    if stem in ("table3", "table4"):
        check_dropouts(built)
    if stem.startswith("hypotheses"):
        assert sum(made.algorithm.title.endswith("in rounds)") for made in built.values()) >= 1
        names = {made.algorithm.title for made in built.values()}
        assert len(names) == len(built), "runs of two variants would be taken for repeats"
    if stem == "table2":
        (figure4,) = [picture for picture in plan.figures if picture.name == "figure4"]
        drawn = {(made.data.name, made.data.partition.alpha) for made in map(built.get, figure4.of)}
        assert drawn == {("CIFAR-10", 0.01), ("CIFAR-100", 0.05), ("EMNIST", 0.1), ("FashionMNIST", 0.1)}
        assert len(figure4.of) == 28 and all(printed(built[name], "apfl_table2") for name in figure4.of)


def check_printed(table, built):
    """Every number that a table prints for a dataset has its variant."""
    dataset = built[0].data.name.replace("-", "")
    rows = [row for row in read_table(table) if row["dataset"] == dataset]
    means = [float(row["mean_pct"]) / 100 for row in rows if row.get("clients", "5") == "5"]
    found = [printed(made, table) for made in built]
    if table == "apfl_table3":  # two readings of how many classes a client holds, and one more of AP-FL
        assert len(found) == 2 * len(means) + 2
        found = list(dict.fromkeys(found))
    assert sorted(found) == pytest.approx(sorted(means))


def check_dropouts(built):
    """One global training for all methods: rounds; the friends of Table 4 learn what its numbers need, all classes."""
    for name, made in built.items():
        algorithm, partition = made.algorithm, made.data.partition
        if type(algorithm).__name__ == "APFL":
            assert algorithm.aggregation == "fedavg"
            whole = "all" if "of all classes" in name or "missing" not in name else "own"
            assert algorithm.friend_classes == whole
        held = 2 if "κ = 2" in name else 5
        assert type(partition).__name__ == ("APFLTable1" if held == 2 else "PathologicalDropout")
        assert held == 2 or partition.classes_per_client == 5
        assert f"missing {partition.missing} %" in name or partition.missing == 20
        assert made.data.dropouts == [8] and made.data.num_clients == 10


@pytest.mark.parametrize("stem", ["figure1", "figure1_small"])
def test_figure_1_has_clients_alike_different_and_one_gone(stem, monkeypatch):
    built = build(study_of(f"apfl/{stem}"), monkeypatch)
    assert {type(made.algorithm).__name__ for made in built.values()} == {"FedAvg"}
    for name, made in built.items():
        assert made.data.dropouts == ([8] if name.endswith("drops out") else [])
        assert (type(made.data.partition).__name__ == "IID") == name.startswith("IID")
    printed = [made.data.partition for name, made in built.items() if name.startswith("non-IID") and "κ" not in name]
    assert [(type(p).__name__, p.missing) for p in printed] == [("APFLTable1", 20)] * 2


def printed(made, table):
    """Return the number that a table prints for a variant, by what its runs' summaries say."""
    told = {"algorithm": made.algorithm.title, "dataset": made.data.name, "num_clusters": 1}
    told |= {"num_clients": made.data.num_clients, "partition": made.data.partition.title}
    (row,) = paper_rows(*key_of(told), told, [table])
    return row.mean


@pytest.mark.parametrize("stem", ["figure11", "figure12", "figure13"])
def test_cityscapes_figures_are_on_frames(stem, monkeypatch):
    """As many clients, intervals and rounds between them as Cityscapes has; a shared model as the paper trains it."""
    for made in build(study_of(f"fielding/{stem}"), monkeypatch).values():
        arrivals = made.data.arrivals
        assert (type(arrivals).__name__, arrivals.intervals, arrivals.gap) == ("FrameIntervals", 10, 30)
        assert (made.data.num_clients, made.data.window, made.algorithm.rounds) == (217, 100, 200)
        shared = getattr(getattr(made.algorithm, "representation", None), "epochs", None)
        assert shared is None or (shared, made.data.proxy_per_class) == (300, 200)


@pytest.mark.parametrize("path", [p for p in STUDIES if named(p).startswith("fielding/")], ids=named)
def test_flexcfl_weighs_by_samples_and_the_others_alike(path, monkeypatch):
    """FlexCFL's code takes means weighted by n_k; FIELDING's Algorithm 1 and what is compared with it plain ones."""
    for made in build(read_study(path), monkeypatch).values():
        if hasattr(made.algorithm, "server") and hasattr(made.algorithm.server, "by"):
            assert made.algorithm.server.by == ("size" if type(made.algorithm).__name__ == "FlexCFL" else "uniform")


@pytest.mark.parametrize(("table", "dataset"), DFCA_TABLES)
def test_dfcas_tables_have_every_method_that_is_printed(table, dataset, monkeypatch):
    printed = [row for row in read_table(table) if row["dataset"] == dataset]
    plan = study_of(table.replace("_", "/"))
    all_built = build(plan, monkeypatch)
    built = {name.partition(", ")[0]: all_built[name] for name in chosen([dataset], plan.variants)}
    assert set(built) == {row["method"] for row in printed} and plan.paper == (table,)
    assert {(made.data.name, str(made.data.num_clusters)) for made in built.values()} == {
        (row["dataset"], row["k"]) for row in printed
    }
    assert {made.algorithm.local_epochs for made in built.values()} == {5}
    graphs = {made.algorithm.topology for name, made in built.items() if name != "IFCA"}
    assert len(graphs) == 1  # all methods without a server meet on one kind of graph
    settings = {name: made.algorithm.initialisation for name, made in built.items() if name.startswith("DFCA")}
    assert settings == {"DFCA-GI": "global", "DFCA-LI": "local"}


def test_connectivity_is_what_the_variants_names_say(monkeypatch):
    plan = study_of("dfca/figure3")
    (picture,) = [picture for picture in plan.figures if picture.name == "figure3c"]
    lines, levels = series(plan.common, {name: plan.variants[name] for name in picture.of}, picture.x)
    built = build(plan, monkeypatch)
    assert list(levels) == ["IFCA, EMNIST"] and set(lines) == {"DFCA-GI, connectivity", "DFCA-LI, connectivity"}
    for name, line in lines.items():
        assert [p for p, _ in line] == [0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5]
        made = [built[variant].algorithm for _, variant in line]
        assert [algorithm.topology.p for algorithm in made] == [p for p, _ in line]
        assert {algorithm.initialisation for algorithm in made} == {"global" if name.startswith("DFCA-GI") else "local"}


def test_momentum_is_swept_beside_dfca_on_both_kinds_of_pixels(monkeypatch):
    plan = study_of("dfca/mnist_small_momentum")
    built = build(plan, monkeypatch)
    (picture,) = [picture for picture in plan.figures if picture.kind == "against"]
    lines, levels = series(plan.common, plan.variants, picture.x)
    assert [[theta for theta, _ in line] for line in lines.values()] == [[0.0, 0.5, 0.9]] * 2
    assert len(levels) == 6
    titles = ["DFCA-GI", "IFCA", "DFedAvgM (θ = 0)", "DFedAvgM (θ = 0.5)", "DFedAvgM"]
    found = [(made.algorithm.title, made.data.normalise) for made in built.values()]
    assert found == [(title, normalise) for normalise in (True, False) for title in titles] + [
        ("DFCA-LI", True),
        ("FedSPD", True),
    ]
    assert {made.algorithm.batch_size for made in built.values()} == {100000}
    assert {made.data.num_clients for made in built.values()} == {100}


def test_dfca_and_its_baselines_run_on_digits(monkeypatch, capsys):
    """From the command to the picture; in this process, and with as little training as shows something."""

    def here(output, jobs, at_once, is_finished):
        codes = {name: main(["fit", *arguments, "--run_dir", str(output / name)]) for name, arguments in jobs}
        return {name: code for name, code in codes.items() if code}

    monkeypatch.setattr("flcluster.cli.study.run_all", here)
    little = {"algorithm.rounds": 2, "algorithm.local_epochs": 1, "data.num_clients": 12, "data.train_limit": 600}
    quiet = dict.fromkeys(("engine.progress", "engine.pictures", "engine.table"), "false")
    flags = [f"--{name}={value}" for name, value in (little | quiet).items()]
    assert study([str(CONFIGS / "dfca" / "studies" / "digits.yaml"), "--output", "out", *flags]) == 0
    written = {path.name for path in Path("out").glob("*") if path.is_file()}
    assert written >= {"study.md", "study.csv", "over_rounds.png", "against_p.png"}
    header, *lines = Path("out/study.csv").read_text().splitlines()
    found = {(row["variant"], row["metric"]): row["value"] for row in csv.DictReader([header, *lines])}
    variants = study_of("dfca/digits").variants
    assert header == "variant,seed,metric,value"
    assert all(0 < float(found[name, "client_acc"]) <= 1 for name in variants)
    dense, sparse = (float(found[f"DFCA-GI, p = {p}", "messages"]) for p in (0.3, 0.1))
    assert dense > sparse > 0
    assert "Purity" in capsys.readouterr().out
