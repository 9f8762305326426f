"""Runs in processes of their own, one after the other: what comparisons and studies are made of."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from flcluster.cli.program import program
from flcluster.engine.arguments import option
from flcluster.errors import UserError
from flcluster.files import has_checkpoint

Process = tuple[str, list[str]]
"""The name of a run's directory and the arguments of its ``flcluster fit``."""


def refuse_places(command: str, arguments: list[str]) -> None:
    """Refuse arguments that would send every run to one directory."""
    if option(arguments, "run_dir") or option(arguments, "ckpt_path"):
        raise UserError(f"{command} makes a directory per run under --output: leave out --run_dir and --ckpt_path")


def with_seed(name: str, arguments: list[str], seed: int | None) -> Process:
    """Return the job of one seed; without one, the configuration's own."""
    if seed is None:
        return name, arguments
    return f"{name}-seed{seed}", [*arguments, "--seed_everything", str(seed)]


def run_all(output: Path, jobs: Sequence[Process]) -> int:
    """Run ``flcluster fit`` once per job below ``output``; return 0, or the exit code of the first that failed."""
    for at, (name, arguments) in enumerate(jobs, start=1):
        print(f"run {at} of {len(jobs)}: {output / name}", file=sys.stderr, flush=True)
        if code := run_one(output / name, arguments):
            return code
    return 0


def run_one(run_dir: Path, arguments: list[str]) -> int:
    """Run or go on with one method in a process of its own; returns its exit code, or 3 if it stopped early.

    A finished run is taken up too: other settings are refused, a longer run goes on, the same one ends at once.
    """
    resume = ["--ckpt_path", "last"] if has_checkpoint(run_dir) else []
    command = [*program(), "fit", *arguments, "--run_dir", str(run_dir), *resume]
    code = wait_for(subprocess.Popen([*command, "--engine.table", "false"]))
    if code:
        return code
    return 0 if json.loads((run_dir / "summary.json").read_text())["status"] == "finished" else 3


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """Wait through Ctrl-C (the run gets it too, and writes its checkpoint) and hand SIGTERM on."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
    finally:
        signal.signal(signal.SIGTERM, before)
