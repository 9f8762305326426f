"""Processes for runs: how many at once, what a signal does, what is told at the end."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from flcluster.cli.jobs import processes
from flcluster.cli.jobs.processes import run_all, tell

SLEEPER = """
import json, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[sys.argv.index("--run_dir") + 1])
here.mkdir(parents=True)
def stop(*_):
    (here / "summary.json").write_text(json.dumps({"status": "stopped: SIGTERM"}))
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
(here / "began").write_text(str(time.time()))
time.sleep(float(sys.argv[2]))
(here / "ended").write_text(str(time.time()))
(here / "summary.json").write_text(json.dumps({"status": "finished"}))
if "fail" in sys.argv:
    sys.exit("no such thing")
"""


@pytest.fixture
def sleepers(monkeypatch):
    """Runs are processes that sleep for as long as their first argument says."""
    Path("sleeper.py").write_text(SLEEPER)
    real = processes.subprocess.Popen

    def sleeper(command, **other):
        return real([sys.executable, "sleeper.py", *command[command.index("fit") :]], **other)

    monkeypatch.setattr(processes.subprocess, "Popen", sleeper)


def times(name):
    return [float(Path(f"out/{name}/{when}").read_text()) for when in ("began", "ended")]


def test_so_many_at_once_and_a_failure_is_told_with_its_last_words(sleepers, capsys):
    jobs = [("a", ["0.5"]), ("b", ["0.5", "fail"]), ("c", ["0.1"])]
    unfinished = run_all(Path("out"), jobs, 2)
    assert unfinished == {"b": 1}
    assert max(times("a")[0], times("b")[0]) < min(times("a")[1], times("b")[1]), "a and b ran side by side"
    assert times("c")[0] > min(times("a")[1], times("b")[1]), "c waited for one of them"
    said = capsys.readouterr().err
    assert "b: failed (exit code 1)" in said and "no such thing" in said
    assert tell(unfinished, 3) == 1 and tell({}, 3) == 0
    assert tell({"a": processes.STOPPED, "b": 7}, 3) == 7


def test_a_signal_is_handed_on_and_nothing_else_begins(sleepers):
    def later():
        while not Path("out/a/began").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=later, daemon=True).start()
    assert run_all(Path("out"), [("a", ["20"]), ("b", ["0.1"])], 1) == {"a": 143, "b": 143}
    assert not Path("out/b").exists()
