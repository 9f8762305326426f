"""A lost process of several: the others end within seconds, in a line that says which, what is saved, how to go on."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from lightning.fabric import Fabric

from flcluster.engine.processes.lock import let_go
from flcluster.engine.processes.presence import Gone, Presence
from flcluster.errors import LostError
from flcluster.files import has_checkpoint
from flcluster.records.checkpoint import saved_position
from flcluster.records.log import RunLog

GRACE = 5.0
"""Seconds that a process has to end by itself once another is known to be gone; then it is ended."""

PATIENCE = 3.0
"""Seconds to wait for word of who is gone, after a collective has failed."""

FOR_EVER = timedelta(days=365)


class Watch:
    """Learns of the first process that is lost, from whoever notices it, and sees to it that this one ends.

    Args:
        told: What to say of it.
        run_dir: Where the run lives, as far as it is known.
        silent: Whether another process tells of it.
    """

    def __init__(self, told: Callable[[Gone], str], run_dir: Callable[[], Path], silent: bool = False) -> None:
        self.told, self.run_dir, self.silent = told, run_dir, silent
        self.place = (0, 0, 1)
        """This process's rank, of all and on its machine, and how many there are on each."""
        self.gone: Gone | None = None
        self.known, self.over = threading.Event(), threading.Event()
        self.guard = threading.Lock()

    def lost(self, gone: Gone) -> None:
        """Learn of one; unless this process has ended after a while, end it: it may compute for hours, or hang."""
        with self.guard:
            if self.gone is not None or self.over.is_set():
                return
            self.gone = gone
            self.known.set()
        if self.over.wait(GRACE):
            return
        error = self.error(gone)
        if error.heard:
            print(f"flcluster: {error}", file=sys.stderr, flush=True)
        self.keep(str(error))
        let_go(self.run_dir())
        os._exit(error.exit_code)

    def verdict(self, seconds: float) -> Gone | None:
        """Say who is gone, if that is known within some seconds."""
        self.known.wait(seconds)
        return self.gone

    def error(self, gone: Gone) -> LostError:
        """Return what tells of it; on each machine one process says it, and none where the lost one has itself."""
        rank, local, here = self.place
        first = local == 0 or (local == 1 and gone.rank == rank - 1)
        told_itself = gone.why is not None and 0 <= gone.rank - (rank - local) < here
        return LostError(self.told(gone), heard=first and not told_itself and not self.silent)

    def keep(self, text: str) -> None:
        """Write to the run's own log; what another process wrote there stays."""
        with suppress(OSError):
            RunLog(self.run_dir() / "run.log").write(f"rank {self.place[0]}: {text}")


@contextmanager
def company(fabric: Fabric, watch: Watch) -> Iterator[None]:
    """While the block runs, notice when another process is gone, and let the others know if this one fails."""
    if fabric.world_size == 1:
        yield
        return
    nodes = getattr(fabric.strategy, "num_nodes", 1)
    watch.place = fabric.global_rank, fabric.local_rank, fabric.world_size // nodes
    presence = Presence(fabric, watch.lost)
    if presence.stands:
        _wait_for_ever()
    try:
        yield
    except BaseException as error:
        broken = from_collective(error)
        gone = watch.verdict(PATIENCE) if broken else None
        presence.leave(None if gone else said(error))
        if not broken:
            watch.over.set()
            raise
        watch.keep(traceback.format_exc())
        watch.over.set()
        raise watch.error(gone or Gone(-1, said(error))) from None
    presence.leave()
    watch.over.set()


def said(error: BaseException) -> str:
    """Return the first line of what an error says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:300] if lines else type(error).__name__


def from_collective(error: BaseException) -> bool:
    """Say whether it was raised as processes talked to each other: then another one's end may be the cause."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return bool(files) and f"torch{os.sep}distributed{os.sep}" in files[-1] and isinstance(error, RuntimeError)


def _wait_for_ever() -> None:
    """Let collectives wait for a rank that computes for hours: that one is gone is noticed otherwise."""
    with suppress(AttributeError, RuntimeError, ValueError):
        change = getattr(dist, "set_timeout", None) or dist.distributed_c10d._set_pg_timeout
        change(FOR_EVER, dist.group.WORLD)


def told(gone: Gone, run_dir: Path, go_on: str) -> str:
    """Say which process is gone, what was saved, and how to go on."""
    if gone.rank < 0:
        who = f"the connection to another process broke ({gone.why})"
    else:
        who = f"rank {gone.rank} is gone" if gone.why is None else f"rank {gone.rank} failed ({gone.why})"
    if not has_checkpoint(run_dir):
        return f"{who}; there is no checkpoint in {run_dir} yet; start the run anew"
    at = saved_position(run_dir)
    where = f"at step {at} " if at is not None else ""
    return f"{who}; the last checkpoint is {where}in {run_dir}; go on with {go_on}"


def watch_children(fabric: Fabric, watch: Watch) -> None:
    """Notice when a process that Fabric has started ends before it has joined the others.

    Fabric's own observer would kill this process without a word; it is sent home.
    """

    def look() -> None:
        while not watch.over.is_set():
            children: Sequence[subprocess.Popen[Any]] = getattr(fabric.strategy.launcher, "procs", ())
            if children:
                _send_home()
            for at, child in enumerate(children, start=1):
                if code := child.poll():
                    time.sleep(0.3)  # it may have said why
                    watch.lost(Gone(at + int(os.environ.get("NODE_RANK", 0)) * (len(children) + 1), _ended(code)))
                    return
            time.sleep(0.2)

    if hasattr(fabric.strategy.launcher, "procs"):
        threading.Thread(target=look, daemon=True).start()


def _send_home() -> None:
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            thread._child_processes = []  # type: ignore[attr-defined]


def _ended(code: int) -> str | None:
    """Say how a process ended; nothing where it was killed, as nobody can say more.

    >>> _ended(-9), _ended(1)
    ('SIGKILL', 'exit code 1')
    """
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name
