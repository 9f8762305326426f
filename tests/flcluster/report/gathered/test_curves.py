"""Curves of finished runs, kept beside their final numbers."""

import csv

import numpy as np
from runs import write_run

from flcluster.cli import main
from flcluster.report.gathered.curves import MOST
from flcluster.report.gathered.studies import Gathered

SETTINGS = {"seed_everything": 0, "model": {"class_path": "M", "init_args": {"lr": 0.1}}}


def ran(path, rows, **values):
    metrics = {
        "update": list(range(rows)),
        "epoch": list(range(rows)),
        "client_acc": [i / rows for i in range(rows)],
        "client_acc_std": [0.1] * rows,
        "upload_bytes": [7] * rows,
    }
    told = {
        "dataset": "D",
        "num_clients": 4,
        "commit": "abc",
        "status": "finished",
        "client_acc": 0.7,
        "wall_seconds": 1,
    }
    return write_run(path, metrics=metrics, settings=SETTINGS, **{**told, **values})


def test_curves_are_thinned_evenly_and_kept_with_those_of_other_runs(tmp_path):
    out = tmp_path / "results" / "s.csv"
    ran(tmp_path / "one" / "A-seed0", 200, seed=0)
    ran(tmp_path / "two" / "A-seed1", 3, seed=1)
    for folder in ("one", "two", "two"):
        assert main(["gather", str(tmp_path / folder), "--output", str(out)]) == 0
    rows = list(csv.DictReader((out.parent / "curves" / "s.csv").open()))
    assert set(rows[0]) == {"run", "commit", "update", "epoch", "time", "client_acc"}
    long = [int(row["update"]) for row in rows if row["run"] == "A-seed0"]
    assert (len(long), long[0], long[-1]) == (MOST, 0, 199) and max(np.diff(long)) <= 4
    assert [row["client_acc"] for row in rows if row["run"] == "A-seed1"] == ["0", "0.333333", "0.666667"]
    curves = Gathered(out).curves("A", "epoch", "client_acc")
    assert {seed: len(x) for seed, (x, _) in curves.items()} == {0: MOST, 1: 3}


def test_a_row_has_the_first_session_and_the_mean_of_the_last(tmp_path):
    """Row 0 is measured before anything is trained: the first session is the next one."""
    ran(tmp_path / "A-seed0", 10, seed=0)
    assert main(["gather", str(tmp_path), "--output", str(tmp_path / "out" / "s.csv")]) == 0
    told = Gathered(tmp_path / "out" / "s.csv")
    assert told.values("A", "first_client_acc") == {0: 0.1}
    assert told.values("A", "client_acc_last") == {0: np.mean([0.5, 0.6, 0.7, 0.8, 0.9])}
