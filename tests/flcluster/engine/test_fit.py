"""Whole runs in this process, through the command line's own functions."""

import csv
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from flcluster.cli import main
from flcluster.engine.arguments import seconds
from flcluster.engine.callbacks import Callback, EarlyStopping
from flcluster.engine.config import plan_fit
from flcluster.engine.fit import build, fit, settle
from flcluster.engine.start import start_from, weights_of
from flcluster.errors import UserError
from flcluster.score import Score

TINY = str(Path(__file__).parents[2] / "tiny.yaml")


def run(folder: str, *flags: str, config: str | None = TINY) -> dict:
    argv = ["fit", *(["--config", config] if config else []), "--run_dir", folder, *flags]
    assert main(argv) in (0,)
    return json.loads(Path(folder, "summary.json").read_text())


def numbers(folder: str) -> tuple[str, str]:
    return Path(folder, "metrics.csv").read_text(), Path(folder, "clients.csv").read_text()


def untimed(summary: dict) -> dict:
    return {k: v for k, v in summary.items() if k not in ("wall_seconds", "updates_per_second", "peak_memory_gb")}


def test_run_directory_and_summary(capsys):
    summary = run("a", "--engine.pictures", "true", "--engine.table", "true")
    names = {p.name for p in Path("a").iterdir()}
    expected = {"config.yaml", "metrics.csv", "clients.csv", "summary.json", "checkpoints", "accuracy.png"}
    assert expected | {"run.log", "provenance.json"} <= names
    keys = (
        "algorithm dataset num_clusters num_clients seed updates client_acc_before client_acc_after cluster_acc kl "
        "upload_bytes download_bytes client_compute server_compute fresh_share deprecated_share wall_seconds "
        "updates_per_second"
    )
    assert set(keys.split()) <= set(summary)
    assert all(not isinstance(v, dict | list) for v in summary.values())
    assert (summary["algorithm"], summary["num_clients"], summary["updates"], summary["seed"]) == ("CDFL", 6, 30, 3)
    with open("a/clients.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    last = {row["client"]: float(row["acc_after"]) for row in rows}
    assert summary["client_acc_after"] == pytest.approx(sum(last.values()) / len(last), abs=1e-12)
    kls = [float(row["kl"]) for row in rows if row["kl"]]
    assert summary["kl"] == pytest.approx(sum(kls) / len(kls), abs=1e-12)
    parameters = 64 * 16 + 16 + 16 * 10 + 10
    assert summary["upload_bytes"] == summary["download_bytes"] == 30 * parameters * 4
    assert summary["client_compute"] == 3 * sum(int(row["samples"]) for row in rows)
    assert "CDFL" in capsys.readouterr().out


def test_same_seed_same_numbers_and_other_seed_other_numbers():
    run("a")
    run("b")
    run("c", "--seed_everything", "4")
    assert numbers("a") == numbers("b")
    assert numbers("a") != numbers("c")


@pytest.mark.parametrize("method", ["CDFL", "CCFL", "FedSoftAsync", "FedBuff", "CA2FL", "Local"])
@pytest.mark.parametrize("memory", ["1", "0"])
def test_resume_is_bit_for_bit(method, memory):
    flags = ["--algorithm", method, "--engine.memory_gb", memory]
    whole = run("whole", *flags)
    run("cut", *flags, "--engine.max_updates", "7")
    run("cut", "--ckpt_path", "last", "--engine.max_updates", "19", config=None)
    summary = run("cut", "--ckpt_path", "last", "--engine.max_updates", "null", config=None)
    assert numbers("cut") == numbers("whole")
    assert untimed(summary) == untimed(whole)
    assert Path("cut/bank/start.rows").exists() == (memory == "0")


@pytest.mark.parametrize("method", ["FedAvg", "IFCA"])
def test_rounds_resume_bit_for_bit(method):
    flags = ["--algorithm", method, "--algorithm.rounds", "4", "--algorithm.participation", "0.5"]
    whole = run("whole", *flags)
    run("cut", *flags, "--engine.max_updates", "2")
    summary = run("cut", "--ckpt_path", "last", "--engine.max_updates", "null", config=None)
    assert numbers("cut") == numbers("whole")
    assert untimed(summary) == untimed(whole)
    assert summary["updates"] == 4 * 3


@pytest.mark.parametrize("look_ahead", ["2", "5", "50"])
def test_look_ahead_changes_nothing(look_ahead):
    run("one")
    run("many", "--engine.look_ahead", look_ahead)
    assert numbers("one") == numbers("many")


def test_a_run_that_went_on_with_other_code_says_so(monkeypatch):
    monkeypatch.setattr("flcluster.engine.run.code_version", lambda: "one")
    assert run("cut", "--engine.max_updates", "7")["commit"] == "one"
    assert run("cut", "--ckpt_path", "last", "--engine.max_updates", "9", config=None)["commit"] == "one"
    monkeypatch.setattr("flcluster.engine.run.code_version", lambda: "two")
    assert run("cut", "--ckpt_path", "last", "--engine.max_updates", "null", config=None)["commit"] == "one+two"


def test_longer_on_resume():
    run("whole", "--algorithm.cycles", "7")
    run("grown")
    run("grown", "--ckpt_path", "last", "--algorithm.cycles", "7", config=None)
    assert numbers("grown") == numbers("whole")
    assert yaml.safe_load(Path("grown/config.yaml").read_text())["algorithm"]["init_args"]["cycles"] == 7


def test_checkpoint_path_instead_of_run_dir():
    run("cut", "--engine.max_updates", "7")
    assert main(["fit", "--ckpt_path", "cut/checkpoints/last.ckpt", "--engine.max_updates", "null"]) == 0
    run("whole")
    assert numbers("cut") == numbers("whole")


def test_resume_refuses_other_settings(capsys):
    run("cut", "--engine.max_updates", "7")
    before = numbers("cut")
    assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--algorithm.beta0", "0.1"]) == 2
    assert main(["fit", "--config", TINY, "--run_dir", "cut", "--ckpt_path", "last", "--seed_everything", "9"]) == 2
    err = capsys.readouterr().err
    assert "algorithm.init_args.beta0: 0.3 -> 0.1" in err and "seed_everything: 3 -> 9" in err
    assert numbers("cut") == before


def test_a_run_is_never_overwritten(capsys):
    run("a", "--engine.max_updates", "2")
    assert main(["fit", "--config", TINY, "--run_dir", "a"]) == 2
    assert "already holds a run" in capsys.readouterr().err


@pytest.mark.parametrize("harm", ["cut", "text", "missing"])
def test_bad_checkpoint(harm, capsys):
    run("a", "--engine.max_updates", "2")
    Path("a/checkpoints/previous.ckpt").unlink()  # test_damage.py has what is done with it
    path = Path("a/checkpoints/last.ckpt")
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    elif harm == "text":
        path.write_text("not a checkpoint")
    else:
        path.unlink()
    before = numbers("a")
    assert main(["fit", "--run_dir", "a", "--ckpt_path", "last"]) == 2
    assert "last.ckpt" in capsys.readouterr().err
    assert numbers("a") == before


class Faulty(Callback):
    """Breaks chosen uploads on their way."""

    def __init__(self, at: dict) -> None:
        self.at, self.why = at, []

    def on_upload(self, loop, upload):
        if loop.position in self.at:
            upload.row = self.at[loop.position](upload.row)

    def on_refused(self, loop, upload, why):
        self.why.append(why)


def test_refused_uploads_are_counted_and_change_nothing():
    exp = build(plan_fit(["--config", TINY, "--run_dir", "a"]))
    fault = Faulty({4: lambda row: row * math.nan, 9: lambda row: row[:-1], 12: lambda row: row + math.inf})
    exp.callbacks = [fault]
    summary = fit(exp)
    assert summary["refused"] == 3 and summary["updates"] == 30
    assert len(fault.why) == 3 and "shape" in fault.why[1] and "NaN" in fault.why[0]
    with open("a/clients.csv") as file:
        rows = list(csv.DictReader(file))
    assert [i for i, row in enumerate(rows) if row["status"] == "refused"] == [4, 9, 12]
    assert int(rows[-1]["epoch"]) == 27
    assert int(rows[4]["epoch"]) == int(rows[3]["epoch"])


def test_diverging_clients_are_refused_and_the_run_goes_on():
    summary = run("a", "--algorithm.pretrain_epochs", "0", "--model.optimizer", "sgd", "--model.lr", "1e30")
    assert summary["refused"] == summary["updates"] == 30
    assert math.isfinite(summary["client_acc_after"])


def test_diverging_pretraining_is_an_error(capsys):
    assert main(["fit", "--config", TINY, "--run_dir", "a", "--model.optimizer", "sgd", "--model.lr", "1e30"]) == 2
    assert "--model.lr" in capsys.readouterr().err


def test_early_stopping_does_not_cut_the_end_short():
    """Nothing improves while AP-FL's generator learns."""
    stopping = EarlyStopping(monitor="acc_global", patience=2)
    for closing, stops in ((True, None), (False, "acc_global has not improved for 2 sessions")):
        loop = SimpleNamespace(position=9, closing=closing, stop=None, fed=SimpleNamespace(score=Score()))
        for _ in range(3):
            stopping.on_session_end(loop, {"acc_global": 0.5})
        assert loop.stop == stops


def test_early_stopping_and_time_limit():
    early = [
        "--callbacks",
        "[{class_path: flcluster.engine.callbacks.EarlyStopping, init_args: {patience: 2, min_delta: 2.0}}]",
    ]
    summary = run("early", *early)
    assert summary["status"].startswith("stopped: client_acc_after") and summary["updates"] == 18
    assert run("late", "--engine.max_time", "00:00:00")["updates"] == 0
    assert main(["fit", "--config", TINY, "--run_dir", "x", "--engine.max_time", "soon"]) == 2
    assert seconds("01:02:03") == 3723 and seconds("1:00:00:00") == 86400


def test_export_cluster_and_client(capsys):
    from flcluster.modules import MLP

    run("a")
    content = torch.load("a/checkpoints/last.ckpt", weights_only=True)
    for flag, number in (("cluster", "1"), ("client", "2")):
        assert main(["export", "a", f"--{flag}", number]) == 0
    cluster, client = MLP.load_from_checkpoint("a/cluster1.ckpt"), MLP.load_from_checkpoint("a/client2.ckpt")
    flat = torch.cat([p.flatten() for p in cluster.parameters()])
    assert torch.equal(flat, content["loop"]["state"]["clusters"][1])
    flat = torch.cat([p.flatten() for p in client.parameters()])
    saved = content["bank"]["start"]["rows"]
    assert torch.equal(flat, saved["data"][saved["index"].tolist().index(2)])
    assert main(["export", "a", "--cluster", "7"]) == 2
    assert "0 to 1" in capsys.readouterr().err
    assert main(["export", "a"]) == 2


def test_export_from_a_bank_file():
    run("a", "--engine.memory_gb", "0")
    run("b")
    assert main(["export", "a", "--client", "2", "--output", "a.ckpt"]) == 0
    assert main(["export", "b", "--client", "2", "--output", "b.ckpt"]) == 0
    a, b = (torch.load(f, weights_only=True)["state_dict"] for f in ("a.ckpt", "b.ckpt"))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_precision_and_single_cluster_and_device_arrivals():
    assert run("bf16", "--fabric.precision", "bf16-mixed")["updates"] == 30
    one = run("one", "--data.num_clusters", "1")
    assert one["kl"] == 0 and one["num_clusters"] == 1
    for arrivals in ("DeviceArrivals", "PoissonArrivals", "PermutationArrivals", "RoundRobinArrivals"):
        assert run(arrivals, "--algorithm.arrivals", f"flcluster.devices.schedule.{arrivals}")["updates"] == 30


@pytest.mark.parametrize("content", [None, 3, {}, {"state_dict": {}}, {"a": 1}, {"a": torch.ones(1), "b": 1}])
def test_what_has_no_weights_is_refused(content):
    assert weights_of({"state_dict": {"a": torch.ones(1)}}, "x").keys() == {"a"}
    with pytest.raises(UserError, match="model_start: x has no weights"):
        weights_of(content, "x")


def test_weights_that_do_not_fit_are_named():
    module = torch.nn.Linear(2, 1)
    start_from(module, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, "x")
    assert module.weight.tolist() == [[1, 1]]
    with pytest.raises(
        UserError, match=r"x does not fit Linear: other \(model None, file \(3,\)\), weight \(model \(1, 2\)"
    ):
        start_from(module, {"weight": torch.ones(2, 2), "bias": torch.zeros(1), "other": torch.ones(3)}, "x")


@pytest.mark.parametrize("position", [None, 4])
def test_all_processes_take_the_first_ones_directory_and_checkpoint(position, monkeypatch):
    """A new directory is named by the clock, which may tick between two processes."""
    monkeypatch.setattr("os.environ", {"OMP_NUM_THREADS": "1"})
    restored = None if position is None else SimpleNamespace(content={"position": position})
    exp = SimpleNamespace(engine=SimpleNamespace(threads=None), run_dir=Path("runs/mine"), restored=restored)
    settle(SimpleNamespace(broadcast=lambda mine: "runs/first" if mine == "runs/mine" else mine), exp)
    assert exp.run_dir == Path("runs/first")
    with pytest.raises(UserError, match=rf"from step {position or 0} of .*first, rank 0 from step 9: is it on a file"):
        settle(SimpleNamespace(broadcast=lambda mine: mine if isinstance(mine, str) else 9), exp)
