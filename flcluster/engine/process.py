"""Being told to stop: signals become a reason the run looks at between steps; orphaned ranks end themselves."""

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = {signal.SIGINT: "interrupted (Ctrl-C)", signal.SIGTERM: "SIGTERM"}


if hasattr(signal, "SIGUSR1"):  # not on Windows
    SIGNALS[signal.SIGUSR1] = "SIGUSR1 (the end of the job is near)"


PARENT = "FLCLUSTER_PARENT"


RANKS = ("RANK", "SLURM_PROCID", "LOCAL_RANK")
"""Variables by which those that start several processes tell each which one it is."""


def is_main_process() -> bool:
    """Say whether this process is (or will be) rank 0, before Fabric is launched."""
    return all(os.environ.get(name) in (None, "0") for name in RANKS)


def exit_code(status: str) -> int:
    """Return the exit code of a run: 128 + number if a signal ended it (but not a scheduler's warning), else 0."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if status == f"stopped: {SIGNALS[number]}":
            return 128 + number
    return 0


class Interrupt:
    """While active, the first signal sets ``reason``; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._old: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._old = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.reason is not None:
            raise KeyboardInterrupt
        self.reason = SIGNALS[signal.Signals(number)]


@contextmanager
def hand_on() -> Iterator[None]:
    """While others run in processes of their own, leave stopping to them.

    A terminal's Ctrl-C reaches them by itself; other signals are handed on.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        for child in multiprocessing.active_children():
            if number != signal.SIGINT and child.pid is not None:
                os.kill(child.pid, number)

    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in SIGNALS} if main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell_children_their_parent() -> None:
    """Leave this process's number to the ranks that Fabric starts from it."""
    os.environ.setdefault(PARENT, str(os.getpid()))


def end_with_parent(end: Callable[[], object]) -> None:
    """Let a rank that Fabric started ``end`` when its parent is gone (a killed parent cannot tell its children)."""
    parent = int(os.environ[PARENT])
    if os.getppid() != parent:
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        end()
        time.sleep(5.0)  # nobody waits for what it may still want to do
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Tell glibc not to hand activations back to the kernel after every step (page faults cost a CNN a third)."""
    _mallopt({_M_MMAP_THRESHOLD: 2**30, _M_TRIM_THRESHOLD: 2**31 - 1})


def give_freed_memory_back() -> None:
    """Undo it: glibc's own limits, as they are once large blocks have been freed, and what is free now goes back."""
    trim = _mallopt({_M_MMAP_THRESHOLD: 2**25, _M_TRIM_THRESHOLD: 2**26})
    if trim is not None:
        trim(0)


def _mallopt(limits: dict[int, int]) -> Callable[[int], int] | None:
    """Set limits of glibc's malloc; return its ``malloc_trim``, or None where there is another C library."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    mallopt, trim = (getattr(library, name, None) for name in ("mallopt", "malloc_trim"))
    if mallopt is None or trim is None:
        return None
    for name, value in limits.items():
        mallopt(name, value)
    giving_back: Callable[[int], int] = trim
    return giving_back


@contextmanager
def spared() -> Iterator[None]:
    """Spare what is there already from garbage collection inside the block: modules, data, first models.

    Half a million objects that outlive the block would be gone through again and again. It is undone at the end, and
    not begun where the process has frozen objects of its own, which could not be told from ours then.
    """
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.collect(1)  # what was made and dropped just now; older rubbish is collected after the block
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()


def peak_gb() -> float | None:
    """Return the most memory this process ever held, in GiB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
