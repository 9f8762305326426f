"""What only shows with real processes: several ranks, signals, a killed run, torchrun."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import try_ranks

from flcluster.cli import main

TINY = str(Path(__file__).parents[3] / "tiny.yaml")
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
FIT = [sys.executable, "-m", "flcluster", "fit"]


def run(folder: str, *flags: str) -> None:
    """Run in processes of their own."""
    subprocess.run([*FIT, "--config", TINY, "--run_dir", folder, *flags], env=ENV, check=True, timeout=300)


def run_here(folder: str, *flags: str) -> None:
    """Run, or go on with a run, in this process, which has paid for its imports already: what others compare with."""
    new = [] if "--ckpt_path" in flags else ["--config", TINY]
    assert main(["fit", *new, "--run_dir", folder, *flags]) == 0


def numbers(folder: str) -> tuple[str, str]:
    return Path(folder, "metrics.csv").read_text(), Path(folder, "clients.csv").read_text()


def wait_for_updates(folder: str, count: int, process: subprocess.Popen) -> None:
    """Wait until some updates are in the checkpoint (it is written after every update in these tests)."""
    path, deadline = Path(folder, "clients.csv"), time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_text().count("\n") > count:
            return
        time.sleep(0.05)
    pytest.fail(f"{folder}: no {count} updates in time (exit code {process.poll()})")


ALIKE = [pytest.param(method, marks=pytest.mark.slow) for method in ("FedSoftAsync", "IFCA")]
"""Methods whose rows go between ranks as CDFL's and DFCA's do."""


@pytest.mark.parametrize("method", ["CDFL", "DFCA", *ALIKE])
def test_two_ranks_give_the_results_of_one(method):
    run_here("one", "--algorithm", method)
    run("two", "--algorithm", method, "--fabric.devices", "2", "--fabric.accelerator", "cpu")
    assert numbers("one") == numbers("two")


def test_two_ranks_with_file_bank_resumed_on_one():
    flags = ["--algorithm", "CA2FL", "--engine.memory_gb", "0"]
    run_here("one", "--algorithm", "CA2FL")
    run("two", *flags, "--fabric.devices", "2", "--fabric.accelerator", "cpu", "--engine.max_updates", "11")
    run_here("two", "--ckpt_path", "last", "--fabric.devices", "1", "--engine.max_updates", "null")
    assert numbers("one") == numbers("two")


def test_a_run_goes_on_in_spawned_processes():
    """What a checkpoint holds comes to them in memory that they share."""
    run_here("one")
    run_here("two", "--engine.max_updates", "11")
    ranks = ["--fabric.devices", "2", "--fabric.accelerator", "cpu", "--fabric.strategy", "ddp_spawn"]
    command = [*FIT, "--run_dir", "two", "--ckpt_path", "last", "--engine.max_updates", "null", *ranks]
    subprocess.run(command, env=ENV, check=True, timeout=300)
    assert numbers("one") == numbers("two")


LONG = ["--algorithm.cycles", "40", "--engine.checkpoint_minutes", "0"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + 15), (signal.SIGINT, 128 + 2), (signal.SIGUSR1, 0)]
)
def test_signals_write_a_checkpoint(number, code):
    process = subprocess.Popen([*FIT, "--config", TINY, "--run_dir", "a", *LONG], env=ENV, stderr=subprocess.PIPE)
    wait_for_updates("a", 20, process)
    process.send_signal(number)
    process.wait(timeout=120)
    assert process.returncode == code
    summary = json.loads(Path("a/summary.json").read_text())
    assert summary["status"].startswith("stopped: ") and 20 <= summary["updates"] < 240
    assert Path("a/clients.csv").read_text().count("\n") == summary["updates"] + 1


def test_killed_run_resumes_bit_for_bit():
    process = subprocess.Popen(
        [*FIT, "--config", TINY, "--run_dir", "killed", *LONG, "--engine.memory_gb", "0"], env=ENV
    )
    wait_for_updates("killed", 30, process)
    process.kill()
    process.wait()
    run_here("killed", "--ckpt_path", "last")
    run_here("whole", *LONG)
    assert numbers("killed") == numbers("whole")


def test_one_of_two_is_killed_then_the_other_and_the_run_goes_on_bit_for_bit():
    """By the same command; the last part in one process."""
    Path("failing.py").write_text(try_ranks.FAILING)
    for rank, updates in ((1, 20), (0, 40)):
        processes = try_ranks.start("devices", "killed")
        try_ranks.wait_for(updates, "killed", processes)
        assert try_ranks.end_one("devices", rank, "kill", "killed", processes) is None
        assert not orphans()
    run_here("killed", "--ckpt_path", "last", "--fabric.devices", "1")
    run_here("whole", *LONG)
    assert numbers("killed") == numbers("whole")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "raise"])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("way", try_ranks.WAYS)
def test_every_way_of_starting_and_of_ending_one(way, rank, how):
    try_ranks.prepare()
    assert try_ranks.outcome(way, rank, how) is None


def orphans() -> list[str]:
    """Processes still working in this test's directory."""
    here, found = os.getcwd(), []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(proc / "cwd") == here and int(proc.name) != os.getpid():
                found.append(proc.name)
        except OSError:
            continue
    return found


def test_torchrun_two_nodes_of_one_process_each():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    nodes = []
    for rank in (0, 1):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1"]
        address = [f"--node_rank={rank}", "--master_addr=127.0.0.1", f"--master_port={port}"]
        fit = ["-m", "flcluster", "fit", "--config", TINY, "--run_dir", "nodes", "--fabric.num_nodes", "2"]
        nodes.append(subprocess.Popen([*torchrun, *address, *fit, "--fabric.accelerator", "cpu"], env=ENV))
    assert [node.wait(timeout=300) for node in nodes] == [0, 0]
    run_here("one")
    assert numbers("nodes") == numbers("one")
