"""Every shipped config is whole: it parses, builds, and has the paper's numbers."""

import csv
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from flcluster.cli.jobs.variants import Variants
from flcluster.engine.config import plan_fit
from flcluster.engine.layers import layers
from flcluster.engine.resume import flat
from flcluster.report.study.file import read_study

CONFIGS = Path(__file__).parents[1] / "configs"
PAPER = list(
    csv.DictReader((files("flcluster.report.papers") / "ccfl_table2_hyperparams.csv").read_text().splitlines())
)
STREAMS = list(
    csv.DictReader((files("flcluster.report.papers") / "fielding_table45_config.csv").read_text().splitlines())
)
GRAPHS = list(csv.DictReader((files("flcluster.report.papers") / "dfca_config.csv").read_text().splitlines()))
SKEWED = list(csv.DictReader((files("flcluster.report.papers") / "apfl_table2.csv").read_text().splitlines()))
METHODS = {"FedSoft-Async": "FedSoftAsync"} | {name: name for name in ("CDFL", "CCFL", "FedBuff", "CA2FL", "Local")}


STUDIES = ("studies", "sweeps")
OVERLAYS = ("dropout.yaml", "dropout_five.yaml")
WHOLE = sorted(p for p in CONFIGS.rglob("*.yaml") if p.parent.name not in STUDIES and p.name not in OVERLAYS)


def named(path: Path) -> str:
    return str(path.relative_to(CONFIGS))


def row_flags(row: dict, method: str = "CDFL") -> list[str]:
    """The command line of one row of Table 1 and a method."""
    plan = read_study(CONFIGS / "cdfl" / "studies" / "table1.yaml")
    ((_, arguments),) = Variants(plan, [f"{row['dataset']} ({row['K']}), {method}"]).jobs(Path("out"), [None])
    return arguments


def make_manifest(path: Path) -> None:
    """Give a config of a real trace a manifest of one image in the place it looks at."""
    manifest = yaml.safe_load(path.read_text()).get("data", {}).get("init_args", {}).get("manifest")
    if manifest is not None:
        Path("data").mkdir()
        (Path("data") / manifest).write_text("image,label,client,time\na.png,0,c,2015-01-02\nb.png,1,c,2015-01-03\n")


@pytest.mark.parametrize("path", WHOLE, ids=named)
def test_every_config_builds(path):
    make_manifest(path)
    plan = plan_fit(["--config", str(path)])
    made = plan.parser.instantiate(plan.settings)
    assert made.model.hparams["num_classes"] == made.data.num_classes


@pytest.mark.parametrize("path", WHOLE, ids=named)
def test_what_a_run_writes_down_reads_back_the_same(path):
    """Also a null whose default is something else: or the printed command to go on would start from other settings."""
    make_manifest(path)
    plan = plan_fit(["--config", str(path)])
    Path("config.yaml").write_text(plan.text)
    again = plan_fit(["--config", "config.yaml"])
    assert again.text == plan.text and "base" not in yaml.safe_load(plan.text)
    files = [path] if path.stem.startswith("femnist") else layers(path)  # whose class has no samples to draw
    said = {key: value for each in files for key, value in flat(yaml.safe_load(each.read_text())).items()}
    kept = flat(yaml.safe_load(plan.text))
    assert {key: kept.get(key, "absent") for key, value in said.items() if value is None} == {
        key: None for key, value in said.items() if value is None
    }


