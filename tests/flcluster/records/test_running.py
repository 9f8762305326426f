"""A run that goes on is read as far as it is written."""

import pytest
from pages import cdfl_run

from flcluster.errors import UserError
from flcluster.records.reader import Run
from flcluster.records.running import load_running, running_directories


@pytest.fixture
def path(tmp_path):
    settings = {"seed_everything": 7, "data": {"class_path": "a.RotatedDigits", "init_args": {"num_clients": 9}}}
    settings["algorithm"] = {"class_path": "flcluster.algorithms.CDFL"}
    return cdfl_run(tmp_path / "run", settings=settings)


def test_a_finished_run_is_what_it_is(path):
    assert load_running(path).summary == Run.load(path).summary


def test_without_a_summary_the_configuration_and_the_last_row_tell(path):
    (path / "summary.json").unlink()
    summary = load_running(path).summary
    told = {name: summary[name] for name in ("algorithm", "dataset", "num_clients", "num_clusters", "seed", "status")}
    assert told == {"algorithm": "CDFL", "dataset": "RotatedDigits", "num_clients": 9, "num_clusters": 2, "seed": 7,
                    "status": "running"}  # fmt: skip
    assert summary["updates"] == 24 and summary["cluster_acc"] == 0.8 and "update" not in summary


def test_an_old_summary_of_a_run_that_went_on_is_not_believed(path):
    import os

    os.utime(path / "summary.json", (1e9, 1e9))
    assert load_running(path).status == "running"


def test_half_a_line_is_left_out(path):
    whole = (path / "clients.csv").read_text()
    (path / "clients.csv").write_text(whole[:-9])
    assert len(load_running(path).clients["client"]) == 23
    with pytest.raises(UserError, match="line 25"):
        Run.load(path)


def test_nothing_yet_is_no_error(path):
    (path / "metrics.csv").write_text("update,ep")
    (path / "clients.csv").write_text("")
    assert load_running(path) is None
    (path / "metrics.csv").unlink()
    assert load_running(path) is None
    assert running_directories(path.parent / "none") == []


def test_runs_are_found_below_a_folder(path):
    assert running_directories(path.parent) == [path] == running_directories(path)
