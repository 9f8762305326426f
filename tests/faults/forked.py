"""A case in a process of its own, forked from one that has loaded PyTorch already: milliseconds, and nothing leaks."""

import faulthandler
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile

LATE = 97
"""Exit code of a case that took too long: it has told where it was."""
CRASHED = 98
"""Exit code of a case that ended in an exception."""


@dataclass(frozen=True)
class Ended:
    """How a case ended: its exit code, or minus the signal that killed it; and all that it said."""

    code: int
    said: str


def warm() -> None:
    """Load what every run needs, so that forked processes have it; no thread may be started here."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("WANDB_MODE", "disabled")
    import torch
    from jsonargparse import _optionals
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    load_digits()
    for name in ("cli.compare", "cli.fit", "cli.study", "comparison.budget", "engine.fit", "report.study.show"):
        import_module(f"flcluster.{name}")
    from flcluster.engine.config import fit_parser
    from flcluster.engine.messages.classes import actions, bases, known, parameters

    _optionals.parse_docstring = cache(_optionals.parse_docstring)  # what takes most of a short run's time
    seen: set[type] = set()
    waiting = [kind for hint in actions(fit_parser()).values() if hint for kind in known(bases(hint)).values()]
    while waiting:
        kind = waiting.pop()
        if kind not in seen and kind.__module__.startswith("flcluster."):
            seen.add(kind)
            hints = [hint for hint in parameters(kind).values() if hint]
            waiting += [part for hint in hints for part in known(bases(hint)).values()]


def begin(case: Callable[[], int | None], said: int, seconds: float, gigabytes: float | None, folder: Path) -> int:
    """Fork a case that writes what it says to a file descriptor; return its process."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = CRASHED
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = (open(at, "w", closefd=False) for at in (1, 2))  # noqa: SIM115
        _limit(seconds, gigabytes)
        code = _code_of(case)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def forked(case: Callable[[], int | None], folder: Path, seconds: float = 60, gigabytes: float | None = 4) -> Ended:
    """Run a case to its end: at most so long, with so much more memory than this process has."""
    with TemporaryFile() as said:
        code = ended(begin(case, said.fileno(), seconds, gigabytes, folder), seconds + 5)
        said.seek(0)
        return Ended(code, said.read().decode(errors="replace"))


def ended(pid: int, seconds: float) -> int:
    """Wait for a process and return its exit code, or minus its signal; kill it if it is too late even for itself."""
    until = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return LATE
        time.sleep(0.002)


def _limit(seconds: float, gigabytes: float | None) -> None:
    """End this process when its time is over, with a traceback of where it was; refuse it more memory."""
    if gigabytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def late(*_: object) -> None:
        faulthandler.dump_traceback(all_threads=False)
        os._exit(LATE)

    faulthandler.register(signal.SIGUSR2)
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _code_of(case: Callable[[], int | None]) -> int:
    try:
        return case() or 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        return CRASHED
