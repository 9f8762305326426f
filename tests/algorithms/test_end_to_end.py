"""Each method on embedded digits: seconds, and it learns."""

import json
from pathlib import Path

import pytest

from flcluster.cli import main

QUICKSTART = str(Path(__file__).parents[2] / "configs" / "quickstart.yaml")
ROUNDS = str(Path(__file__).parents[2] / "configs" / "fedavg_digits.yaml")
QUIET = ["--engine.pictures", "false", "--engine.table", "false", "--engine.progress", "false", "--engine.threads", "1"]


def run(method: str, *flags: str, config: str = QUICKSTART, folder: str | None = None) -> dict:
    where = folder or method
    assert main(["fit", "--config", config, "--algorithm", method, "--run_dir", where, *QUIET, *flags]) == 0
    return json.loads(Path(where, "summary.json").read_text())


def going_on(*flags: str) -> dict:
    """Local in its stronger form: clients keep their model from cycle to cycle."""
    return run("Local", "--algorithm.start", "own", *flags, folder="going_on")


def test_quickstart_shows_what_it_promises():
    """CDFL visibly beats Local on the same data and arrivals, in both forms; its clusters and estimates are good."""
    cdfl, local = run("CDFL"), run("Local")
    assert cdfl["client_acc_after"] > local["client_acc_after"] + 0.1
    assert cdfl["client_acc_after"] > going_on()["client_acc_after"]
    assert cdfl["client_acc_after"] > cdfl["client_acc_before"]
    assert cdfl["cluster_acc"] > 0.85
    assert cdfl["kl"] < 0.3
    assert local["download_bytes"] == local["upload_bytes"] == 0


@pytest.mark.parametrize("method", ["CCFL", "FedSoftAsync", "FedBuff", "CA2FL"])
def test_upload_methods_learn(method):
    """Far above the tenth that guessing gives, and above where pre-training left the clients."""
    summary = run(method, "--algorithm.cycles", "4")
    with open(f"{method}/clients.csv") as file:
        first = file.read().splitlines()[1:11]
    at_first = sum(float(row.split(",")[10]) for row in first) / 10
    assert summary["client_acc_after"] > at_first + 0.1
    assert summary["client_acc_after"] > 0.55


def test_ifca_finds_the_clusters_that_fedavg_blurs():
    ifca, fedavg = run("IFCA", config=ROUNDS), run("FedAvg", config=ROUNDS)
    assert ifca["client_acc_after"] > fedavg["client_acc_after"] + 0.02
    assert ifca["cluster_acc"] > 0.9
    assert fedavg["client_acc_after"] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_quickstart_does_not_hang_on_one_seed(seed):
    cdfl, local = run("CDFL", "--seed_everything", seed), going_on("--seed_everything", seed)
    assert cdfl["client_acc_after"] > local["client_acc_after"]


@pytest.mark.slow
def test_more_cycles_than_the_quickstart_keep_the_order():
    cdfl, local = run("CDFL", "--algorithm.cycles", "25"), going_on("--algorithm.cycles", "25")
    assert cdfl["client_acc_after"] > local["client_acc_after"]
