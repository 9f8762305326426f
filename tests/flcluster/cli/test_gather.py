"""Finished runs gathered into a CSV file, and which code made them."""

import csv
import subprocess

from runs import write_run

from flcluster import __version__
from flcluster.cli import main
from flcluster.records.provenance import code_version

SETTINGS = {"seed_everything": 0, "model": {"class_path": "M", "init_args": {"lr": 0.1}}}
METRICS = {"update": [1, 2, 3], "client_acc_after": ["", 0.8, 0.7], "kl": [0.5, 0.4, 0.3]}


def ran(path, status="finished", settings=SETTINGS, **values):
    told = {"dataset": "D", "num_clients": 4, "commit": "abc", "status": status, "client_acc_after": 0.7, "kl": None}
    told |= {"wall_seconds": 12.34, "refused": 0}
    return write_run(path, metrics=METRICS, settings=settings, **{**told, **values})


def rows_in(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_tells_what_ran_and_how_it_ended(tmp_path, capsys):
    ran(tmp_path / "runs" / "CDFL-seed3", seed=3, client_compute=18781890)
    ran(tmp_path / "runs" / "CDFL-seed4", status="stopped: SIGTERM")
    assert main(["gather", str(tmp_path / "runs"), "--output", str(tmp_path / "out" / "x.csv")]) == 0
    assert "1 rows, 1 of them from these runs; left out 1 that have not finished" in capsys.readouterr().out
    (row,) = rows_in(tmp_path / "out" / "x.csv")
    wanted = {"run": "CDFL-seed3", "method": "CDFL", "dataset": "D", "K": "2", "clients": "4", "seed": "3"}
    wanted |= {"commit": "abc", "seconds": "12.3", "client_acc_after": "0.7", "best_client_acc_after": "0.8"}
    wanted |= {"client_compute": "18781890"}
    assert wanted.items() <= row.items()
    assert "kl" not in row and "best_kl" not in row  # not measured at the end; its largest value is not its best


def test_rows_of_runs_that_are_gone_stay(tmp_path):
    out = tmp_path / "x.csv"
    for name, values in [("b", {}), ("a", {"acc_global": 0.5}), ("b", {"client_acc_after": 0.9})]:
        folder = tmp_path / str(len(list(tmp_path.iterdir()))) / name
        ran(folder, **values)
        assert main(["gather", str(folder), "--output", str(out)]) == 0
    a, b = rows_in(out)
    assert (a["run"], a["acc_global"], a["client_acc_after"]) == ("a", "0.5", "0.7")
    assert (b["run"], b["acc_global"], b["client_acc_after"]) == ("b", "", "0.9")
    ran(tmp_path / "again" / "b", commit="def")  # other code: another row
    assert main(["gather", str(tmp_path / "again"), "--output", str(out)]) == 0
    assert [(row["run"], row["commit"]) for row in rows_in(out)] == [("a", "abc"), ("b", "abc"), ("b", "def")]


def test_another_file_is_not_overwritten(tmp_path, capsys):
    ran(tmp_path / "run")
    (tmp_path / "x.csv").write_text("my,own\n1,2\n")
    assert main(["gather", str(tmp_path / "run"), "--output", str(tmp_path / "x.csv")]) == 2
    assert "x.csv does not begin with the columns run" in capsys.readouterr().err
    assert (tmp_path / "x.csv").read_text() == "my,own\n1,2\n"


def test_a_run_without_its_configuration_is_named(tmp_path, capsys):
    ran(tmp_path / "run", settings=None)
    assert main(["gather", str(tmp_path / "run"), "--output", str(tmp_path / "x.csv")]) == 2
    assert "run/config.yaml cannot be read" in capsys.readouterr().err


def git(folder, *words):
    identity = ["-c", "user.name=x", "-c", "user.email=x@y"]
    return subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)


def test_code_is_told_by_its_commit(tmp_path):
    package = tmp_path / "checkout" / "flcluster"
    package.mkdir(parents=True)
    assert code_version(package) == f"version {__version__}"
    git(package.parent, "init", "-q")
    (package / "a.py").write_text("1")
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-q", "-m", "one")
    commit = git(package.parent, "rev-parse", "HEAD").stdout[:12]
    assert code_version(package) == commit
    (package / "note").write_text("not code of the commit")
    assert code_version(package) == commit
    (package / "a.py").write_text("2")
    assert code_version(package) == f"{commit}-changed"
    installed = package.parent / "site" / "flcluster"  # below a checkout that is not ours
    installed.mkdir(parents=True)
    assert code_version(installed) == f"version {__version__}"
