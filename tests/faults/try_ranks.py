"""End one process of several, in every way of starting them: ``python tests/faults/try_ranks.py [WAY|WAY/RANK/HOW …]``.

The others must end within seconds, with one line in all that says which is gone, what was saved and how to go on, and
the run that goes on must have the numbers of one that nobody ended. What was wrong is printed, and the exit code is 1.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import verdict

os.environ["OMP_NUM_THREADS"] = "1"
TINY = str(Path(__file__).parents[1] / "tiny.yaml")
LONG = ["--algorithm.cycles", "40", "--engine.checkpoint_minutes", "0", "--engine.memory_gb", "0"]
FIT = ["-m", "flcluster", "fit", "--config", TINY, *LONG]
WAYS = {
    "devices": ["--fabric.devices", "2"],
    "ddp_spawn": ["--fabric.devices", "2", "--fabric.strategy", "ddp_spawn"],
    "ddp_fork": ["--fabric.devices", "2", "--fabric.strategy", "ddp_fork"],
    "torchrun": ["--fabric.num_nodes", "2"],
}
FAILING = """
import os
from flcluster.engine.callbacks import Callback

class Failing(Callback):
    def on_session_end(self, loop, metrics):
        if os.path.exists(f"fail{loop.fed.ranks.rank}"):
            os.remove(f"fail{loop.fed.ranks.rank}")
            raise RuntimeError("odd")
"""
WITHIN = 20.0
"""Seconds for all to end in: the machine may be busy, and Python takes its time."""


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment():
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
    }


def start(way, folder, *flags):
    """Start a run with two processes; under torchrun two nodes of one each, which begin again once by themselves."""
    flags = [*FIT, "--run_dir", folder, "--ckpt_path", "auto", "--fabric.accelerator", "cpu", *WAYS[way], *flags]
    commands, at = [[sys.executable, *flags]], port()
    if way == "torchrun":
        place = ["--nnodes=2", "--nproc_per_node=1", "--max-restarts=1", "--master_addr=127.0.0.1"]
        run = [sys.executable, "-m", "torch.distributed.run", *place, f"--master_port={at}"]
        commands = [[*run, f"--node_rank={rank}", *flags] for rank in (0, 1)]
    env = environment()
    with open(f"{folder}.txt", "a") as said:
        return [subprocess.Popen(command, env=env, stdout=said, stderr=said) for command in commands]


def children(pid):
    """Return the processes that one has started, but no helper of Python's own."""
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in found if "resource_tracker" not in Path(f"/proc/{child}/cmdline").read_text()]


def rank_of(way, rank, processes):
    """Return the process of a rank."""
    if way == "torchrun":
        return children(processes[rank].pid)[-1]
    each = children(processes[0].pid)
    return [processes[0].pid, *each][rank] if way == "devices" else each[rank]


def updates(folder):
    path = Path(folder, "clients.csv")
    return path.read_text().count("\n") - 1 if path.exists() else 0


def wait_for(updates_wanted, folder, processes):
    while updates(folder) < updates_wanted:
        if any(process.poll() is not None for process in processes):
            raise AssertionError(f"ended too soon: {Path(f'{folder}.txt').read_text()[-2000:]}")
        time.sleep(0.05)


def ended(processes, within):
    """Wait until all have ended; return whether they did in time, and end them if not."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline and any(process.poll() is None for process in processes):
        time.sleep(0.05)
    late = [process for process in processes if process.poll() is None]
    for process in late:
        process.kill()
    return not late


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def numbers(folder):
    return Path(folder, "metrics.csv").read_text(), Path(folder, "clients.csv").read_text()


def end_one(way, rank, how, folder, processes):
    """End one rank by ``kill -9`` or an error of its own; return what is wrong with how the others took it."""
    victim = rank_of(way, rank, processes)
    every = [victim, *(rank_of(way, other, processes) for other in (0, 1) if other != rank)]
    if how == "kill":
        os.kill(victim, signal.SIGKILL)
    else:
        Path(f"fail{rank}").touch()
    began = time.monotonic()
    while any(alive(pid) for pid in every) and time.monotonic() - began < WITHIN:
        time.sleep(0.05)
    if any(alive(pid) for pid in every):
        return f"not ended within {WITHIN} s"
    if way != "torchrun" and not (ended(processes, WITHIN) and all(process.returncode for process in processes)):
        return f"exit codes {[process.returncode for process in processes]}"
    return ill_told(way, rank, how, Path(f"{folder}.txt").read_text())


def ill_told(way, rank, how, said):
    """Say what is wrong with what the terminal had, if anything is."""
    lines = [line for line in said.splitlines() if f"rank {rank} is gone" in line or f"rank {rank} failed" in line]
    itself = how == "raise" and way != "torchrun"  # on the same terminal stands what it said itself
    if len(lines) != (0 if itself else 1):
        return f"{len(lines)} lines: {lines}"
    if lines and not ("the last checkpoint is at step" in lines[0] and "go on with" in lines[0]):
        return lines[0]
    if how == "raise" and "Failing.on_session_end (failing.py, line 9): RuntimeError: odd" not in said:
        return "not whose mistake it is"
    if said.count("Traceback") != said.count("ChildFailedError") or "gloo/" in said:
        return "a traceback"
    return None


def outcome(way, rank, how):
    """Return what is wrong after one process of a run was ended, or None."""
    folder = f"{way}_{rank}_{how}"
    callbacks = ["--callbacks", "[{class_path: failing.Failing}]"]
    processes = start(way, folder, *callbacks)
    try:
        wait_for(20, folder, processes)
        if wrong := end_one(way, rank, how, folder, processes):
            return wrong
        if way != "torchrun":
            processes = start(way, folder, *callbacks)
        if not ended(processes, 300) or any(process.returncode for process in processes):
            return f"did not go on: {[process.returncode for process in processes]}"
        return None if numbers(folder) == numbers("whole") else "other numbers"
    finally:
        ended(processes, 0)


def prepare():
    """Make a run that nobody ends, to compare with, and the hook that lets a rank fail."""
    Path("failing.py").write_text(FAILING)
    alone = [sys.executable, *FIT, "--run_dir", "whole", "--callbacks", "[{class_path: failing.Failing}]"]
    subprocess.run(alone, check=True, env=environment())


def main():
    """Try, count, and show what is wrong."""
    ways = sys.argv[1:] or list(WAYS)
    cases = [(way, rank, how) for way in WAYS for rank in (0, 1) for how in ("kill", "raise")]
    cases = [case for case in cases if {case[0], "/".join(map(str, case))} & set(ways)]
    home = tempfile.mkdtemp()
    os.chdir(home)
    prepare()
    well, counts = "told it in one line and went on to the same bits", Counter()
    for way, rank, how in cases:
        why = outcome(way, rank, how)
        counts["did not" if why else well] += 1
        if why:
            said = Path(f"{way}_{rank}_{how}.txt").read_text()
            print(f"{way}, rank {rank}, {how}: {why}\n{said[-3000:]}", flush=True)
        print(f"{way}, rank {rank}, {how}: {'wrong' if why else 'as it should'}", file=sys.stderr, flush=True)
    shutil.rmtree(home)
    verdict.tell("runs of two processes, one ended", counts, (well,))


if __name__ == "__main__":
    main()