@pytest.mark.parametrize("row", PAPER, ids=lambda r: f"{r['dataset']}-{r['K']}")
def test_rows_have_the_papers_hyper_parameters(row):
    plan = plan_fit(row_flags(row))
    made = plan.parser.instantiate(plan.settings)
    a, number = made.algorithm, (lambda text: text if text == "min" else float(text))
    amplifiers = a.amplifier if isinstance(a.amplifier, list) else [a.amplifier]
    assert amplifiers == [float(x) for x in row["A"].split("|")]
    assert (a.c1, a.c2, a.beta0, a.a, a.b, a.rho) == tuple(
        float(row[k]) for k in ("c1", "c2", "beta0", "a", "b", "rho")
    )
    assert (a.loss_bar, a.gap_bar, a.distance_bar) == tuple(number(row[k]) for k in ("l_bar", "d1_bar", "d2_bar"))
    assert a.cycles == float(row["avg_cycles_per_client"]) and a.threshold == row["beta1_bar"]
    assert made.data.num_clients == int(row["clients"]) == 20 * made.data.num_clusters
    assert made.data.name == row["dataset"] and type(made.model).__name__ == row["model"]
    assert a.max_staleness is None  # the number of clients, as the paper's τ0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_a_row(method):
    plan = plan_fit(row_flags(PAPER[0], method))
    made = plan.parser.instantiate(plan.settings)
    assert type(made.algorithm).__name__ == METHODS[method]
    assert made.algorithm.cycles == 25 and made.algorithm.local_epochs == 5


def test_ccfl_differs_from_cdfl_as_published():
    plan = plan_fit(row_flags(PAPER[0], "CCFL"))
    algorithm = plan.parser.instantiate(plan.settings).algorithm
    assert (algorithm.staleness, algorithm.adjust_start) == ("ccfl", 0.5)


@pytest.mark.parametrize("method", ["CDFL", "CCFL", "FedSoftAsync"])
def test_fashionmnist_is_calibrated_and_as_printed_another_config(method):
    for name, lr, unit in [("fashionmnist", 0.001, "cycles"), ("fashionmnist_printed", 0.01, "epochs")]:
        plan = plan_fit(["--config", str(CONFIGS / "cdfl" / f"{name}.yaml"), "--algorithm", method])
        made = plan.parser.instantiate(plan.settings)
        assert (made.model.hparams["lr"], made.algorithm.staleness_unit) == (lr, unit)
        assert (made.algorithm.a, made.algorithm.b, made.algorithm.beta0) == (10, 5, 0.025)


@pytest.mark.parametrize("path", sorted((CONFIGS / "sweeps").glob("*.yaml")), ids=lambda p: p.name)
def test_sweeps_call_us_with_keys_we_have(path):
    sweep = yaml.safe_load(path.read_text())
    flags = [str(CONFIGS.parent / part) if part.startswith("configs/") else part for part in sweep["command"][2:-1]]
    for key, spec in sweep["parameters"].items():
        for value in spec.get("values", [spec.get("value")]):
            plan_fit([*flags, f"--{key}={value}"])


@pytest.mark.parametrize("row", STREAMS, ids=lambda r: r["dataset"])
def test_streams_have_the_papers_settings(row):
    name = {"OpenImage": "openimages"}.get(row["dataset"], row["dataset"].lower())
    path = CONFIGS / "fielding" / f"{name}.yaml"
    make_manifest(path)
    plan = plan_fit(["--config", str(path)])
    made = plan.parser.instantiate(plan.settings)
    arrivals, algorithm, model = made.data.arrivals, made.algorithm, made.model
    gap = arrivals.rounds_per_day if row["dataset"] == "FMoW" else arrivals.gap
    assert gap == int(row["rounds_between_arrivals"]) and made.data.window == 100
    assert algorithm.rounds == int(row["total_rounds"]) and algorithm.participants == int(row["participants_per_round"])
    assert (algorithm.local_steps, algorithm.batch_size) == (int(row["local_steps"]), int(row["batch_size"]))
    assert model.hparams["lr"] == float(row["lr"]) and made.data.name == row["dataset"]
    kind = {"ResNet-18": "ResNet18", "ViT-B16": "ViT", "ShuffleNet v2": "ShuffleNetV2"}[row["model"]]
    assert type(model).__name__ == kind and model.hparams.get("variant", "b_16") == "b_16"
    assert not model.hparams.get("small_stem", False)


