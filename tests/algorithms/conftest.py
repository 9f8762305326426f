"""Federations whose data are written down in the test, and what watches, breaks and resumes their runs."""

import json
import math
from pathlib import Path

import pytest
import torch
from federations import Given, Script, small_federations, spoil

from flcluster.cli import main
from flcluster.federation.jobs import Trained, Training


@pytest.fixture
def script():
    return Script


@pytest.fixture
def federate(tmp_path):
    return small_federations(tmp_path)


@pytest.fixture
def result():
    """Make what comes back from a client."""

    def make(client, row, size=1, **reported):
        row = torch.tensor(row, dtype=torch.float32)
        return Trained(client, row, size, 1, 0.5, finite=bool(torch.isfinite(row).all()), **reported)

    return make


@pytest.fixture
def spied(monkeypatch):
    """Record the jobs that a federation trains and the rows that come out."""

    def watch(fed):
        log, train = [], fed.train

        def recorded(jobs, observe):
            for job, trained in zip(jobs, train(jobs, observe), strict=True):
                log.append((job, trained.row.clone()))
                yield trained

        monkeypatch.setattr(fed, "train", lambda jobs, observe=None: Training(recorded(list(jobs), observe)))
        return log

    return watch


@pytest.fixture
def given_devices():
    """Make devices of given milliseconds per sample and kilobits per second."""
    return Given


@pytest.fixture
def broken():
    """Let the training of some clients end in NaN."""
    return lambda fed, *clients: spoil(fed, lambda job: job.client in clients, math.nan)


@pytest.fixture
def tiny_run():
    """Run the command on a few digits with SGD, or go on with a run (``new=False``), and return the summary."""

    def run(folder, *flags, new=True):
        tiny = str(Path(__file__).parents[1] / "tiny.yaml")
        first = ["--config", tiny, "--model.optimizer", "sgd", "--model.lr", "0.1", "--data.redraw", "false"]
        assert main(["fit", *(first if new else []), "--run_dir", folder, *flags]) == 0
        return json.loads(Path(folder, "summary.json").read_text())

    return run


@pytest.fixture
def resumed():
    """Run the command on label-skewed digits, whole and cut after some steps; compare, and return the whole's summary.

    ``then`` is called when the first part has stopped.
    """

    def run(settings, stops, then=None):
        common = {"seed_everything": 3, "data": "SkewedDigits", "model": "MLP", "model.hidden": [16], "model.lr": 0.1}
        common |= {f"engine.{name}": "false" for name in ("progress", "pictures", "table")} | {"engine.threads": 1}
        flags = [f"--{key}={value}" for key, value in {**common, **settings}.items()]
        assert main(["fit", *flags, "--run_dir", "whole"]) == 0
        in_files = ["--engine.memory_gb", "0"]
        assert main(["fit", *flags, "--run_dir", "cut", *in_files, "--engine.max_updates", str(stops[0])]) == 0
        if then:
            then()
        for until in (*stops[1:], "null"):
            assert json.loads(Path("cut/summary.json").read_text())["status"] != "finished"
            assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", str(until)]) == 0
        for name in ("metrics.csv", "clients.csv"):
            assert Path("cut", name).read_bytes() == Path("whole", name).read_bytes()
        return json.loads(Path("whole/summary.json").read_text())

    return run
