"""The command line: how settings are given, printed, refused."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from flcluster.cli import main
from flcluster.engine.arguments import with_dashes
from flcluster.engine.config import plan_fit

TINY = str(Path(__file__).parents[2] / "tiny.yaml")


def settings(*argv: str) -> dict:
    return yaml.safe_load(plan_fit(["--config", TINY, *argv]).text)


def fails(capsys, *argv: str) -> str:
    """Run a command that must fail with exit code 2, and return what it says."""
    try:
        code = main(argv)
    except SystemExit as error:
        code = error.code
    assert code == 2
    return capsys.readouterr().err


def test_version_help_and_unknown_command(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("flcluster 0.")
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("fit", "compare", "study", "report", "data", "export", "tables"))
    assert "unknown command 'fti'" in fails(capsys, "fti")


def test_help_names_every_key(capsys):
    assert main(["fit", "--help"]) == 0
    out = capsys.readouterr().out
    for key in [
        "seed_everything",
        "fabric",
        "engine",
        "model",
        "data",
        "algorithm",
        "logger",
        "callbacks",
        "run_dir",
        "ckpt_path",
    ]:
        assert f"--{key}" in out
    with pytest.raises(SystemExit):
        main(["fit", "--algorithm.help", "CCFL"])
    out = " ".join(capsys.readouterr().out.split())
    assert "--algorithm.rho" in out and "weight of the proximal term" in out and "--algorithm.cycles" in out


def test_later_files_and_flags_win():
    Path("b.yaml").write_text("algorithm: {init_args: {beta0: 0.2, rho: 0.7}}\nseed_everything: 8\n")
    found = settings("--config", "b.yaml", "--algorithm.rho", "0.9")
    assert found["algorithm"]["init_args"]["beta0"] == 0.2
    assert found["algorithm"]["init_args"]["rho"] == 0.9
    assert found["algorithm"]["init_args"]["cycles"] == 5
    assert found["seed_everything"] == 8


def test_bare_key_value_like_a_sweep_agent():
    assert with_dashes(["algorithm.rho=0.5", "--x=1", "a.yaml"]) == ["--algorithm.rho=0.5", "--x=1", "a.yaml"]
    assert settings("algorithm.rho=0.5", "--data.num_clients=9")["algorithm"]["init_args"]["rho"] == 0.5


def test_switching_the_method_keeps_what_both_have(capsys):
    found = settings("--algorithm", "flcluster.algorithms.FedBuff", "--algorithm.buffer_size", "3")["algorithm"]
    assert found["class_path"].endswith("FedBuff")
    assert found["init_args"]["cycles"] == 5 and found["init_args"]["buffer_size"] == 3
    assert "beta0" not in found["init_args"]


def test_print_config_round_trips(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--config", TINY, "--algorithm.rho", "0.33", "--print_config"])
    printed = capsys.readouterr().out
    Path("printed.yaml").write_text(printed)
    plan = plan_fit(["--config", "printed.yaml"])
    assert yaml.safe_load(plan.text) == settings("--algorithm.rho", "0.33")


def test_links_fill_the_model(tmp_path):
    plan = plan_fit(["--config", TINY])
    made = plan.parser.instantiate(plan.settings)
    assert made.model.hparams["num_classes"] == made.data.num_classes == 10
    assert tuple(made.model.hparams["input_shape"]) == tuple(made.data.input_shape) == (1, 8, 8)
    assert made.data.seed == 3


def test_run_directories_never_collide(monkeypatch):
    monkeypatch.setattr("flcluster.engine.resume.time.strftime", lambda form: "20260101-000000")
    first, second, third = (plan_fit(["--config", TINY]).run_dir for _ in range(3))
    assert first == Path("runs/tiny/20260101-000000")
    assert (second.name, third.name) == ("20260101-000000-1", "20260101-000000-2")
    Path("here.yaml").write_text("run_dir: told\n")
    assert plan_fit(["--config", TINY, "--config", "here.yaml"]).run_dir == Path("told")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--algorithm.rhoo", "1"], "rhoo"),
        (["--algorithm", "NoSuchMethod"], "NoSuchMethod"),
        (["--algorithm.cycles", "-1"], "algorithm.cycles"),
        (["--algorithm.local_epochs", "0"], "algorithm.local_epochs"),
        (["--algorithm.c1", "0.9", "--algorithm.c2", "0.9"], "algorithm.c1"),
        (["--data.num_clusters", "0"], "num_clusters"),
        (["--data.samples", "[50, 9999]"], "samples"),
        (["--model.hidden", "[0]"], "hidden"),
        (["--ckpt_path", "last"], "--run_dir"),
        (["--run_dir", "gone", "--ckpt_path", "last"], "gone"),
        (["--data", "RotatedFashionMNIST", "--data.root", "nowhere"], "FashionMNIST"),
        (["--fabric.devices", "zero"], "devices"),
        (["--fabric.precision", "8-bit"], "precision"),
        (["--engine.threads", "many"], "threads"),
    ],
)
def test_mistakes_are_named(argv, said, capsys):
    message = fails(capsys, "fit", "--config", TINY, *argv)
    assert said in message
    assert len(message.splitlines()) < 15, "what is wrong is not buried under all keys"
    assert not list(Path(".").rglob("last.ckpt"))


def test_missing_and_broken_config_file(capsys):
    assert "none.yaml" in fails(capsys, "fit", "--config", "none.yaml")
    Path("bad.yaml").write_text("data: [unclosed")
    assert "bad.yaml" in fails(capsys, "fit", "--config", "bad.yaml")
    assert "data" in fails(capsys, "fit")


class Here:
    """A process that is none: it runs the command in this one, which has paid for its imports already."""

    def __init__(self, command: list[str], **other: object) -> None:
        self.code = main(command[command.index("fit") :])

    def poll(self) -> int:
        return self.code


def test_compare_runs_reports_and_goes_on(capfd, monkeypatch):
    monkeypatch.setattr(
        "flcluster.cli.jobs.processes.subprocess", SimpleNamespace(Popen=Here, TimeoutExpired=TimeoutError)
    )
    argv = ["compare", "--config", TINY, "--methods", "CDFL", "Local", "--output", "out", "--algorithm.cycles=2"]
    assert main(argv) == 0
    assert {p.name for p in Path("out").iterdir()} >= {"CDFL", "Local", "report.md", "report.csv", "report.html"}
    assert list(Path("out").glob("*.png"))
    a, b = (json.loads(Path(f"out/{m}/summary.json").read_text()) for m in ("CDFL", "Local"))
    assert a["updates"] == b["updates"] == 12
    arrivals = [Path(f"out/{m}/clients.csv").read_text().splitlines() for m in ("CDFL", "Local")]
    assert [row.split(",")[3:6] for row in arrivals[0]] == [row.split(",")[3:6] for row in arrivals[1]]
    before = Path("out/CDFL/clients.csv").read_text()
    assert main([*argv[:-1], "--algorithm.cycles=3"]) == 0
    after = Path("out/CDFL/clients.csv").read_text()
    assert after.startswith(before) and after.count("\n") == before.count("\n") + 6
    assert main([*argv, "--seed_everything=9"]) == 2
    assert main(["report", "out", "--output", "again"]) == 0
    assert Path("again/report.md").exists()
    assert "Local" in capfd.readouterr().out


def test_data_picture_and_tables(capsys):
    assert main(["data", "--config", TINY, "--output", "who.png"]) == 0
    assert Path("who.png").read_bytes().startswith(b"\x89PNG")
    assert main(["tables"]) == 0
    assert "cdfl_table1" in capsys.readouterr().out
    assert main(["tables", "cdfl_table1"]) == 0
    assert "0.834" in capsys.readouterr().out
    assert main(["tables", "nothing"]) == 2


def test_loggers_get_config_and_metrics():
    csv_logger = "[{class_path: CSVLogger, init_args: {save_dir: ., name: log}}]"
    assert main(["fit", "--config", TINY, "--run_dir", "a", "--logger", csv_logger]) == 0
    folder = next(Path("a/log").iterdir())
    rows = (folder / "metrics.csv").read_text().splitlines()
    assert len(rows) == 1 + 6 and "client_acc_after" in rows[0]
    assert "beta0: 0.3" in (folder / "hparams.yaml").read_text()


def test_tensorboard():
    board = "[{class_path: TensorBoardLogger, init_args: {save_dir: ., name: board}}]"
    assert main(["fit", "--config", TINY, "--run_dir", "a", "--logger", board]) == 0
    assert list(Path("a/board").rglob("events*"))


def test_wandb_offline_and_resumed_with_the_same_id():
    import torch

    flags = ["--logger", "WandbLogger", "--logger.offline", "true"]
    assert main(["fit", "--config", TINY, "--run_dir", "a", *flags, "--engine.max_updates", "12"]) == 0
    first = torch.load("a/checkpoints/last.ckpt", weights_only=True)["logger_ids"]["wandb"]
    assert main(["fit", "--run_dir", "a", "--ckpt_path", "last", "--engine.max_updates", "null"]) == 0
    folders = sorted(p.name for p in Path("a/wandb").glob("offline-run-*"))
    assert len(folders) >= 1 and all(name.endswith(first) for name in folders)
    assert first not in Path("a/config.yaml").read_text()
