"""Who is where and how good, as runs keep it: everyone now and then, those who move at once, and no row twice."""

import math
from pathlib import Path

import numpy as np
import pytest

from flcluster.cli import main
from flcluster.datamodules import LabelBuckets, StreamDigits
from flcluster.records.population import Population, PopulationFile
from flcluster.records.reader import Run

ROOT = Path(__file__).parents[3]
QUIET = [part for key in ("progress", "table", "pictures") for part in (f"--engine.{key}", "false")]
FIT = ["fit", "--config", str(ROOT / "tests" / "tiny.yaml"), "--data", "StreamDigits", "--data.num_clients", "12"]
FIT += ["--data.window", "6", "--data.arrivals", "LabelBuckets", "--data.arrivals.gap", "4"]
FIT += ["--data.arrivals.samples", "[20, 40]"]
FIT += ["--algorithm", "Fielding", "--algorithm.rounds", "12", *QUIET]


def test_only_those_who_moved_are_written_between_two_counts_of_everyone(tmp_path):
    file = PopulationFile()
    file.open(tmp_path, None)
    assert not (tmp_path / "population.csv").exists()  # until there is something to write
    good = np.array([0.5, math.nan])
    file.write(0, 0, Population(np.array([0, -1]), good), everyone=False)
    file.write(4, 1, Population(np.array([0, 1]), good), everyone=False)
    file.write(8, 2, Population(np.array([0, 1]), good), everyone=False)
    file.write(9, 3, Population(np.array([0, 1]), good), everyone=True)
    file.close()
    lines = (tmp_path / "population.csv").read_text().splitlines()
    assert lines == [
        "update,epoch,client,label,accuracy",
        "0,0,0,0,0.5",
        "0,0,1,-1,",
        "4,1,1,1,",
        "9,3,0,0,0.5",
        "9,3,1,1,",
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main([*FIT, "--run_dir", str(folder)]) == 0
    return folder


def test_it_agrees_with_the_metrics(whole):
    run = Run.load(whole)
    last = run.population["update"] == run.population["update"][-1]
    assert run.population["client"][last].tolist() == list(range(12))
    assert np.nanmean(run.population["accuracy"][last]) == pytest.approx(run.summary["client_acc"])
    sizes = np.bincount(run.population["label"][last].astype(int), minlength=10)
    measured = [run.summary.get(f"cluster_size_{k}") or 0 for k in range(10)]
    assert sizes[:10].tolist() == measured
    everyone = [at for at in np.unique(run.population["epoch"]) if (run.population["epoch"] == at).sum() == 12]
    assert set(np.ceil(1.2 * np.arange(11))) <= set(everyone)  # each tenth of twelve rounds


def test_drift_is_counted_in_the_rounds_since_the_last_row(whole, tmp_path):
    changed = Run.load(whole).metrics["changed"]
    data = StreamDigits(num_clients=12, window=6, arrivals=LabelBuckets(samples=(20, 40), gap=4), seed=3)
    data.prepare_data()
    data.setup("fit")
    assert changed.tolist() == [0, *(len(data.drifted(t)) for t in range(12))] and changed.sum() > 0
    assert main([*FIT, "--engine.session", "4", "--run_dir", str(tmp_path / "fewer")]) == 0
    fewer = Run.load(tmp_path / "fewer").metrics["changed"]
    assert fewer.tolist() == [0, *changed[1:].reshape(3, 4).sum(1)]


def test_a_resumed_run_writes_no_row_twice(whole, tmp_path):
    folder = tmp_path / "run"
    assert main([*FIT, "--run_dir", str(folder), "--engine.max_updates", "5"]) == 0
    assert main(["fit", "--run_dir", str(folder), "--ckpt_path", "last", "--engine.max_updates", "null"]) == 0
    for name in ("population.csv", "clients.csv"):
        assert (folder / name).read_text() == (whole / name).read_text()
