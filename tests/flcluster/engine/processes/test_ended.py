"""Being told to stop where a run has several processes: a checkpoint, one line, nobody left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from flcluster.engine.fit import lost, plainly
from flcluster.engine.processes.presence import Gone
from flcluster.engine.run import Experiment
from flcluster.errors import LostError, UserError
from flcluster.files import last_checkpoint
from flcluster.records.checkpoint import save_checkpoint

TINY = Path(__file__).parents[3] / "tiny.yaml"
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
SCRIPT = f"""
import sys
import flcluster as fl

if __name__ == "__main__":
    ckpt = sys.argv[2] if len(sys.argv) > 2 else None
    run = fl.fit(
        config=None if ckpt else {str(TINY)!r},
        run_dir="run",
        ckpt=ckpt,
        cycles=float(sys.argv[1]),
        fabric={{"accelerator": "cpu", "devices": 2}},
        engine={{"progress": True}},
    )
    print(run.status)
"""
COMMAND = [
    *(sys.executable, "-m", "flcluster", "fit", "--run_dir", "run", "--algorithm.cycles"),
    *("{cycles}", "--fabric.devices", "2", "--fabric.accelerator", "cpu", "--engine.progress", "true"),
]


def ranks(parent: int) -> list[int]:
    """The processes that a process has started, but no tracker of Python's own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat, told = (folder / "stat").read_text(), (folder / "cmdline").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == parent and "resource_tracker" not in told:
            found.append(int(folder.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(command: list[str]) -> subprocess.Popen:
    """Start a run and wait until it has a few uploads behind it."""
    process = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    path, deadline = Path("run", "metrics.csv"), time.monotonic() + 200
    while not (path.exists() and path.read_text().count("\n") > 2):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.1)
    return process


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("whom", ["parent", "child"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("how", ["script", "command"])
def test_every_process_ends_and_the_run_goes_on(how, number, whom):
    Path("script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", "500"]
    if how == "command":
        command = [part.format(cycles=500) for part in COMMAND] + ["--config", str(TINY)]
    process = started(command)
    others = ranks(process.pid)
    ours = number == signal.SIGINT and whom == "parent" and how == "script"
    for pid in (others[-1:] if whom == "child" else [process.pid]) + (others if ours else []):  # as a terminal does
        os.kill(pid, number)
    told = process.communicate(timeout=60)[0]
    assert not any(alive(pid) for pid in others)
    assert Path("run/checkpoints/last.ckpt").exists() and told.count("go on with: ") >= 1, told
    assert json.loads(Path("run/summary.json").read_text())["status"].startswith("stopped: ")
    if not (how == "script" and number == signal.SIGINT):  # which is raised as KeyboardInterrupt, by design
        assert "Traceback" not in told, told


def test_a_process_that_was_ended_from_outside_is_told_in_one_line():
    with pytest.raises(LostError, match=r"^1: SIGTERM$"), plainly(lambda gone: f"{gone.rank}: {gone.why}"):
        raise ProcessExitedException("…", 1, 77, exit_code=-15, signal_name="SIGTERM")


def test_the_command_that_goes_on_with_a_run_that_was_ended_from_outside(tmp_path, monkeypatch):
    exp = Experiment.__new__(Experiment)
    exp.run_dir = tmp_path / "my run"
    assert lost(Gone(1), exp) == f"rank 1 is gone; there is no checkpoint in {exp.run_dir} yet; start the run anew"
    save_checkpoint(last_checkpoint(exp.run_dir), {"position": 7, "large": torch.zeros(3)})
    at = f"the last checkpoint is at step 7 in {exp.run_dir}; go on with"
    assert lost(Gone(0), exp) == f"rank 0 is gone; {at} flcluster fit --run_dir '{exp.run_dir}' --ckpt_path last"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    same = f"the same command and --run_dir '{exp.run_dir}' --ckpt_path auto"
    assert lost(Gone(3, "ValueError: odd"), exp) == f"rank 3 failed (ValueError: odd); {at} {same}"


def test_a_users_mistake_in_another_process_is_told_as_one_and_a_bug_is_not():
    trace = "\n\n-- Process 0 terminated with the following error:\nTraceback (most recent call last):\n  File …\n"
    with pytest.raises(UserError, match=r"^data\.root: there is no folder x$"), plainly(repr):
        raise ProcessRaisedException(f"{trace}flcluster.errors.UserError: data.root: there is no folder x\n", 0, 1)
    with pytest.raises(ProcessRaisedException), plainly(repr):
        raise ProcessRaisedException(f"{trace}ValueError: a bug\n", 0, 1)
