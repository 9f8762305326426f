"""What a script gets back: numbers, models and pictures; of several runs, a table."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import flcluster as fl
from flcluster.algorithms import CDFL
from flcluster.cli import main
from flcluster.engine.progress import RunProgress
from flcluster.modules import MLP

ROOT = Path(__file__).parents[3]
TINY = ROOT / "tests" / "tiny.yaml"
SETTINGS = yaml.safe_load(TINY.read_text())
QUIET = {"progress": False, "threads": 1}


def test_a_run_tells_its_numbers_models_and_pictures():
    run = fl.fit(config=TINY, run_dir="run", engine=QUIET)
    assert run.dir == Path("run") and run.status == "finished" and run.is_main
    assert isinstance(run.metrics["client_acc_after"], np.ndarray) and len(run.metrics["update"]) == 6
    assert run.summary["updates"] == len(run.clients["client"]) == 30
    assert repr(run) == "<CDFL Digits K=2 seed=3: 30 updates, finished, in run>"
    drawn = run.figures()
    assert drawn and all(path.exists() for path in drawn)
    for what in ({"cluster": 1}, {"client": 2}):
        ((name, number),) = what.items()
        assert main(["export", "run", f"--{name}", str(number), "--output", "model.ckpt"]) == 0
        theirs = MLP.load_from_checkpoint("model.ckpt").state_dict()
        mine = run.model(**what)
        assert isinstance(mine, MLP) and mine.state_dict().keys() == theirs.keys()
        assert all(torch.equal(value, theirs[key]) for key, value in mine.state_dict().items())
    for wrong, said in (({"cluster": 2}, "models 0 to 1"), ({"client": 6}, "clients 0 to 5"), ({}, "models 0 to 1")):
        with pytest.raises(fl.UserError, match=said):
            run.model(**wrong)
    with pytest.raises(fl.UserError, match="not both"):
        run.model(cluster=0, client=0)


def test_the_only_model_needs_no_number_and_loading_gives_the_same():
    run = fl.fit(config=TINY, algorithm="FedAvg", rounds=1, run_dir="run", engine=QUIET)
    again = fl.load("run")
    assert again.summary == run.summary and again.metrics.keys() == run.metrics.keys()
    assert all(torch.equal(a, b) for a, b in zip(run.model().parameters(), again.model().parameters(), strict=True))
    with pytest.raises(fl.UserError, match=r"nowhere.*is missing"):
        fl.load("nowhere")


def test_a_data_frame_if_pandas_is_there(monkeypatch):
    run = fl.fit(config=TINY, cycles=1, run_dir="run", engine=QUIET)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fl.UserError, match=r"pip install pandas; run\.metrics has the same columns"):
        run.frame()

    class Pandas:
        DataFrame = staticmethod(dict)

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    assert run.frame().keys() == run.metrics.keys() and run.frame("clients").keys() == run.clients.keys()


def test_compare_runs_methods_and_seeds_and_prints_a_table(capsys):
    parts = {"data": SETTINGS["data"], "model": SETTINGS["model"], "cycles": 1, "engine": QUIET}
    runs = fl.compare(
        {"gentle": CDFL(beta0=0.1, pretrain_epochs=1), "alone": "Local"}, seeds=[0, 1], output="out", **parts
    )
    assert [run.dir.name for run in runs] == ["gentle-seed0", "alone-seed0", "gentle-seed1", "alone-seed1"]
    assert [run.summary["seed"] for run in runs] == [0, 0, 1, 1] and len(runs[:2]) == 2
    runs.table()
    printed = [line for line in capsys.readouterr().out.splitlines() if "−" not in line]
    lines = [line.split()[0] for line in printed if line.startswith((" CDFL", " Local"))]
    assert sorted(lines) == ["CDFL", "Local"], "seeds share a row"
    assert {path.name for path in runs.report("report")} > {"report.md", "report.csv"}
    before = [(run.dir / "metrics.csv").read_text() for run in runs]
    again = fl.compare(
        [{"gentle": CDFL(beta0=0.1, pretrain_epochs=1)}, {"alone": "Local"}], seeds=[0, 1], output="out", **parts
    )
    assert [(run.dir / "metrics.csv").read_text() for run in again] == before


def test_compare_takes_lists_of_methods_and_of_configs():
    parts = {"model": SETTINGS["model"], "data": SETTINGS["data"], "cycles": 1, "engine": QUIET}
    runs = fl.compare([CDFL(pretrain_epochs=1), "Local", {"class_path": "FedBuff"}], output="a", **parts)
    assert [run.dir.name for run in runs] == ["CDFL", "Local", "FedBuff"]
    assert [run.dir.name for run in fl.compare([TINY, str(TINY)][:1], output="b", cycles=1, engine=QUIET)] == ["tiny"]
    with pytest.raises(fl.UserError, match="two methods are called CDFL"):
        fl.compare([CDFL(), CDFL(beta0=0.1)], **parts)
    with pytest.raises(fl.UserError, match="give output="):
        fl.compare(["CDFL"], run_dir="run", **parts)


def test_the_import_is_cheap_and_names_are_there():
    code = """
import sys
import flcluster as fl
heavy = {"torch", "lightning", "numpy", "matplotlib", "jsonargparse"} & set(sys.modules)
assert not heavy, heavy
assert {"fit", "load", "compare", "Run", "algorithms"} <= set(dir(fl)) and set(fl.__all__) <= set(dir(fl))
assert fl.UserError.__name__ == "UserError" and "torch" not in sys.modules
try:
    fl.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
assert callable(fl.fit) and "torch" in sys.modules
for name in fl.__all__:
    assert getattr(fl, name) is not None
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env={"PYTHONPATH": str(ROOT), "PATH": ""})


def test_type_checkers_see_what_is_exported():
    import ast

    tree = ast.parse((ROOT / "flcluster" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name for node in block.body for alias in node.names}
    assert seen == set(fl.__all__) - {"__version__"}


def test_a_notebook_has_one_line_that_changes(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    clock = [0.0]
    monkeypatch.setattr("flcluster.engine.progress.time.monotonic", lambda: clock[0])
    with RunProgress("CDFL", 100_000, 0, enabled=True) as progress:
        progress.start_from(0)
        for client in range(50):
            progress.note(f"pre-trained cluster model {client} of 50")
        for done in range(1, 100_001):
            clock[0] += 0.36  # ten hours
            progress.update(done, {"client_acc_after": 0.5}, "updates")
    written = capsys.readouterr().err
    assert written.count("\n") == 1 and written.count("\r") < 700
    last = written.split("\r")[-1]
    assert last.startswith("CDFL: 100000/100000") and last.endswith("\n")
