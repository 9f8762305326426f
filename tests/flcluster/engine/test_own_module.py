"""A run with a module of one's own: it says which path it takes, resumes bit for bit, and two processes agree."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flcluster.cli import main
from flcluster.engine.finished.saved import Saved

MODULE = '''
import math
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F


class Mine(LightningModule):
    """A scheduler, label smoothing and dropout: nothing that knows of flcluster."""

    def __init__(self, num_classes: int, input_shape: tuple[int, ...], lr: float = 0.2):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(math.prod(input_shape), num_classes))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch[0]), batch[1], label_smoothing=0.1)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", F.cross_entropy(self(batch[0]), batch[1]))
        self.log("val_acc", (self(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), self.lr, momentum=0.5)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]
'''
TINY = str(Path(__file__).parents[2] / "tiny.yaml")
COMMON = ["--config", TINY, "--model", "own_module.Mine", "--model.lr", "0.2", "--algorithm.local_epochs", "3"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    Path("own_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("own")
def test_a_run_learns_and_says_who_trains(capsys):
    assert main(["fit", *COMMON, "--run_dir", "run", "--engine.progress", "true"]) == 0
    assert "local training by lightning.Trainer (Mine is a module of your own)" in " ".join(
        capsys.readouterr().err.split()
    )
    assert json.loads(Path("run/summary.json").read_text())["client_acc_after"] > 0.5


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("method", ["CDFL", "FedAvg"])
def test_resume_is_bit_for_bit(method):
    flags = [*COMMON, "--algorithm", method, *(["--algorithm.rounds", "5"] if method == "FedAvg" else [])]
    assert main(["fit", *flags, "--run_dir", "whole"]) == 0
    assert main(["fit", *flags, "--run_dir", "cut", "--engine.max_updates", "3"]) == 0
    assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", "null"]) == 0
    for name in ("metrics.csv", "clients.csv"):
        assert Path("cut", name).read_bytes() == Path("whole", name).read_bytes()


@pytest.mark.usefixtures("own")
def test_two_processes_give_the_same(tmp_path):
    """Different ranks train different clients, each with a Trainer that knows of no other."""
    assert main(["fit", *COMMON, "--run_dir", "one"]) == 0
    command = [sys.executable, "-m", "flcluster", "fit", *COMMON, "--run_dir", "two", "--fabric.devices", "2"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    assert Path("one/clients.csv").read_bytes() == Path("two/clients.csv").read_bytes()


@pytest.mark.usefixtures("own")
def test_its_models_are_read_back():
    """What a participant was measured with in the last round is what the run's directory gives."""
    flags = ["--algorithm", "FedAvg", "--algorithm.rounds", "3", "--data.redraw", "false"]
    assert main(["fit", *COMMON, *flags, "--run_dir", "run"]) == 0
    saved = Saved.load(Path("run"))
    module = saved.module(cluster=0).eval()
    saved.data.setup()
    with open("run/clients.csv", newline="") as file:
        last = [row for row in csv.DictReader(file) if row["cycle"] == "2"]
    assert len(last) == 6
    for row in last:
        x, y = saved.data.shard(int(row["client"]), 2).test.tensors()
        assert float((module(x).argmax(1) == y).float().mean()) == pytest.approx(float(row["acc_after"]), abs=1e-6)


@pytest.mark.usefixtures("own")
def test_the_other_package_of_lightning_has_its_own_trainer():
    """``pytorch_lightning`` is another package: its modules are no ``lightning`` ones, and give the same numbers."""
    pytest.importorskip("pytorch_lightning")
    Path("other_module.py").write_text(MODULE.replace("from lightning import", "from pytorch_lightning import"))
    assert main(["fit", *COMMON, "--run_dir", "one"]) == 0
    other = [flag.replace("own_module", "other_module") for flag in COMMON]
    assert main(["fit", *other, "--run_dir", "two"]) == 0
    assert Path("one/clients.csv").read_bytes() == Path("two/clients.csv").read_bytes()
