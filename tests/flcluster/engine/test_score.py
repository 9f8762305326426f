"""A module scored by something else than accuracy: the run says so, and what chooses by it goes the right way."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from own_scores import MODULE

from flcluster.cli import main
from flcluster.engine.callbacks import EarlyStopping
from flcluster.records.reader import Run
from flcluster.report.figures.of_run import accuracy_of
from flcluster.score import Score, higher_is_better

TINY = str(Path(__file__).parents[2] / "tiny.yaml")
COMMON = ["--config", TINY, "--model", "scored.Guesses", "--algorithm", "FedAvg", "--algorithm.rounds", "2"]


@pytest.fixture
def scored(tmp_path, monkeypatch):
    Path("scored.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("scored")
def test_the_score_has_its_own_name_everywhere(capsys):
    """RMSE, logged beside an accuracy: the configuration names it, and everything else reads it from the run."""
    flags = ["--engine.metric", "val_rmse", "--engine.progress", "true", "--engine.table", "true"]
    assert main(["fit", *COMMON, *flags, "--run_dir", "run"]) == 0
    said = capsys.readouterr()
    assert "scored by val_rmse, lower is better" in said.err and "val_rmse: before" in said.err
    heads, line = " ".join(said.out.split()), json.loads(Path("run/summary.json").read_text())
    assert "val_rmse" in heads and "Score: val_rmse (lower is better)." in heads and "Accuracy" not in heads
    assert (line["score"], line["score_mode"]) == ("val_rmse", "min")
    run = Run.load("run")
    assert run.score == Score("val_rmse", False)
    figure = accuracy_of(run)
    assert figure.axes[0].get_ylabel() == "client val_rmse (lower is better)"
    assert np.nanmin(run.metrics["client_acc_after"]) > 1  # digits guessed: no accuracy is above 1


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    ("flags", "score", "mode"),
    [([], "val_acc", "max"), (["--engine.metric", "val_rmse", "--engine.metric_mode", "max"], "val_rmse", "max")],
)
def test_name_and_direction_are_found_or_told(flags, score, mode):
    assert main(["fit", *COMMON, *flags, "--engine.max_updates", "1", "--run_dir", "run"]) == 0
    line = json.loads(Path("run/summary.json").read_text())
    assert (line["score"], line["score_mode"]) == (score, mode)


@pytest.mark.usefixtures("scored")
def test_a_run_goes_on_with_the_score_it_began_with(capsys):
    assert main(["fit", *COMMON, "--engine.max_updates", "1", "--run_dir", "run"]) == 0
    assert main(["fit", "--run_dir", "run", "--ckpt_path", "last", "--engine.metric", "val_rmse"]) == 2
    assert "engine.metric: None -> 'val_rmse'" in capsys.readouterr().err


def test_a_classifier_of_ours_is_scored_by_accuracy(capsys):
    """A name that nobody logs was once taken without a word."""
    assert main(["fit", "--config", TINY, "--run_dir", "run", "--engine.metric", "val_rmse"]) == 2
    assert "engine.metric is val_rmse, but MLP is scored by accuracy" in capsys.readouterr().err


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize("method", ["CDFL", "IFCA", "DFCA"])
def test_methods_that_compare_losses_need_one(method, capsys):
    """A loss that nobody logs was once NaN: IFCA's clients all chose the first model, CDFL's models never moved."""
    assert main(["fit", "--config", TINY, "--model", "scored.NoLoss", "--algorithm", method, "--run_dir", "run"]) == 2
    assert "NoLoss.validation_step logs none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("monitor", "score", "values", "stops"),
    [
        ("client_acc_after", Score("val_rmse", False), [3.0, 2.0, 1.0], False),
        ("client_acc_after", Score("val_rmse", False), [1.0, 2.0, 3.0], True),
        ("client_acc_after", Score(), [0.1, 0.2, 0.3], False),
        ("client_acc_after", Score(), [0.3, 0.2, 0.1], True),
        ("generator_loss", Score(), [3.0, 2.0, 1.0], False),
    ],
)
def test_early_stopping_knows_what_is_better(monitor, score, values, stops):
    stopping = EarlyStopping(monitor, patience=2)
    loop = SimpleNamespace(position=9, closing=False, stop=None, fed=SimpleNamespace(score=score))
    for value in values:
        stopping.on_session_end(loop, {monitor: value})
    assert (loop.stop is not None) == stops


def test_early_stopping_may_be_told():
    stopping = EarlyStopping("client_acc_after", patience=2, mode="min")
    loop = SimpleNamespace(position=9, closing=False, stop=None, fed=SimpleNamespace(score=Score()))
    for value in (0.1, 0.2, 0.3):
        stopping.on_session_end(loop, {"client_acc_after": value})
    assert loop.stop is not None


@pytest.mark.parametrize("name", ["val_loss", "valLoss", "RMSE", "test/mae", "mean_squared_error", "nll", "ppl", "wer"])
def test_less_is_better_of_names_that_say_so(name):
    assert not higher_is_better(name) and not higher_is_better(name, "min") and higher_is_better(name, "max")


@pytest.mark.parametrize("name", ["val_acc", "f1", "auroc", "r2", "IoU", "score", "dice"])
def test_more_is_better_of_all_others(name):
    assert higher_is_better(name) and not higher_is_better(name, "min")


class Scored:
    """Models are numbers, and so are views; how far apart they are is the score."""

    score = Score("distance", False)

    def goodness(self, row, view):
        return self.score.goodness(abs(float(row[0]) - view))


def test_feddrift_takes_the_model_with_the_smallest_error():
    from flcluster.algorithms import FedDrift

    method, models = FedDrift(delta=0.5, max_models=4), torch.tensor([[0.0], [5.0]])
    fed = Scored()
    fed.data = SimpleNamespace(num_clients=2, holding=lambda t: np.arange(2))
    fed.shard = lambda m, t: SimpleNamespace(train=(0.1, 4.8)[m])
    begun = {"best": torch.tensor([-0.1, -0.2], dtype=torch.float64), "labels": torch.tensor([0, 1])}
    begun |= {"assigned": torch.tensor([[0, 1]]), "alone": torch.zeros(2, dtype=torch.int64), "models": models}
    from flcluster.algorithms.drift.feddrift import DriftState

    object.__setattr__(method, "merged", lambda state, t, fed: state)
    counts = dict.fromkeys(method.extra_names, 0.0)
    state = method.next_step(DriftState(**begun, counts=counts), 1, fed)
    assert state.labels.tolist() == [0, 1] and len(state.models) == 2 and state.counts["drifts"] == 0
    fed.shard = lambda m, t: SimpleNamespace(train=(0.1, 9.0)[m])  # client 1 is now far from every model
    state = method.next_step(state, 2, fed)
    assert state.labels.tolist() == [0, 2] and state.counts["drifts"] == 1
