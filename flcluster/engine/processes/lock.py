"""One process writes a run's directory: a lock that says who has it, and that is free again when its holder is gone."""

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flcluster.errors import BusyError, writing

NAME = "run.lock"

BEAT = 10.0
"""Seconds between two signs of life of a holder."""

LEASE = 60.0
"""Seconds without one after which a holder on another machine is taken for dead."""


def machine() -> str:
    """Return what tells this machine, since it was started, from others of the same name."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return platform.node()


def birth(pid: int) -> str | None:
    """Return when a process of this machine began, in whatever unit; None if it is gone, "" if nobody tells."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    else:
        state, *_, began = stat.rpartition(")")[2].split()[:20]
        return None if state in "ZX" else began
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""


@dataclass(frozen=True)
class Holder:
    """Who has a run's directory."""

    host: str = field(default_factory=platform.node)
    machine: str = field(default_factory=machine)
    pid: int = field(default_factory=os.getpid)
    birth: str = field(default_factory=lambda: birth(os.getpid()) or "")
    since: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S"))
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    @property
    def here(self) -> bool:
        """Whether it is, or was, a process of this machine, of which one can see whether it lives."""
        return (self.host, self.machine) == (platform.node(), machine())


def holder(folder: Path) -> Holder | None:
    """Return who writes this directory now; nobody if the lock is not there or its holder is gone."""
    path = folder / NAME
    found = _read(path)
    return found if found is not None and _lives(found, path) else None


@contextmanager
def held(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Have a directory for oneself while the block runs, or refuse, after some seconds, and say who has it.

    On one machine a killed holder's lock is free at once. On another machine that shares the file system it is free
    when its holder has given no sign of life for a minute: it renews the lock's time stamp every ten seconds.
    """
    path, mine = folder / NAME, Holder()
    deadline = time.monotonic() + wait
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                _take(path, mine)
                break
            except BusyError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(1.0)
    over = threading.Event()
    beat = threading.Thread(target=_beat, args=(path, mine, over), daemon=True)
    beat.start()
    try:
        yield
    finally:
        over.set()
        beat.join()
        if _read(path) == mine:
            path.unlink(missing_ok=True)


def let_go(folder: Path) -> None:
    """Give up this process's lock, if it has it, at once: where it is about to end without leaving the block."""
    path = folder / NAME
    found = _read(path)
    if found is not None and found.here and (found.pid, found.birth) == (os.getpid(), birth(os.getpid())):
        path.unlink(missing_ok=True)


def _take(path: Path, mine: Holder) -> None:
    """Make the lock; one whose holder is gone is moved aside first, by one process only."""
    while not _made(path, mine):
        found = _read(path)
        if found is not None and _lives(found, path):
            raise BusyError(
                f"{path.parent} is in use by {found}: wait for it, end it, or name another directory (--run_dir DIR)"
            )
        if found is not None:
            _move_aside(path, found)


def _made(path: Path, mine: Holder) -> bool:
    """Make the lock file with its content in one step; say whether it was not there before."""
    draft = path.with_name(f"{NAME}.{mine.token}.tmp")
    draft.write_text(json.dumps(asdict(mine)), encoding="utf-8")
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(draft.read_text(encoding="utf-8"))
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def _move_aside(path: Path, gone: Holder) -> None:
    """Take a dead holder's lock away: one process at a time, so that none takes away a successor's.

    Where that holder woke up and another has its own lock there by now, that is put back.
    """
    moving = path.with_name(f"{NAME}.moving")
    try:
        moving.mkdir()
    except FileExistsError:
        with suppress(OSError):
            if time.time() - moving.stat().st_mtime > LEASE:  # who was moving it was killed
                moving.rmdir()
        time.sleep(0.01)
        return
    try:
        if _read(path) == gone:
            _away(path, gone)
    finally:
        with suppress(OSError):  # taken for a killed process's, if this one slept
            moving.rmdir()


def _away(path: Path, gone: Holder) -> None:
    aside = path.with_name(f"{NAME}.{uuid.uuid4().hex}.tmp")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    if _read(aside) != gone:
        with suppress(OSError):
            os.link(aside, path)
    aside.unlink(missing_ok=True)


def _read(path: Path) -> Holder | None:
    """Return whose lock it is; of one that cannot be read (it is being written) nobody knows; None without a lock."""
    try:
        return Holder(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        return Holder("an unknown machine", "", 0, "", "an unknown time", "")


def _lives(found: Holder, path: Path) -> bool:
    """Say whether a holder is still there; of one on another machine that it is not only where that is certain."""
    if found.here:
        return birth(found.pid) == found.birth
    probe = path.with_name(f"{NAME}.{uuid.uuid4().hex}.tmp")
    try:
        probe.touch()  # so that both times are of the file system's clock, not of two machines'
        now = probe.stat().st_mtime
    except FileNotFoundError:  # who has just begun here clears such files away
        return True
    else:
        with suppress(FileNotFoundError):
            return now - path.stat().st_mtime < LEASE
        return False
    finally:
        probe.unlink(missing_ok=True)


def _beat(path: Path, mine: Holder, over: threading.Event) -> None:
    """Renew the lock's time stamp as long as it is ours."""
    while not over.wait(BEAT):
        if _read(path) == mine:
            with suppress(OSError):
                os.utime(path)
