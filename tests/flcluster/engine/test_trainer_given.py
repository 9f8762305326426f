"""A run whose local trainings have arguments and callbacks of the user's: it says so, resumes, two processes agree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lightning.pytorch.callbacks import Callback

import flcluster as fl
from flcluster.cli import main
from flcluster.modules import MLP

TINY = str(Path(__file__).parents[2] / "tiny.yaml")
CALLBACK = """
import torch
from lightning.pytorch.callbacks import Callback


class Noise(Callback):
    def __init__(self, by: float = 0.1):
        self.by, self.seen = by, 0

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.seen += 1
        for parameter in module.parameters():
            parameter.grad.add_(torch.randn_like(parameter), alpha=self.by / self.seen)
"""
GIVEN = ["--trainer", "{gradient_clip_val: 1.0}"]
GIVEN += ["--trainer_callbacks", "[{class_path: noisy.Noise, init_args: {by: 0.01}}]"]
FIT = ["fit", "--config", TINY, "--algorithm.cycles", "1", *GIVEN]


@pytest.fixture
def noisy(tmp_path, monkeypatch):
    Path("noisy.py").write_text(CALLBACK)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("noisy")
def test_a_run_says_what_it_takes_a_trainer_for_and_goes_on_bit_for_bit(capsys):
    assert main([*FIT, "--run_dir", "whole", "--engine.progress", "true"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "by lightning.Trainer (trainer.gradient_clip_val and trainer_callbacks are given)" in said
    assert main([*FIT, "--run_dir", "cut", "--engine.max_updates", "3"]) == 0
    assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", "null"]) == 0
    assert main([*FIT[:5], "--run_dir", "bare"]) == 0
    whole, cut, bare = (Path(name, "clients.csv").read_bytes() for name in ("whole", "cut", "bare"))
    assert whole == cut != bare
    assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--trainer", "{gradient_clip_val: 2.0}"]) == 2
    assert "trainer.gradient_clip_val: 1.0 -> 2.0" in capsys.readouterr().err
    assert isinstance(fl.load("whole").model(client=2), MLP)


@pytest.mark.usefixtures("noisy")
def test_two_processes_give_the_same(tmp_path):
    """Also with torchmetrics, which ours log: they once waited for a rank that was training another client."""
    assert main([*FIT, "--run_dir", "one"]) == 0
    command = [sys.executable, "-m", "flcluster", *FIT, "--run_dir", "two", "--fabric.devices", "2"]
    places = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    subprocess.run(command, check=True, env=places, timeout=120)  # a metric that waited for other ranks would hang it
    assert Path("one/clients.csv").read_bytes() == Path("two/clients.csv").read_bytes()


@pytest.mark.parametrize("name", ["logger", "devices", "strategy", "max_epochs"])
def test_what_cannot_be_given_is_one_line(name, capsys):
    assert main(["fit", "--config", TINY, "--run_dir", "run", "--trainer", f"{{{name}: 1}}"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"trainer.{name} cannot be given" in line


class Halved(Callback):
    """Of the script itself, with an argument that is kept nowhere."""

    def __init__(self, by):
        self.factor = by

    def on_train_start(self, trainer, module):
        for group in trainer.optimizers[0].param_groups:
            group["lr"] *= self.factor


def test_defaults_that_are_no_text_are_kept_as_text():
    """Lightning's Timer says ``interval: str`` and has a member of an enumeration as its default."""
    timer = "[{class_path: lightning.pytorch.callbacks.Timer, init_args: {duration: '00:00:10:00'}}]"
    assert main([*FIT[:5], "--trainer_callbacks", timer, "--run_dir", "run"]) == 0
    kept = yaml.safe_load(Path("run/config.yaml").read_text())["trainer_callbacks"][0]["init_args"]
    assert kept["interval"] == "step" and main(["fit", "--config", "run/config.yaml", "--run_dir", "again"]) == 0


def test_a_script_gives_objects():
    def fitted(name, **given):
        return fl.fit(config=TINY, cycles=1, run_dir=name, engine={"progress": False, "threads": 1}, **given)

    slow = fitted("slow", trainer={"accumulate_grad_batches": 1}, trainer_callbacks=[Halved(0.5)])
    by_hand = fitted(
        "hand", model={"class_path": "MLP", "init_args": {"hidden": [16], "optimizer": "adam", "lr": 0.005}}
    )
    config = yaml.safe_load(Path("slow/config.yaml").read_text())
    assert config["trainer"] == {"accumulate_grad_batches": 1} and "trainer_callbacks" in config["objects"]
    cut = fitted("cut", trainer_callbacks=[Halved(0.5)], trainer={"accumulate_grad_batches": 1})
    assert (slow.dir / "clients.csv").read_bytes() == (cut.dir / "clients.csv").read_bytes()
    assert slow.summary["client_acc_after"] == pytest.approx(by_hand.summary["client_acc_after"], abs=0.15)
