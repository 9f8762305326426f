"""Every shipped config is whole: it parses, builds, and has the paper's numbers."""

import csv
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from flcluster.config import plan_fit

CONFIGS = Path(__file__).parents[1] / "configs"
PAPER = list(csv.DictReader((files("flcluster.papers") / "ccfl_table2_hyperparams.csv").read_text().splitlines()))
METHODS = ["CDFL", "CCFL", "FedSoftAsync", "FedBuff", "CA2FL", "Local"]


def row_flags(row: dict) -> list[str]:
    """The command line of one row of Table 1."""
    short = row["dataset"].lower().replace("-", "")
    flags = ["--config", str(CONFIGS / f"cdfl_{short}.yaml")]
    return flags if row["K"] == "4" else [*flags, "--config", str(CONFIGS / "rows" / f"{short}_{row['K']}.yaml")]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.name)
def test_every_config_builds(path):
    plan = plan_fit(["--config", str(path)])
    made = plan.parser.instantiate(plan.settings)
    assert made.model.hparams["num_classes"] == made.data.num_classes


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
    plan = plan_fit([*row_flags(PAPER[0]), "--algorithm", method])
    made = plan.parser.instantiate(plan.settings)
    assert type(made.algorithm).__name__ == method
    assert made.algorithm.cycles == 25 and made.algorithm.local_epochs == 5


def test_ccfl_differs_from_cdfl_as_published():
    plan = plan_fit([*row_flags(PAPER[0]), "--algorithm", "CCFL"])
    algorithm = plan.parser.instantiate(plan.settings).algorithm
    assert (algorithm.staleness, algorithm.adjust_start) == ("ccfl", 0.5)


@pytest.mark.parametrize("path", sorted((CONFIGS / "sweeps").glob("*.yaml")), ids=lambda p: p.name)
def test_sweeps_call_us_with_keys_we_have(path):
    sweep = yaml.safe_load(path.read_text())
    flags = [str(CONFIGS.parent / part) if part.startswith("configs/") else part for part in sweep["command"][2:-1]]
    for key, spec in sweep["parameters"].items():
        for value in spec.get("values", [spec.get("value")]):
            plan_fit([*flags, f"--{key}={value}"])