@pytest.mark.parametrize("base", [None, "fashionmnist_days"])
def test_the_probe_of_table_7_looks_when_there_are_metrics(base):
    plan = read_study(CONFIGS / "fielding" / "studies" / "table7.yaml")
    plan = replace(plan, base=(CONFIGS / "fielding" / f"{base}.yaml",)) if base else plan
    ((_, arguments),) = Variants(plan, list(plan.variants)).jobs(Path("out"), [None])
    fit = plan_fit(arguments)
    made = fit.parser.instantiate(fit.settings)
    assert type(made.algorithm).__name__ == "FedAvg" and made.callbacks[0].rounds[-1] <= made.algorithm.rounds
    assert all(at % made.engine.session == 0 for at in made.callbacks[0].rounds)


def graph_flags(row: dict) -> list[str]:
    """The command line of one row of DFCA's settings: its dataset's config, or the one that has its k in the name."""
    short = row["dataset"].removesuffix("-balanced").lower().replace("-", "")
    own = CONFIGS / "dfca" / f"{short}_{row['k']}.yaml"
    return ["--config", str(own if own.exists() else CONFIGS / "dfca" / f"{short}.yaml")]


@pytest.mark.parametrize("row", GRAPHS, ids=lambda r: f"{r['dataset']}-{r['k']}")
def test_dfca_has_the_papers_settings(row):
    plan = plan_fit(graph_flags(row))
    made = plan.parser.instantiate(plan.settings)
    algorithm, data, model = made.algorithm, made.data, made.model
    assert type(algorithm).__name__ == "DFCA" and algorithm.initialisation == "global" and algorithm.measure == "all"
    assert (algorithm.rounds, algorithm.local_epochs) == (int(row["T"]), int(row["local_epochs"]))
    assert algorithm.topology.p == float(row["edge_prob"]) and algorithm.participation == 1
    assert data.name == row["dataset"].removesuffix("-balanced") and data.num_clusters == int(row["k"])
    assert data.num_clients == int(row["N_appendix"] or 100)
    assert data.angles == [float(angle) for angle in row["rotations_deg"].removesuffix("(inferred)").split()]
    assert (model.hparams["optimizer"], model.hparams["lr"]) == ("sgd", float(row["lr"]))
    assert model.hparams["momentum"] == model.hparams["weight_decay"] == 0
    if row["model"].startswith("MLP"):
        assert type(model).__name__ == "MLP" and model.hparams["hidden"] == (2048,)
    else:
        assert type(model).__name__ == "CNN" and model.hparams["batch_norm"] and len(model.hparams["channels"]) == 2
    if data.name == "FEMNIST":
        assert data.num_classes == 62
    else:
        assert (data.samples, data.test_size, data.proxy_size) == (None, None, 0)


@pytest.mark.parametrize("method", ["IFCA", "DFedAvgM", "FedSPD", "AsyncDFCA"])
def test_dfcas_baselines_take_its_configs(method):
    plan = plan_fit([*graph_flags(GRAPHS[0]), "--algorithm", method])
    algorithm = plan.parser.instantiate(plan.settings).algorithm
    assert type(algorithm).__name__ == method and algorithm.rounds == 150 and algorithm.batch_size == 50


@pytest.mark.parametrize("row", GRAPHS, ids=lambda r: f"{r['dataset']}-{r['k']}")
def test_dfcas_baselines_train_as_they_do_by_themselves(row):
    """DFCA's configs state no momentum and no decay: FedSPD keeps its public code's, DFedAvgM our choice."""
    made = {}
    for method in ("FedSPD", "DFedAvgM"):
        plan = plan_fit([*graph_flags(row), "--algorithm", method])
        made[method] = plan.parser.instantiate(plan.settings).algorithm
    spd = made["FedSPD"]
    assert (spd.momentum, spd.lr_decay, spd.decay_every) == (0.5, 0.8, 5)
    assert (spd.tune_lr, spd.tune_decay, spd.tune_decay_every, spd.tune_epochs) == (0.5, 0.8, 3, 5)
    assert (made["DFedAvgM"].momentum, made["DFedAvgM"].lr_decay) == (0.9, 1.0)
    assert [each.title for each in made.values()] == ["FedSPD", "DFedAvgM"]


def test_femnist_also_has_a_cnn():
    plan = plan_fit(["--config", str(CONFIGS / "dfca" / "femnist_cnn.yaml")])
    made = plan.parser.instantiate(plan.settings)
    assert type(made.model).__name__ == "CNN" and made.model.hparams["batch_norm"] and made.data.name == "FEMNIST"
    assert (made.model.hparams["hidden"], made.model.hparams["weight_decay"]) == (128, 0)


