"""AP-FL on digits, through the command: what a run leaves behind, cut runs, two ranks."""

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from apfl_people import SHARES

from flcluster.algorithms.personal import apfl
from flcluster.cli import main
from flcluster.datamodules import SkewedDigits
from flcluster.modules import MLP

SETTINGS = {
    "seed_everything": "3",
    "data": "SkewedDigits",
    "data.num_clients": "6",
    "data.limit": "300",
    "data.test_share": "0.3",
    "data.dropouts": "[2]",
    "data.monopoly_classes": "[8,9]",
    "model": "MLP",
    "model.hidden": "[16]",
    "model.lr": "0.1",
    "engine.progress": "false",
    "engine.threads": "1",
    "engine.pictures": "false",
    "engine.table": "false",
    "algorithm": "APFL",
    "algorithm.rounds": "3",
    "algorithm.local_epochs": "2",
    "algorithm.batch_size": "16",
    "algorithm.generator_steps": "15",
    "algorithm.generator_batch": "8",
    "algorithm.generator_hidden": "8",
    "algorithm.per_class": "8",
    "algorithm.friend_epochs": "2",
    "algorithm.finetune_epochs": "2",
}
FLAGS = [part for key, value in SETTINGS.items() for part in (f"--{key}", value)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of three rounds, two lessons and two personal steps."""
    folder = tmp_path_factory.mktemp("apfl") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apfl, "LESSON", 10)
        assert main(["fit", *FLAGS, "--run_dir", str(folder)]) == 0
    return folder


def test_what_a_run_leaves_behind(whole):
    with open(whole / "interpolation.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["client", "dropout", "friend_share", "acc_global", "acc_local"]
    assert [(int(r["client"]), float(r["friend_share"])) for r in rows] == [(m, s) for m in range(6) for s in SHARES]
    assert {r["client"] for r in rows if r["dropout"] == "1"} == {"2"}
    found = np.load(whole / "synthetic.npz", allow_pickle=False)
    assert found["images"].dtype == np.uint8
    assert (found["images"].shape[0], found["images"].shape[2:]) == (10, (1, 8, 8))
    assert found["names"].tolist()[:2] == ["zero", "one"]
    assert found["seen"].tolist() == [True] * 8 + [False] * 2


def test_what_a_summary_says(whole):
    summary = json.loads((whole / "summary.json").read_text())
    assert (summary["algorithm"], summary["semantics"], summary["status"]) == ("AP-FL (MiniLM)", "MiniLM", "finished")
    for name in (
        "global_model_acc",
        *(f"{kind}acc_{test}" for kind in ("", "friend_") for test in ("global", "local")),
    ):
        assert 0 <= summary[name] <= 1
        if name != "global_model_acc":
            assert 0 <= summary[f"{name}_dropouts"] <= 1
    assert math.isfinite(summary["generator_loss"])
    with open(whole / "interpolation.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["dropout"] == "0"]
    for share, kind in ((0.1, ""), (1.0, "friend_")):
        for test in ("global", "local"):
            values = [float(row[f"acc_{test}"]) for row in rows if float(row["friend_share"]) == share]
            assert summary[f"{kind}acc_{test}"] == pytest.approx(np.mean(values), abs=1e-9)


def test_what_the_metrics_show_when(whole):
    """A row for the beginning and one for each of 7 steps; a loss from the first lesson on, friends at the end."""
    with open(whole / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(8))
    assert all(row["acc_global"] and row["acc_global_dropouts"] for row in rows)
    assert [bool(row["generator_loss"]) for row in rows] == [False] * 4 + [True] * 4
    assert [bool(row["friend_acc_global"]) for row in rows] == [False] * 6 + [True] * 2
    assert [bool(row["global_model_acc"]) for row in rows] == [False] * 6 + [True] * 2
    for row in rows[:6]:  # everyone has the global model
        assert float(row["acc_global"]) == pytest.approx(float(row["acc_global_dropouts"]))
    assert rows[7]["acc_global"] != rows[7]["acc_global_dropouts"]


def test_a_dropouts_model_can_be_exported(whole):
    """And is as good as the run says: its row of the sweep at λ = .1."""
    assert main(["export", str(whole), "--client", "2", "--output", "own.ckpt"]) == 0
    with open(whole / "interpolation.csv") as file:
        (row,) = (r for r in csv.DictReader(file) if (r["client"], r["friend_share"]) == ("2", "0.1"))
    data = SkewedDigits(num_clients=6, limit=300, test_share=0.3, dropouts=[2], monopoly_classes=[8, 9], seed=3)
    model = MLP.load_from_checkpoint("own.ckpt").eval()
    for name, view in (("acc_global", data.global_test()), ("acc_local", data.shard(2).test)):
        x, y = view.tensors()
        assert float((model(x).argmax(1) == y).double().mean()) == pytest.approx(float(row[name]))


def test_a_run_cut_in_rounds_lessons_and_personal_steps_goes_on_bit_for_bit(whole, monkeypatch):
    """After 1 of 3 rounds, 1 of 2 lessons and 1 of 2 personal steps; rows in files besides, instead of in memory."""
    monkeypatch.setattr(apfl, "LESSON", 10)
    main(["fit", *FLAGS, "--run_dir", "cut", "--engine.memory_gb", "0", "--engine.max_updates", "1"])
    for until in ("4", "6", "null"):
        assert json.loads(Path("cut/summary.json").read_text())["status"] != "finished"
        assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", until]) == 0
    assert Path("cut/bank/personal.rows").exists()
    for name in ("metrics.csv", "clients.csv", "interpolation.csv", "synthetic.npz"):
        assert Path("cut", name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.slow
def test_two_ranks_give_the_numbers_of_one():
    assert main(["fit", *FLAGS, "--run_dir", "one"]) == 0
    command = [sys.executable, "-m", "flcluster", "fit", *FLAGS, "--run_dir", "two"]
    ranks = ["--fabric.devices", "2", "--fabric.accelerator", "cpu"]
    subprocess.run([*command, *ranks], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, timeout=300)
    for name in ("metrics.csv", "clients.csv", "interpolation.csv", "synthetic.npz"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes(), name
