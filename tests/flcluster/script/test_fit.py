"""fl.fit: the engine of the command line in a script, with names, settings or objects."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml

import flcluster as fl
from flcluster.algorithms import CDFL, FedAvg
from flcluster.cli import main
from flcluster.datamodules import RotatedDigits
from flcluster.engine.start import read_weights
from flcluster.modules import MLP

ROOT = Path(__file__).parents[3]
TINY = ROOT / "tests" / "tiny.yaml"
SETTINGS = yaml.safe_load(TINY.read_text())
QUIET = {"progress": False, "threads": 1}
TIMES = ("wall_seconds", "updates_per_second", "peak_memory_gb", "commit")


def data(**changes):
    return RotatedDigits(**{**SETTINGS["data"]["init_args"], **changes})


def mlp(**changes):
    return MLP(10, (1, 8, 8), **{**SETTINGS["model"]["init_args"], **changes})


def method(**changes):
    return CDFL(**{**SETTINGS["algorithm"]["init_args"], **changes})


def tiny(run_dir="run", **changes):
    """The run of tests/tiny.yaml of objects."""
    parts = {"data": data(), "algorithm": method(), "seed": 3, "engine": QUIET}
    if "model" not in changes:  # to make one draws random numbers
        parts["model"] = mlp()
    return fl.fit(**{**parts, "run_dir": run_dir, **changes})


def numbers(run_dir):
    """All that a run says but for what it took."""
    summary = json.loads((Path(run_dir) / "summary.json").read_text())
    told = {name: value for name, value in summary.items() if name not in TIMES}
    return told, (Path(run_dir) / "metrics.csv").read_text(), (Path(run_dir) / "clients.csv").read_text()


@pytest.fixture(scope="module")
def by_command(tmp_path_factory):
    """The same run from the command line."""
    folder = tmp_path_factory.mktemp("command") / "run"
    assert main(["fit", "--config", str(TINY), "--run_dir", str(folder)]) == 0
    return folder


def test_names_with_settings_give_the_run_of_the_command_line(by_command):
    run = fl.fit(
        data=SETTINGS["data"],
        model=SETTINGS["model"],
        algorithm=SETTINGS["algorithm"],
        seed=3,
        run_dir="a",
        engine=QUIET,
    )
    assert numbers("a") == numbers(by_command)
    config, theirs = (yaml.safe_load((folder / "config.yaml").read_text()) for folder in (run.dir, by_command))
    assert {**config, "engine": 0} == {**theirs, "engine": 0}
    fl.fit(config=TINY, run_dir="b", engine=QUIET)
    assert numbers("b") == numbers(by_command)


def test_the_config_of_objects_repeats_the_run():
    tiny("objects")
    config = yaml.safe_load(Path("objects/config.yaml").read_text())
    assert "objects" not in config and config["model_start"] == "objects/start.ckpt"
    assert config["data"]["init_args"]["num_clients"] == 6 and config["algorithm"]["init_args"]["beta0"] == 0.3
    assert main(["fit", "--config", "objects/config.yaml", "--run_dir", "again"]) == 0
    assert numbers("again") == numbers("objects")


def test_a_run_of_objects_goes_on_from_the_command_line_and_in_a_script():
    tiny("whole")
    for name, go_on in {
        "script": lambda: tiny("script", ckpt="last"),
        "bare": lambda: fl.fit(run_dir="bare", ckpt="last", engine={"max_updates": None, **QUIET}),
        "command": lambda: main(["fit", "--run_dir", "command", "--ckpt_path", "last", "--engine.max_updates", "null"]),
    }.items():
        cut = tiny(name, start="whole/start.ckpt", engine={**QUIET, "max_updates": 13})
        assert cut.status == "stopped: engine.max_updates=13" and cut.summary["updates"] == 13
        go_on()
        assert numbers(name) == numbers("whole")


def test_what_no_file_can_tell_is_noted_and_goes_on_in_a_script_alone(capsys):
    @dataclass(frozen=True, kw_only=True)
    class Local(CDFL):
        pass

    def cut(**changes):
        own = Local(**SETTINGS["algorithm"]["init_args"])
        return tiny("run", algorithm=own, **changes)

    run = cut(engine={**QUIET, "max_updates": 13})
    config = yaml.safe_load((run.dir / "config.yaml").read_text())
    assert "Local stands in the script itself" in config["objects"]["algorithm"]
    assert config["algorithm"]["init_args"]["cycles"] == 5 and list(config["objects"]) == ["algorithm"]
    for arguments in (["--run_dir", "run", "--ckpt_path", "last"], ["--config", "run/config.yaml"]):
        assert main(["fit", *arguments]) == 2
        said = capsys.readouterr().err
        assert 'fl.fit(…, run_dir="run", ckpt="last") with the same objects' in said and said.count("\n") == 1
    with pytest.raises(fl.UserError, match="same objects"):
        fl.load("run").model(cluster=0)
    assert fl.load("run", algorithm=run.algorithm).model(cluster=0).hparams.hidden == (16,)
    whole = cut(ckpt="last")
    assert whole.status == "finished" and whole.summary["updates"] == 30
    assert main(["export", "run", "--cluster", "0"]) == 2


def test_a_class_whose_module_is_not_loaded_is_not_imported_to_be_told(monkeypatch):
    """To import it would run the script that it stands in once more, within the run (``exec``, ``runpy``)."""
    Path("again.py").write_text("import os\nopen('imported', 'w').close()\nos.chdir('/')\n")
    monkeypatch.syspath_prepend(Path.cwd())
    scope = {"__name__": "again", "CDFL": CDFL}
    exec("class Mine(CDFL):\n    pass", scope)
    run = tiny(algorithm=scope["Mine"](**SETTINGS["algorithm"]["init_args"]), engine={**QUIET, "max_updates": 1})
    assert run.summary["updates"] == 1 and not Path("imported").exists()
    why = yaml.safe_load((run.dir / "config.yaml").read_text())["objects"]["algorithm"]
    assert why == "Mine is not what one gets by importing again.Mine"


def test_a_part_given_by_settings_cannot_set_what_follows_from_others():
    with pytest.raises(fl.UserError, match=r"^data\.seed cannot be set: .* set seed_everything instead"):
        fl.fit(config=TINY, data={"class_path": "RotatedDigits", "init_args": {"seed": 4}}, run_dir="run")


def test_where_max_updates_stopped_it_one_is_told_to_lift_that(capsys):
    tiny(engine={**QUIET, "progress": True, "max_updates": 1})
    told = capsys.readouterr().err.replace("\n", " ")
    assert 'fl.fit(…, run_dir="run", ckpt="last", engine={"max_updates": None})' in told


def test_a_module_that_keeps_no_hyperparameters_is_noted(monkeypatch):
    class Bare(MLP):
        def __init__(self, extra, **kwargs):
            super().__init__(10, (1, 8, 8), **kwargs)
            self._hparams.pop("extra", None)

    Bare.__module__, Bare.__qualname__ = "elsewhere", "Bare"
    monkeypatch.setitem(sys.modules, "elsewhere", SimpleNamespace(Bare=Bare))
    run = tiny(model=Bare(torch.zeros(2), hidden=[4]), engine={**QUIET, "max_updates": 1})
    config = yaml.safe_load((run.dir / "config.yaml").read_text())
    assert "does not keep its argument extra (call self.save_hyperparameters()" in config["objects"]["model"]
    assert config["model"]["class_path"] == "elsewhere.Bare"


def test_other_settings_are_refused_when_a_run_goes_on():
    tiny(engine={**QUIET, "max_updates": 3})
    with pytest.raises(fl.UserError, match=r"beta0: 0\.3 -> 0\.2"):
        tiny(algorithm=method(beta0=0.2), ckpt="last")
    with pytest.raises(fl.UserError, match="already holds a run"):
        tiny()
    with pytest.raises(fl.UserError, match="start= is for a new run"):
        tiny(ckpt="last", start=mlp())
    with pytest.raises(fl.UserError, match="needs run_dir"):
        tiny(None, ckpt="last")


def test_the_seed_is_the_runs_and_the_datas():
    assert tiny(seed=None, data=data(seed=7), engine={**QUIET, "max_updates": 0}).summary["seed"] == 7
    tiny("three", data=data(seed=3), start="run/start.ckpt")
    tiny("drawn", start="run/start.ckpt")
    assert numbers("three") == numbers("drawn")
    with pytest.raises(fl.UserError, match="data was made with seed=7, and fit has seed=3"):
        tiny("no", data=data(seed=7))
    assert not Path("no").exists()


def test_lengths():
    assert tiny("a", cycles=1).summary["updates"] == 6
    assert fl.fit(config=TINY, cycles=2, run_dir="b", engine=QUIET).summary["updates"] == 12
    named = fl.fit(data(), "MLP", "FedAvg", rounds=1, run_dir="c", engine=QUIET)
    assert named.metrics["epoch"][-1] == 1
    assert tiny("d", algorithm=FedAvg, rounds=1).metrics["epoch"][-1] == 1
    with pytest.raises(fl.UserError, match="CDFL has no rounds: give cycles="):
        tiny("e", rounds=3)
    with pytest.raises(fl.UserError, match="rounds"):
        fl.fit(config=TINY, rounds=2, run_dir="f", engine=QUIET)


def test_mistakes_are_user_errors_and_leave_nothing(capfd):
    for wrong in (
        {"algorithm": "NoSuchMethod"},
        {"engine": {"no_such_key": 1}},
        {"fabric": {"precision": "8-bit"}},
        {"start": "missing.ckpt"},
        {"data": None},
        {"model": {"class_path": "MLP", "init_args": {"hidden": [-1]}}},
    ):
        with pytest.raises(fl.UserError):
            tiny("wrong", **wrong)
        assert not Path("wrong").exists()
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err


def test_the_authors_model_is_not_trained():
    model = mlp()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    run = tiny(model=model, engine={**QUIET, "max_updates": 6})
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    kept = read_weights(run.dir / "start.ckpt")
    assert all(torch.equal(value, before[name]) for name, value in kept.items())


def test_a_callback_and_a_logger_of_ones_own(tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    class Seen(fl.Callback):
        def __init__(self):
            self.stale = []

        def on_upload(self, loop, upload):
            self.stale.append((upload.epoch, upload.staleness))

    seen = Seen()
    run = tiny(callbacks=[seen], logger=CSVLogger("logs"))
    assert [epoch for epoch, _ in seen.stale] == list(range(30))
    assert [stale for _, stale in seen.stale] == run.clients["staleness"].tolist()
    assert list(Path("logs").rglob("metrics.csv"))
    told = tiny("told", callbacks=[fl.EarlyStopping(patience=2, min_delta=2.0)])
    assert told.status.startswith("stopped: client_acc_after")
    entry = {"class_path": "flcluster.engine.callbacks.EarlyStopping"}
    config = yaml.safe_load((told.dir / "config.yaml").read_text())
    assert config["callbacks"][0]["class_path"] == entry["class_path"]
    assert config["callbacks"][0]["init_args"]["patience"] == 2


def state_of_the_process():
    """All that a run must leave as it was."""
    import matplotlib

    return {
        "random": random.getstate(),
        "numpy": [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()],
        "torch": torch.get_rng_state().tolist(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "signals": [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)],
        "device": torch.get_default_device(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "backend": dict.__getitem__(matplotlib.rcParams, "backend"),
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "hook": sys.excepthook,
        "path": list(sys.path),
    }


class Meddler(fl.Callback):
    """Changes everything a run could change, and then ends it as told."""

    def __init__(self, end=None):
        self.end = end

    def on_fit_start(self, loop):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        torch.set_num_threads(2), torch.set_default_dtype(torch.float64)
        torch.set_default_dtype(torch.float32)
        warnings.simplefilter("error", category=BytesWarning)
        os.environ["MEDDLED"] = "yes"
        os.environ.pop("KEPT", None)

    def on_session_end(self, loop, metrics):
        if loop.position and self.end is not None:
            self.end()


def fail():
    raise RuntimeError("a mistake of the author")


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("end, raises", [(None, None), (fail, RuntimeError), (interrupt, KeyboardInterrupt)])
def test_the_process_is_as_before(end, raises, monkeypatch, capfd):
    monkeypatch.setenv("KEPT", "kept")
    monkeypatch.delenv("OMP_NUM_THREADS")
    model = mlp()
    before = state_of_the_process()
    if raises:
        with pytest.raises(raises):
            tiny(callbacks=[Meddler(end)], model=model)
    else:
        run = tiny(callbacks=[Meddler()], model=model)
        run.figures(), run.model(cluster=0), run.table()
    assert state_of_the_process() == before
    assert "Traceback" not in "".join(capfd.readouterr())


def test_ctrl_c_stops_resumably_and_is_raised():
    end, model = Meddler(lambda: signal.raise_signal(signal.SIGINT)), mlp()
    before = state_of_the_process()
    with pytest.raises(KeyboardInterrupt, match=r'go on with fl\.fit\(…, run_dir="run", ckpt="last"\)'):
        tiny(callbacks=[end], model=model)
    assert state_of_the_process() == before
    assert fl.load("run").summary["updates"] == 6
    end.end = None
    assert tiny(ckpt="last", callbacks=[end]).status == "finished"


def test_sigterm_stops_resumably_and_is_the_scripts_again():
    got = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    try:
        run = tiny(callbacks=[Meddler(lambda: signal.raise_signal(signal.SIGTERM))])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert got == [signal.SIGTERM] and run.status == "stopped: SIGTERM" and run.summary["updates"] == 6


def test_a_run_in_another_thread_and_one_after_the_other():
    done = []
    thread = threading.Thread(target=lambda: done.append(tiny("thread")))
    thread.start()
    thread.join()
    model = mlp()
    first, second = (tiny(name, model=model) for name in ("first", "second"))
    assert done[0].status == "finished" and numbers(first.dir) == numbers(second.dir)


def test_weights_of_ones_own_are_in_the_module(monkeypatch):
    started = {}
    from flcluster.engine import fit as engine

    class Noted(engine.ActiveRun):
        def __init__(self, exp, *rest):
            started["weights"] = {name: value.clone() for name, value in exp.model.state_dict().items()}
            super().__init__(exp, *rest)

    monkeypatch.setattr(engine, "ActiveRun", Noted)
    own = mlp()
    torch.save({"state_dict": own.state_dict(), "epoch": 3}, "own.ckpt")
    torch.save(own.state_dict(), "plain.pt")
    short = {**QUIET, "max_updates": 0}
    for at, (start, model) in enumerate(
        [
            ("own.ckpt", SETTINGS["model"]),
            ("plain.pt", mlp()),
            (own, SETTINGS["model"]),
            (own.state_dict(), mlp()),
            (None, own),
        ]
    ):
        tiny(f"run{at}", start=start, model=model, engine=short)
        assert all(torch.equal(value, own.state_dict()[name]) for name, value in started["weights"].items())
    assert (
        main(
            ["fit", "--config", str(TINY), "--model_start", "own.ckpt", "--run_dir", "cli", "--engine.max_updates", "0"]
        )
        == 0
    )
    assert all(torch.equal(value, own.state_dict()[name]) for name, value in started["weights"].items())
    with pytest.raises(fl.UserError, match=r"does not fit MLP: body\.1\.bias \(model \(8,\), file \(16,\)\)"):
        tiny("no", model=mlp(hidden=[8]), start="own.ckpt")
    Path("text.ckpt").write_text("no weights")
    with pytest.raises(fl.UserError, match="cannot be read as weights"):
        tiny("no", start="text.ckpt")


def test_several_devices_are_processes_made_for_the_run():
    """Fabric spawns them; the script itself is neither run again nor changed."""
    script = f"""
import os
import flcluster as fl

print("begins")
if __name__ == "__main__":
    before = dict(os.environ)
    run = fl.fit(config={str(TINY)!r}, run_dir="two", fabric={{"accelerator": "cpu", "devices": 2}}, cycles=2)
    assert dict(os.environ) == before
    print("ends", run.status)
"""
    Path("script.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run([sys.executable, "script.py"], env=environment, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("ends finished") == 1
    fl.fit(config=TINY, run_dir="one", cycles=2)
    assert numbers("one") == numbers("two")


def test_several_devices_are_refused_in_a_notebook(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with pytest.raises(fl.UserError, match=r"^fabric.devices=2 in a notebook .*python FILE\.py$"):
        tiny(fabric={"accelerator": "cpu", "devices": 2})
    monkeypatch.delattr(sys, "ps1")
    with pytest.raises(fl.UserError, match=r"^fabric.strategy=ddp would start the whole script again .*torchrun$"):
        tiny(fabric={"accelerator": "cpu", "devices": 2, "strategy": "ddp"})
    assert not Path("run").exists()
