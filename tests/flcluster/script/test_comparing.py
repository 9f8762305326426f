"""``fl.compare`` is the comparison that the command makes: checked first, equal budgets, every run made."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

import flcluster as fl
from flcluster.algorithms import CDFL, FedAvg
from flcluster.cli import main
from flcluster.comparison import turns

TINY = Path(__file__).parents[2] / "tiny.yaml"
SETTINGS = yaml.safe_load(TINY.read_text())
PARTS = {"data": SETTINGS["data"], "model": SETTINGS["model"], "engine": {"progress": False, "threads": 1}}
GENTLE = CDFL(cycles=2, local_epochs=1, batch_size=16, pretrain_epochs=1, beta0=0.1)
ROUNDS = FedAvg(rounds=9, local_epochs=1, batch_size=16)


@pytest.mark.parametrize(
    ("methods", "says"),
    [
        (
            {"gentle": GENTLE, "wrong": {"class_path": "CDFL", "init_args": {"roh": 1}}},
            r"wrong: .*roh.*did you mean rho",
        ),
        ({"gentle": GENTLE, "wrong": "CDFLL"}, r"wrong: .*CDFLL"),
        ({"gentle": GENTLE, "Gentle": GENTLE}, "methods: gentle, Gentle would share one directory"),
        ({"gentle-seed1": GENTLE}, "no directory name of its own"),
        ({}, "methods are to be named"),
    ],
)
def test_no_mistake_waits_behind_other_runs(methods, says):
    with pytest.raises(fl.UserError, match=says):
        fl.compare(methods, output="out", **PARTS)
    assert not Path("out").exists() and not Path("runs").exists()


def test_unlike_budgets_are_refused_and_equal_ones_made():
    methods = {"gentle": GENTLE, "rounds": ROUNDS}
    with pytest.raises(fl.UserError) as refused:
        fl.compare(methods, output="out", **PARTS)
    said = str(refused.value)
    assert re.search(
        r'rounds: [\d,]+ samples \(rounds 9\); lengths=\{"rounds": \{"rounds": 2\}\} makes them like', said
    )
    assert 'budget="equal" (all as the first), budget=SAMPLES (all so many), budget="own" (as they are)' in said
    assert not Path("out").exists()
    for n, how in enumerate(({"budget": "equal"}, {"lengths": {"rounds": {"rounds": 2}}})):
        runs = fl.compare(methods, output=f"out{n}", **how, **PARTS)
        assert runs[1].metrics["update"].tolist() == [0, 6, 12] and ROUNDS.rounds == 9
        trained = [run.clients["samples"].sum() for run in runs]
        assert trained[0] == pytest.approx(trained[1], rel=0.05)
    for wrong, says in (
        ({"budget": "equl"}, "budget is 'equl': give equal, own"),
        ({"lengths": {"other": {"rounds": 2}}}, "no method other; there are gentle, rounds"),
        ({"lengths": {"rounds": {"epochs": 2}}}, "lengths of rounds must be like"),
    ):
        with pytest.raises(fl.UserError, match=says):
            fl.compare(methods, output="out", **wrong, **PARTS)


class Failing(FedAvg):
    """Fails when it is to aggregate."""

    def aggregate(self, *given, **named):
        raise RuntimeError("out of luck")


def test_every_run_is_made_though_one_fails(capsys):
    rounds = FedAvg(rounds=1, local_epochs=1, batch_size=16)
    failing = Failing(rounds=1, local_epochs=1, batch_size=16)
    with pytest.raises(fl.UserError) as told:
        fl.compare({"bad": failing, "good": rounds}, seeds=[0, 1], output="out", **PARTS)
    assert "2 of 4 runs failed" in str(told.value) and "bad-seed1: RuntimeError: out of luck" in str(told.value)
    assert isinstance(told.value.__cause__, RuntimeError)
    assert [fl.load(f"out/good-seed{seed}").status for seed in (0, 1)] == ["finished"] * 2


def test_what_stopped_early_is_told_and_goes_on():
    some = {**PARTS, "engine": {**PARTS["engine"], "max_updates": 3}}
    with pytest.warns(UserWarning, match=r"1 of 1 runs stopped early: gentle \(stopped: engine.max_updates=3\)"):
        fl.compare({"gentle": GENTLE}, output="out", **some)
    (run,) = fl.compare({"gentle": GENTLE}, output="out", **PARTS)
    assert run.status == "finished" and run.summary["updates"] == 12


@pytest.mark.filterwarnings("ignore:.*no summary")
def test_the_command_reads_it_and_methods_are_tested_against_each_other(capsys):
    names = {"gentle": GENTLE, "alone": {"class_path": "Local", "init_args": {"pretrain_epochs": 1}}}
    common = {**PARTS, "lengths": {"alone": {"cycles": 2}}, "budget": "own"}
    runs = fl.compare(names, seeds=[0, 1, 2], output="out", **common)
    runs.table()
    table = capsys.readouterr().out
    mean = np.mean([run.summary["client_acc_after"] for run in runs[:6:2]])
    assert "±" in table and f"{mean:.3f}" in table
    runs.significance()
    assert "paired t" in (printed := capsys.readouterr().out) and "CDFL − Local" in printed
    runs[:1].significance()
    assert "no tests" in capsys.readouterr().out
    line = ["compare", "--methods", "gentle=CDFL", "alone=Local", "--output", "out", "--draw_only", "true"]
    assert main(line) == 0 and f"{mean:.3f}" in capsys.readouterr().out and Path("out/report.md").exists()


def test_it_leaves_runs_to_others_and_waits_for_them(monkeypatch, capsys):
    monkeypatch.setattr(turns, "POLL", 0.05)
    hold = "import sys, time\nfrom pathlib import Path\nfrom flcluster.engine.processes.lock import held\n"
    hold += "with held(Path('out/first')):\n    print('mine', flush=True)\n    time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": str(TINY.parents[1])}
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True, env=environment)
    assert other.stdout.readline() == "mine\n"

    def later():
        while not Path("out/second/summary.json").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        other.kill()
        other.wait()

    threading.Thread(target=later, daemon=True).start()
    rounds = FedAvg(rounds=1, local_epochs=1, batch_size=16)
    common = {**PARTS, "engine": {"threads": 1}}
    runs = fl.compare({"first": rounds, "second": rounds}, output="out", **common)
    assert [run.dir.name for run in runs] == ["first", "second"]
    said = capsys.readouterr().err
    places = [said.index(f": out/{name}\n") for name in ("second", "first")]
    assert places[0] < said.index(f"waiting for out/first: process {other.pid} on") < places[1]
