"""Shows how a run is going: a bar on a terminal, one line that changes in a notebook, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from flcluster.errors import harmless
from flcluster.score import Score

LINE_SECONDS = 10.0
"""Time between two plain lines."""


def in_notebook() -> bool:
    """Say whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


class RunProgress:
    """A progress display that also takes notes ("pre-training …", "refused …")."""

    def __init__(
        self, title: str, total: int, done: int, enabled: bool, log: Callable[[str], None] = lambda text: None
    ) -> None:
        self.console = Console(stderr=True, soft_wrap=True)
        self.title, self.total, self.done, self.first = title, total, done, done
        self.enabled, self.log = enabled, log
        self.score = Score()
        self.bar = self._bar() if enabled and sys.stderr.isatty() else None
        self.notebook, self.width = in_notebook(), 0
        self.began = self.spoke = self.logged = time.monotonic()

    def _bar(self) -> Progress:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]} {task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        return Progress(*columns, console=self.console)

    def __enter__(self) -> "RunProgress":
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, completed=self.done, speed="", state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
        if self.width:
            print(file=sys.stderr)

    def start_from(self, done: int) -> None:
        """Count speed from here on: steps done before are another session's."""
        self.done = self.first = done
        self.began = self.spoke = time.monotonic()

    def note(self, text: str) -> None:
        """Say something once."""
        text = harmless(text)
        self.log(text)
        self._show(text)

    def _show(self, text: str) -> None:
        if not self.enabled:
            return
        if self.notebook:
            self._in_place(f"{self.title}: {text}")
        else:
            self.console.print(f"{self.title}: {text}", highlight=False, markup=False)

    def _in_place(self, line: str) -> None:
        """Write over the line before: a notebook keeps every line it is given."""
        print(f"\r{line:<{self.width}}", end="", file=sys.stderr, flush=True)
        self.width = len(line)

    def update(self, done: int, state: dict[str, float], unit: str) -> None:
        """Move on."""
        self.done = done
        now = time.monotonic()
        rate = (done - self.first) / max(now - self.began, 1e-9)
        names = {"client_acc": "clients", "client_acc_before": "before", "client_acc_after": "after"}
        names |= {"cluster_acc": "cluster"}
        shown = " ".join(f"{short} {state[name]:.3f}" for name, short in names.items() if name in state)
        shown = shown if self.score.plain or not shown else f"{self.score.name}: {shown}"
        line = f"{done}/{self.total} {rate:.2f} {unit}/s {shown} left {(self.total - done) / max(rate, 1e-9):.0f} s"
        if now - self.logged >= LINE_SECONDS or done == self.total:
            self.logged = now
            self.log(line)
        if self.bar is not None:
            self.bar.update(self.task, completed=done, speed=f"{rate:.2f} {unit}/s", state=shown)
        elif now - self.spoke >= self._pause(now) or done == self.total:
            self.spoke = now
            self._show(line)

    def _pause(self, now: float) -> float:
        """Return the time between two lines; those of a notebook come ever more slowly, as it keeps them all."""
        return max(1.0, (now - self.began) / 50) if self.notebook else LINE_SECONDS
