"""Weights & Biases: what its runs are called, what they keep, and a sweep's agent, against a backend that is none."""

import os
import queue
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import wandb
import yaml

from flcluster.cli import main
from flcluster.records.configuration import key_of_settings

ROOT = Path(__file__).parents[4]
TINY = str(ROOT / "tests" / "tiny.yaml")


@pytest.fixture
def begun(monkeypatch):
    """What W&B runs are begun with, and the run that they all are."""
    monkeypatch.setattr(wandb, "run", None)
    run, asked = MagicMock(id="theid"), []
    monkeypatch.setattr(wandb, "init", lambda **given: asked.append(given) or run)
    return asked, run


def fit(folder, *flags):
    flags = ("--logger", "WandbLogger", "--algorithm.cycles", "1", *flags)
    assert main(["fit", "--config", TINY, "--run_dir", folder, *flags]) == 0


def test_runs_are_called_by_what_they_are_and_grouped_with_their_repeats(begun):
    asked, _ = begun
    fit("a", "--seed_everything", "1")
    fit("b", "--seed_everything", "2")
    fit("c", "--algorithm.rho", "0.7")
    assert [given["name"] for given in asked] == [f"CDFL RotatedDigits seed={seed}" for seed in (1, 2, 3)]
    groups = [given["group"] for given in asked]
    assert groups[0] == groups[1] != groups[2]
    assert groups[2].endswith(key_of_settings(yaml.safe_load(Path("c/config.yaml").read_text())))


def test_names_that_are_given_stay(begun, monkeypatch):
    asked, _ = begun
    fit("a", "--logger.name", "mine")
    monkeypatch.setenv("WANDB_NAME", "the environment's")
    monkeypatch.setenv("WANDB_RUN_GROUP", "the environment's")
    fit("b")
    assert asked[0]["name"] == "mine" and asked[0]["group"].startswith("CDFL RotatedDigits ")
    assert asked[1]["name"] is None and not asked[1].get("group")  # W&B takes them from the environment


def test_summary_and_pictures_are_kept_as_artifacts(begun):
    _, run = begun
    fit("a", "--engine.pictures", "true")
    (numbers,), (pictures,) = (call.args for call in run.log_artifact.call_args_list)
    assert (numbers.type, numbers.name, pictures.type) == ("run", "run-theid", "pictures")
    assert set(numbers.manifest.entries) == {
        *("summary.json", "metrics.csv", "clients.csv", "config.yaml", "provenance.json"),
    }
    assert "accuracy.png" in pictures.manifest.entries
    assert "client_acc_after" in run.summary.update.call_args.args[0]
    shown = [call.args[0] for call in run.log.call_args_list if call.args and "pictures/accuracy" in call.args[0]]
    assert len(shown) == 1


@pytest.mark.slow
def test_a_sweep_s_agent_runs_its_commands(monkeypatch):
    """W&B's own agent and a sweep of ours, on other data; the backend gives two commands of the grid and then ends."""
    agents = pytest.importorskip("wandb.wandb_agent")
    sweeps = pytest.importorskip("wandb.apis.public.sweeps")
    if not hasattr(sweeps, "_register_agent"):
        pytest.skip("another W&B, which talks to its backend in another way")
    sweep = yaml.safe_load((ROOT / "configs" / "sweeps" / "rho.yaml").read_text())
    sweep["command"] = [TINY if part.endswith(".yaml") else part for part in map(str, sweep["command"])]
    wanted = sweep["parameters"]["algorithm.rho"]["values"][:2]
    waiting = [
        {
            "type": "run",
            "id": f"c{i}",
            "run_id": f"run{i}",
            "program": sweep["program"],
            "args": {
                "algorithm.rho": {"value": rho},
                "seed_everything": {"value": 1},
                "algorithm.cycles": {"value": 1},
            },
        }
        for i, rho in enumerate(wanted)
    ]
    monkeypatch.setattr(sweeps, "_sweep_with_runs", lambda *given: {"config": yaml.safe_dump(sweep)})
    monkeypatch.setattr(sweeps, "_register_agent", lambda *given, **named: {"id": "agent"})

    def heartbeat(self, agent_id, run_status):
        return [waiting.pop(0)] if waiting and not run_status else []

    monkeypatch.setattr(agents.Agent, "_heartbeat_commands", heartbeat)
    monkeypatch.setattr(agents.Agent, "_stop_if_deleted_sweep_drained", lambda self: False)
    monkeypatch.setattr(wandb, "Api", MagicMock())
    for name, value in {"WANDB_MODE": "offline", "WANDB_SWEEP_ID": "s", "WANDB_DIR": str(Path.cwd())}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_RUN_ID", "set by the agent")
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", "set by the agent")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    agents.Agent(MagicMock(), queue.Queue(), sweep_id="s", count=2).run()
    ran = sorted(Path("runs/tiny").iterdir())
    configs = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in ran]
    assert sorted(config["algorithm"]["init_args"]["rho"] for config in configs) == wanted
    assert {config["seed_everything"] for config in configs} == {1}
    assert {path.name[-4:] for folder in ran for path in folder.glob("wandb/offline-run-*")} == {"run0", "run1"}
