"""The same study by two commands at once, with one folder: they divide its runs, and take over those of a dead one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
TINY = ROOT / "tests" / "tiny.yaml"

COMMAND = """
import sys
from pathlib import Path
from flcluster.cli.jobs import processes
from flcluster.comparison import turns
turns.POLL = 0.1
processes.program = lambda: [sys.executable, "run.py"]
finished = lambda run_dir, arguments: (run_dir / "summary.json").exists()
print(processes.run_all(Path("out"), [(name, sys.argv[1:2]) for name in "abcd"], int(sys.argv[2]), finished))
"""

RUN = """
import json, sys, time
from pathlib import Path
from flcluster.engine.processes.lock import held
from flcluster.errors import BusyError
here = Path(sys.argv[sys.argv.index("--run_dir") + 1])
try:
    with held(here):
        with open(here / "starts", "a") as file:
            file.write("begun\\n")
        time.sleep(float(sys.argv[2]))
        (here / "summary.json").write_text(json.dumps({"status": "finished"}))
except BusyError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def begin():
    """Begin a command whose runs sleep; it and its runs can be killed together."""
    Path("command.py").write_text(COMMAND)
    Path("run.py").write_text(RUN)
    begun = []

    def begin(seconds, at_once=1):
        line = [sys.executable, "command.py", str(seconds), str(at_once)]
        begun.append(started(line, env={**os.environ, "PYTHONPATH": str(ROOT)}))
        return begun[-1]

    yield begin
    for process in begun:
        kill(process)


def started(line, **other):
    pipe = subprocess.PIPE
    return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, start_new_session=True, **other)


def kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def starts():
    return [Path(f"out/{name}/starts").read_text().count("begun") for name in "abcd"]


@pytest.mark.parametrize("at_once", [1, 2])
def test_every_run_is_made_once_and_both_wait_for_all(begin, at_once):
    both = [begin(0.7, at_once) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert [out for out, _ in said] == ["{}\n", "{}\n"], said
    assert starts() == [1, 1, 1, 1]
    assert any(re.search(r"waiting for out/\w: process \d+ on .*, since", err) for _, err in said), said


def test_what_a_killed_command_was_running_is_taken_over(begin):
    first = begin(30)
    while not Path("out/a/starts").exists():
        time.sleep(0.02)
    second = begin(0.1)
    while not (line := second.stderr.readline()).startswith("waiting"):
        assert line, "it waits for the first"
    assert line.startswith("waiting for out/a: process ")
    time.sleep(0.3)
    kill(first)
    out, err = second.communicate(timeout=60)
    assert out == "{}\n" and starts() == [2, 1, 1, 1]
    assert err == "run 1 of 4: out/a\n", "it says once for whom it waits"


def test_who_waits_can_be_told_to_stop(begin):
    begin(30)
    while not Path("out/a/starts").exists():
        time.sleep(0.02)
    second = begin(0.1)
    while "waiting" not in second.stderr.readline():
        pass
    second.send_signal(signal.SIGTERM)
    assert second.communicate(timeout=30)[0] == "{'a': 143}\n"


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_a_real_study(killed):
    variants = {"CDFL": {}, "Local": {"algorithm": "Local"}}
    Path("s.yaml").write_text(yaml.safe_dump({"base": str(TINY), "variants": variants, "table": ["client_acc_after"]}))
    line = [sys.executable, str(ROOT / "flcluster" / "__main__.py"), "study", "s.yaml", "--output", "out"]
    line += ["--seeds", "0", "1", *(["--algorithm.cycles", "40"] if killed else [])]
    both = [started(line) for _ in range(2)]
    if killed:
        while not list(Path("out").glob("*/metrics.csv")):
            time.sleep(0.02)
        kill(both[0])
    said = [process.communicate(timeout=300) for process in both]
    names = [f"{name}-seed{seed}" for name in variants for seed in (0, 1)]
    made = [len(json.loads(Path(f"out/{name}/provenance.json").read_text())) for name in names]
    assert both[1].returncode == 0, said[1]
    if not killed:
        assert both[0].returncode == 0 and made == [1, 1, 1, 1], said
        assert said[0][0] == said[1][0] and "CDFL" in said[0][0] and "Seeds" in said[0][0]
    else:
        assert sorted(made) in ([1, 1, 1, 1], [1, 1, 1, 2]), said
    assert all(json.loads(Path(f"out/{n}/summary.json").read_text())["status"] == "finished" for n in names)
    assert Path("out/study.md").read_text().count("finished") == 0 and not list(Path("out").rglob("*.tmp"))
