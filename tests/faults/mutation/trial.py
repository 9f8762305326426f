"""Runs of some tests in a child that finds everything imported and all tests collected."""

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
from mutants import ROOT, Mutant
from tree import Tree, exchanged, forget

SLOW = 120.0
"""Seconds after which a test hangs, beside forty times the processor's seconds that it took."""
OPTIONS = [
    *(
        "-q",
        "-s",
        "--tb=no",
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "-p",
        "no:xdist",
    ),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning", f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")),
]


class Told:
    """Writes what happens, so that the parent knows it however a child ends."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", buffering=1)

    def __call__(self, what: str, **more: Any) -> None:
        """Write one event."""
        self.file.write(json.dumps({"what": what, **more}) + "\n")


class Ordered:
    """Tells which test begins and which fails; one that takes far too long ends everything."""

    def __init__(self, wanted: dict[str, float], told: Told) -> None:
        self.wanted, self.told = wanted, told

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        order = {name: i for i, name in enumerate(self.wanted)}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.told("failed", test=report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.told("began", test=nodeid)
        faulthandler.dump_traceback_later(SLOW + 40 * self.wanted[nodeid], exit=True)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.told("failed", test=report.nodeid)
            os._exit(1)


class Watched:
    """Tells of every test that passes how long it took and which lines of ours it ran.

    What a fixture of several tests runs counts for all tests of the file.
    """

    def __init__(self, tree: Tree, told: Told) -> None:
        self.tree, self.told, self.prefix = tree, told, str(tree.place)
        self.own: dict[str, set[int]] = {}
        self.shared: dict[str, set[int]] = {}
        self.into, self.failed = self.own, False
        self.done: list[tuple[str, float, dict[str, set[int]]]] = []

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
        self.own, self.failed, began = {}, False, time.process_time()
        self.into = self.own
        threading.settrace(self._call)
        sys.settrace(self._call)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        if not self.failed:
            self.done.append((item.nodeid, time.process_time() - began, self.own))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self.into
        self.into = before if fixturedef.scope == "function" else self.shared
        yield
        self.into = before

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed |= report.failed or report.skipped

    def tell(self) -> None:
        """Tell it all."""
        for name, seconds, own in self.done:
            lines: dict[str, list[int]] = {}
            for file in {**own, **self.shared}:
                if path := self.tree.original(file):
                    lines[path] = sorted(own.get(file, set()) | self.shared.get(file, set()))
            self.told("passed", test=name, seconds=round(seconds, 3), lines=lines)
        self.told("ended")


class Collected:
    """Has all tests collected once, and then, instead of running them, children run some of them."""

    def __init__(self, plain: Tree, work: Callable[["Collected"], None]) -> None:
        self.plain, self.work = plain, work
        self.items: dict[str, Any] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def watch(self, file: str, events: Path) -> int:
        """Begin to watch a file's tests; return the process id."""

        def run() -> None:
            watched = Watched(self.plain, Told(events))
            self._run([item for name, item in self.items.items() if name.partition("::")[0] == file], watched)
            watched.tell()

        return _begun(run, self.plain, events)

    def attempt(self, mutant: Mutant, tree: Tree, wanted: dict[str, float], events: Path) -> int:
        """Begin to run tests on code with a fault, which a tree has for other processes; return the process id."""

        def run() -> None:
            ordered = Ordered(wanted, Told(events))
            faulthandler.dump_traceback_later(4 * SLOW, exit=True)
            if exchanged(mutant, (ROOT / mutant.path).read_text()):
                self._run([self.items[name] for name in wanted if name in self.items], ordered)
            else:
                forget((self.plain.place, ROOT / "tests"))
                asked = [str(ROOT / file) for file in dict.fromkeys(name.partition("::")[0] for name in wanted)]
                pytest.main([*OPTIONS, f"--basetemp={events.with_suffix('.tmp')}", *asked], plugins=[ordered])
            ordered.told("ended")

        return _begun(run, tree, events)

    def _run(self, items: list[Any], plugin: object) -> None:
        if not items:
            return
        config = items[0].config
        config.pluginmanager.register(plugin)
        for item, after in zip(items, [*items[1:], None], strict=True):
            config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def _begun(run: Callable[[], None], tree: Tree, events: Path) -> int:
    events.parent.mkdir(exist_ok=True)
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
        sys.path.insert(0, str(tree.place))
        os.environ["PYTHONPATH"] = str(tree.place)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_made(events.with_suffix(".root")))
        run()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _made(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def ended(pid: int, events: Path) -> list[dict[str, Any]]:
    """Return what a child that ended has told, and clear away what it left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for left in (".tmp", ".root"):
        shutil.rmtree(events.with_suffix(left), ignore_errors=True)
    return [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
