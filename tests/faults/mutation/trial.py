"""Runs of pytest in children that find all libraries imported: with a fault in a file, or watched line by line."""

import contextlib
import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mutants import ROOT

PLACES = {"flcluster": "flcluster", **{name: f"flcluster/{name}" for name in ("modules", "datamodules", "algorithms")}}
"""Where the folders of the repository are, as they are imported."""
SLOW = 20.0
"""Seconds after which a test hangs, beside ten times those it took."""
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:xdist", "-p", "no:randomly", "--tb=no"]


class Tree:
    """The repository's folders as they are imported, with links to its files; one of them may have a fault."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for folder, name in PLACES.items():
            for path in (ROOT / folder).rglob("*"):
                if path.is_file() and path.suffix != ".pyc":
                    link = place / name / path.relative_to(ROOT / folder)
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(path)

    def imported(self, path: str) -> Path:
        """Return where a file of the repository is in the tree."""
        folder, _, rest = path.partition("/")
        return self.place / PLACES[folder] / rest

    def original(self, file: str) -> str | None:
        """Return the path in the repository of a file of the tree; none if it is another file."""
        parts = Path(file).relative_to(self.place).parts
        path = "/".join(parts[1:] if parts[1] in PLACES else parts)
        return path if (ROOT / path).exists() else None

    def put(self, path: str, text: str | None) -> None:
        """Write a text in the place of a file, or put the file back."""
        at = self.imported(path)
        for old in (at, *(at.parent / "__pycache__").glob(f"{at.stem}.*")):
            old.unlink(missing_ok=True)
        if text is None:
            at.symlink_to(ROOT / path)
        else:
            at.write_text(text)


class Told:
    """Writes what happens, so that the parent knows it however a child ends."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", buffering=1)

    def __call__(self, what: str, **more: Any) -> None:
        """Write one event."""
        self.file.write(json.dumps({"what": what, **more}) + "\n")


class Ordered:
    """Runs the wanted tests in their order, until one fails or takes far too long."""

    def __init__(self, wanted: dict[str, float], told: Told) -> None:
        self.wanted, self.told = wanted, told
        self.order = {name: i for i, name in enumerate(wanted)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.told("failed", test=report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.told("began", test=nodeid)
        faulthandler.dump_traceback_later(SLOW + 10 * self.wanted[nodeid], exit=True)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.told("failed", test=report.nodeid)


class Watched:
    """Tells of every test that passes how long it took and which lines of ours it ran.

    What a fixture of several tests runs counts for all tests of the file.
    """

    def __init__(self, tree: Tree, told: Told) -> None:
        self.tree, self.told, self.prefix = tree, told, str(tree.place)
        self.own: dict[str, set[int]] = {}
        self.shared: dict[str, set[int]] = {}
        self.into, self.failed, self.done = self.own, False, []

    def _call(self, frame: Any, event: str, arg: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(self.prefix):
            return None
        lines = self.into.setdefault(file, set())

        def line(frame: Any, event: str, arg: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line(frame, event, arg)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.own, self.failed, began = {}, False, time.perf_counter()
        self.into = self.own
        threading.settrace(self._call)
        sys.settrace(self._call)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        if not self.failed:
            self.done.append((item.nodeid, time.perf_counter() - began, self.own))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self.into
        self.into = before if fixturedef.scope == "function" else self.shared
        yield
        self.into = before

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed |= report.failed or report.skipped

    def pytest_sessionfinish(self) -> None:
        for name, seconds, own in self.done:
            lines: dict[str, list[int]] = {}
            for file in {**own, **self.shared}:
                if path := self.tree.original(file):
                    lines[path] = sorted(own.get(file, set()) | self.shared.get(file, set()))
            self.told("passed", test=name, seconds=round(seconds, 3), lines=lines)


def begun(tree: Tree, files: list[str], events: Path, plugin: Callable[[Told], Any], options: list[str]) -> int:
    """Begin pytest on some files in a child with a tree's flcluster; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgrp()
        resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
        with events.with_suffix(".out").open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        faulthandler.dump_traceback_later(6 * SLOW, exit=True)
        sys.path.insert(0, str(tree.place))
        os.environ["PYTHONPATH"] = str(tree.place)
        where = [f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), f"--basetemp={events.with_suffix('.tmp')}"]
        told = Told(events)
        code = pytest.main([*OPTIONS, *where, *options, *(str(ROOT / f) for f in files)], plugins=[plugin(told)])
        told("ended", code=int(code))
    finally:
        os._exit(0)


def ended(pid: int, events: Path) -> list[dict[str, Any]]:
    """Return what a child that ended has told, and clear away what it left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(events.with_suffix(".tmp"), ignore_errors=True)
    return [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
