"""Runs scored by something else than accuracy in tables, figures, studies and gathered rows."""

import csv

import pytest
from rich.console import Console
from runs import make_run, make_study, write_run

from flcluster.cli import main
from flcluster.errors import UserError
from flcluster.records.configuration import configuration_key
from flcluster.records.reader import Run
from flcluster.report.figures.accuracy import accuracy_figure
from flcluster.report.figures.drift import drift_figure
from flcluster.report.printed import paper_rows
from flcluster.report.report import summary_table
from flcluster.report.study.file import Picture, Target
from flcluster.report.study.lines import difference_figure, lines_figure
from flcluster.report.study.values import grid, value
from flcluster.report.summaries import repeats

RMSE = {"score": "val_rmse", "score_mode": "min"}
METRICS = {"update": [1, 2, 3], "time": [1, 2, 3], "epoch": [1, 2, 3], "clusters": [1, 1, 1]}


def ran(values, **more):
    return make_run(metrics={**METRICS, "client_acc": values}, client_acc=values[-1], **more)


def printed(runs):
    console = Console(width=200, record=True)
    console.print(summary_table(runs))
    return " ".join(console.export_text().split())


def test_a_table_calls_the_score_by_its_name():
    said = printed([ran([3.0, 2.0, 1.5], client_acc_after=1.25, **RMSE)])
    assert "Client after, val_rmse" in said and "Score: val_rmse (lower is better)." in said
    assert "Accuracy" not in said and "1.250" in said


def test_runs_of_several_scores_share_neutral_names():
    said = printed([ran([0.5, 0.6, 0.7]), ran([3.0, 2.0, 1.5], algorithm="Local", **RMSE)])
    assert "score" in said and "Accuracy" not in said
    assert "Scores: accuracy of CDFL; val_rmse (lower is better) of Local." in said


def test_an_old_run_has_accuracy():
    said = printed([ran([0.5, 0.6, 0.7])])
    assert "Accuracy" in said and "Score" not in said


def test_papers_accuracies_do_not_stand_beside_another_score():
    told = {"dataset": "FashionMNIST", "num_clusters": 2, "algorithm": "CDFL", "num_clients": 40}
    assert {"client_acc_after", "kl"} & {row.metric for row in paper_rows("FashionMNIST", 2, "CDFL", told)}
    assert not any("acc" in row.metric for row in paper_rows("FashionMNIST", 2, "CDFL", {**told, **RMSE}))
    named = {**told, "score": "val_acc", "score_mode": "max"}
    assert paper_rows("FashionMNIST", 2, "CDFL", named) == paper_rows("FashionMNIST", 2, "CDFL", told)


def test_axes_name_the_score():
    run = ran([3.0, 2.0, 1.5], **RMSE)
    run.metrics["cluster_acc"] = run.metrics["client_acc"]
    (left, right) = accuracy_figure(repeats([run]), {"CDFL": "red"}).axes
    assert left.get_ylabel() == "client val_rmse (lower is better)"
    assert right.get_ylabel() == "mean cluster val_rmse (lower is better)"
    run.metrics["heterogeneity"] = run.metrics["client_acc"]
    panels = {axes.get_title(): axes.get_ylabel() for axes in drift_figure(run).axes}
    assert panels["val_rmse over rounds"] == "mean client val_rmse (lower is better)"


def study_of(**scores):
    study = make_study("base", "mine", target=Target("base", last=1), table=("target", "tta", "gain"))
    curves = {"base": [4.0, 3.0, 2.0], "mine": [3.0, 2.0, 1.0]}
    return study, {name: {0: ran(curves[name], **scores.get(name, RMSE))} for name in curves}


def test_the_target_is_reached_from_above_where_less_is_better():
    """By hand: the base ends at 2.0, which the variant reaches at time 2, and it ends 1.0 lower."""
    study, runs = study_of()
    found = {name: value(study, runs, "mine", 0, name) for name in ("target", "tta", "speedup", "gain")}
    assert found == {"target": 2.0, "tta": 2.0, "speedup": 1.5, "gain": 1.0}
    table = grid(study, runs)
    assert "Gain in val_rmse" in table.heads and "stays at or below it" in table.caption


def test_runs_that_are_better_in_opposite_directions_are_not_compared():
    study, runs = study_of(mine={})
    with pytest.raises(UserError, match=r"target base of mine: the runs are scored by val_rmse .* accuracy"):
        value(study, runs, "mine", 0, "tta")


def test_a_studys_figures_name_the_score():
    study, runs = study_of()
    figure = lines_figure(study, Picture("lines", target=True), runs)
    assert figure.axes[0].get_ylabel() == "mean client val_rmse (lower is better)"
    assert figure.legends[0].get_texts()[-1].get_text() == "target val_rmse"
    axes = difference_figure(study, Picture("difference", of=("mine", "base")), runs).axes[0]
    assert axes.lines[-1].get_ydata().tolist() == [-1.0, -1.0, -1.0] and "points" not in axes.get_ylabel()


@pytest.mark.parametrize(("told", "best"), [({}, "0.8"), (RMSE, "0.7")])
def test_the_best_of_a_session_is_the_lowest_where_less_is_better(tmp_path, told, best):
    metrics = {"update": [1, 2], "client_acc_after": [0.8, 0.7]}
    write_run(tmp_path / "run", metrics=metrics, settings={}, status="finished", client_acc_after=0.7, **told)
    assert main(["gather", str(tmp_path / "run"), "--output", str(tmp_path / "x.csv")]) == 0
    with (tmp_path / "x.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["best_client_acc_after"] == best and row.get("score") == told.get("score")


def test_runs_with_another_metric_are_no_repeats(tmp_path):
    """Unless nothing is said of it: those are repeats of runs made before there was a choice."""
    engines = [{}, {"metric": None, "metric_mode": "auto"}, {"metric": "f1"}, {"metric": None, "metric_mode": "min"}]
    paths = [write_run(tmp_path / str(i), settings={"engine": engine}) for i, engine in enumerate(engines)]
    old, new, f1, low = (configuration_key(Run.load(path)) for path in paths)
    assert old == new and len({old, f1, low}) == 3
