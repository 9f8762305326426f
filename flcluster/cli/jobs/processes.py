"""Runs in processes of their own, one after the other or some at once: what comparisons and studies are made of."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from flcluster.cli.program import program
from flcluster.comparison.turns import Turns
from flcluster.engine.arguments import option
from flcluster.engine.process import SIGNALS
from flcluster.engine.threads import SHARE
from flcluster.errors import BusyError, UserError
from flcluster.files import run_folder

Process = tuple[str, list[str]]
"""The name of a run's directory and the arguments of its ``flcluster fit``."""


STOPPED = 3
"""Counts as the exit code of a run that stopped early and can go on."""


def refuse_places(command: str, arguments: list[str]) -> None:
    """Refuse arguments that would send every run to one directory."""
    if option(arguments, "run_dir") or option(arguments, "ckpt_path"):
        raise UserError(f"{command} makes a directory per run under --output: leave out --run_dir and --ckpt_path")


def with_seed(name: str, arguments: list[str], seed: int | None) -> Process:
    """Return the job of one seed; without one, the configuration's own."""
    return run_folder(name, seed), arguments if seed is None else [*arguments, "--seed_everything", str(seed)]


def fit_arguments(run_dir: Path, arguments: list[str]) -> list[str]:
    """Return the arguments of the ``flcluster fit`` that begins or goes on with a run.

    A finished run is taken up too: other settings are refused, a longer run goes on, the same one ends at once.
    """
    return ["fit", *arguments, "--run_dir", str(run_dir), "--ckpt_path", "auto", "--engine.table", "false"]


def command_line(run_dir: Path, arguments: list[str]) -> str:
    """Return the same as a line for a shell."""
    found = shutil.which("flcluster")
    return shlex.join([*(["flcluster"] if found else program()), *fit_arguments(run_dir, arguments)])


def run_all(
    output: Path,
    jobs: Sequence[Process],
    at_once: int = 1,
    is_finished: Callable[[Path, Sequence[str]], bool] = lambda run_dir, arguments: False,
) -> dict[str, int]:
    """Run ``flcluster fit`` once per job below ``output``, all of them whatever becomes of one.

    What another command is running is left to it, and taken over if it goes away. Returns the exit codes of those that
    did not finish, by name; runs that a signal kept from beginning are among them.
    """
    arguments, turns = dict(jobs), Turns(output, dict(jobs))
    running: dict[str, subprocess.Popen[bytes]] = {}
    unfinished: dict[str, int] = {}
    with _told_to_stop(running) as told:
        while running or (turns.left and not told):
            while len(running) < at_once and not told and (name := turns.take()) is not None:
                at = f"run {list(arguments).index(name) + 1} of {len(arguments)}: {output / name}"
                done = is_finished(output / name, arguments[name])
                print(f"{at}{' is finished' if done else ''}", file=sys.stderr, flush=True)
                if not done:
                    running[name] = begin(output / name, arguments[name], at_once)
            if turns.left and not running and not told:
                turns.wait()
            for name, process in list(running.items()):
                if (code := process.poll()) is not None:
                    del running[name]
                    if code == BusyError.exit_code:
                        turns.put_back(name)
                    else:
                        unfinished |= _told_of(output, name, outcome(output / name, code), at_once)
            if running:
                _wait(running)
    return unfinished | {name: 128 + told[0] for name in turns.left}


def begin(run_dir: Path, arguments: list[str], at_once: int = 1) -> "subprocess.Popen[bytes]":
    """Start a run; one of several at once has its share of the cores and writes what it says beside its directory."""
    command = [*program(), *fit_arguments(run_dir, arguments)]
    if at_once == 1:
        return subprocess.Popen(command)
    said_in(run_dir).parent.mkdir(parents=True, exist_ok=True)
    with said_in(run_dir).open("a") as file:  # another command may be writing there, of the same run
        return subprocess.Popen(command, env={**os.environ, SHARE: str(at_once)}, stdout=file, stderr=file)


def said_in(run_dir: Path) -> Path:
    """Return the file that has what a run said while others ran."""
    return run_dir.parent / "logs" / f"{run_dir.name}.txt"


def outcome(run_dir: Path, code: int) -> int:
    """Return the exit code of a run that has ended, or 3 if it stopped early."""
    if code:
        return code
    return 0 if json.loads((run_dir / "summary.json").read_text())["status"] == "finished" else STOPPED


def _told_of(output: Path, name: str, code: int, at_once: int) -> dict[str, int]:
    """Say how a run ended that nobody could watch; return its code unless it finished."""
    if at_once > 1:
        said = said_in(output / name).read_text(errors="replace").strip().splitlines()
        print(f"{name}: {ended(code) if code else 'finished'}", file=sys.stderr, flush=True)
        if code not in (0, STOPPED):
            print("\n".join(said[-15:]), file=sys.stderr, flush=True)
    return {name: code} if code else {}


def ended(code: int) -> str:
    """Say what an exit code means.

    >>> ended(3), ended(2)
    ('stopped early', 'failed (exit code 2)')
    """
    return "stopped early" if code == STOPPED else f"failed (exit code {code})"


def tell(unfinished: dict[str, int], jobs: int) -> int:
    """Say at the end which runs did not finish; return the exit code of it all, a failure's before that of a stop."""
    if not unfinished:
        return 0
    each = "\n".join(f"  {name}: {ended(code)}" for name, code in unfinished.items())
    print(
        f"{len(unfinished)} of {jobs} runs did not finish:\n{each}\nThe same command with the same --output goes on.",
        file=sys.stderr,
        flush=True,
    )
    return next((code for code in unfinished.values() if code != STOPPED), STOPPED)


def _wait(running: "dict[str, subprocess.Popen[bytes]]") -> None:
    """Wait a little, or for the only run there is."""
    if len(running) > 1:
        time.sleep(0.2)
        return
    with suppress(subprocess.TimeoutExpired):
        next(iter(running.values())).wait(timeout=1.0)


@contextmanager
def _told_to_stop(running: "dict[str, subprocess.Popen[bytes]]") -> Iterator[list[int]]:
    """While active, hand signals on to the runs, which write their checkpoints; yields a list of those that came."""
    told: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        told.append(number)
        for process in running.values() if number != signal.SIGINT else ():  # a terminal's Ctrl-C reaches them itself
            process.send_signal(number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