@pytest.mark.parametrize("dataset", ["CIFAR10", "CIFAR100", "EMNIST", "FashionMNIST"])
def test_apfl_has_the_papers_settings(dataset):
    plan = plan_fit(["--config", str(CONFIGS / "apfl" / f"{dataset.lower()}.yaml")])
    made = plan.parser.instantiate(plan.settings)
    algorithm, data, model = made.algorithm, made.data, made.model
    assert type(algorithm).__name__ == "APFL" and algorithm.measure == "all"
    assert (algorithm.local_epochs, algorithm.batch_size, algorithm.per_class, algorithm.gamma) == (20, 50, 600, 0.5)
    assert algorithm.interpolation == (0.01 if dataset.startswith("CIFAR") else 0.1) and algorithm.reading == "friend"
    assert (algorithm.generator_batch, algorithm.generator_lr, algorithm.noise_dim) == (50, 0.0002, 20)
    assert type(model).__name__ == "CNN" and model.body[-2].in_features == 1600 and model.head.in_features == 512
    assert (model.hparams["optimizer"], model.hparams["lr"], model.hparams["weight_decay"]) == ("adam", 0.0002, 0)
    assert data.name.replace("-", "") == dataset and data.input_shape[1:] == (32, 32) and data.test_share == 0.1
    printed = {(int(row["clients"]), row["dirichlet_alpha"]) for row in SKEWED if row["dataset"] == dataset}
    alpha = "" if dataset == "FashionMNIST" else str(data.partition.alpha)  # unstated there
    assert (data.num_clients, alpha) in printed and not data.dropouts
    assert data.partition.alpha == 0.1  # FashionMNIST's by calibration, the others' one of the printed


@pytest.mark.parametrize("missing", [10, 20])
@pytest.mark.parametrize("name", ["cifar10", "emnist", "digits"])
def test_apfls_dropout_setting_is_an_overlay(name, missing):
    flags = ["--config", str(CONFIGS / "apfl" / f"{name}.yaml")]
    share = ["--data.partition.missing", str(missing)]
    plan = plan_fit([*flags, "--config", str(CONFIGS / "apfl" / "dropout.yaml"), *share])
    data = plan.parser.instantiate(plan.settings).data
    assert (data.num_clients, data.dropouts, data.partition.missing) == (10, [8], missing)
    assert type(data.partition).__name__ == "APFLTable1"
    plan = plan_fit([*flags, "--config", str(CONFIGS / "apfl" / "dropout_five.yaml"), *share])
    data = plan.parser.instantiate(plan.settings).data
    assert (data.num_clients, data.dropouts, data.partition.missing) == (10, [8], missing)
    assert data.partition.title == f"AP-FL dropout (κ = 5, {missing} % missing)"


@pytest.mark.parametrize("method", ["LocalRounds", "FedAvg", "FedProx", "Scaffold", "FedGen", "FedDF", "FedAvgFT"])
def test_apfls_baselines_take_its_configs_and_nothing_meant_for_its_generator(method):
    plan = plan_fit(["--config", str(CONFIGS / "apfl" / "cifar10.yaml"), "--algorithm", method])
    algorithm = plan.parser.instantiate(plan.settings).algorithm
    assert type(algorithm).__name__ == method and (algorithm.rounds, algorithm.local_epochs) == (50, 20)
    own = {"Scaffold": {"server_lr": 1.0}, "FedGen": {"generator_steps": 50, "noise_dim": 32, "generator_lr": 3e-4}}
    assert all(getattr(algorithm, name) == value for name, value in own.get(method, {}).items())


def test_the_table_of_contents_names_every_config_and_nothing_else():
    text = (CONFIGS / "README.md").read_text()
    assert set(re.findall(r"^\| `([\w/]+\.yaml)` \|", text, re.MULTILINE)) == {
        named(path) for path in CONFIGS.rglob("*.yaml")
    }
