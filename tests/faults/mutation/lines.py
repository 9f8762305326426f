"""Which test runs which line: found by running every test file once, and kept until it or what it runs changes."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mutants import ROOT, Mutant
from trial import Tree, Watched, begun

FOLDERS = ("tests/algorithms", "tests/flcluster")
LEFT_OUT = ("tests/flcluster/report",)
LIMIT = 60.0
"""Seconds of tests after which a mutant has survived."""


def digest(path: str) -> str:
    """Return what a file's text comes to; nothing for a file that is gone."""
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:16] if (ROOT / path).exists() else ""


class Lines:
    """Per test file its tests with the lines that they run, and the digests of all these files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def refresh(self, side_by_side: Callable[..., Iterable[tuple[str, list[dict[str, Any]]]]]) -> None:
        """Run the test files whose lines are not known, or not any more."""
        there = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("test_*.py")]
        there = sorted(path for path in there if not path.startswith(LEFT_OUT))
        now = {path: digest(path) for path in {*there, *(p for one in self.files.values() for p in one["digests"])}}
        self.files = {
            p: one for p, one in self.files.items() if all(now.get(q) == d for q, d in one["digests"].items())
        }
        self.files = {path: one for path, one in self.files.items() if path in there}
        missing = [path for path in there if path not in self.files]

        def begin(file: str, tree: Tree, events: Path) -> int:
            return begun(tree, [file], events, lambda told: Watched(tree, told), [])

        for n, (file, told) in enumerate(side_by_side(missing, begin), start=1):
            tests = {event["test"]: [event["seconds"], event["lines"]] for event in told if event["what"] == "passed"}
            run = {path for _, lines in tests.values() for path in lines}
            self.files[file] = {"digests": {path: digest(path) for path in {file, *run}}, "tests": tests}
            self.path.write_text(json.dumps(self.files))
            print(f"lines of {n} of {len(missing)} test files: {file} ({len(tests)} tests)", flush=True)

    def tests(self, mutant: Mutant) -> dict[str, float]:
        """Return the tests that may notice a mutant, nearest first, with the seconds that each takes.

        Those that run its line, then the others of their files, which may share a result; then those whose place is
        the file's, or what runs the file at all if nothing is seen to run the line (it is imported, or in a process).
        """
        first, last = mutant.lines
        near = self._those(lambda _, lines: any(first <= n <= last for n in lines.get(mutant.path, ())))
        files = {name.partition("::")[0] for name in near}
        beside = self._those(lambda file, _: file in files)
        wide = self._those(
            lambda file, lines: distance(mutant.path, file) < (1 if near else 2) or (not near and mutant.path in lines)
        )
        chosen: dict[str, float] = {}
        for group in (near, beside, wide):
            for name in in_order(group, mutant.path):
                if sum(chosen.values()) < LIMIT:
                    chosen[name] = group[name]
        return chosen

    def _those(self, wanted: Callable[[str, dict[str, list[int]]], bool]) -> dict[str, float]:
        rows = ((file, name, row) for file, one in self.files.items() for name, row in one["tests"].items())
        return {name: seconds for file, name, (seconds, lines) in rows if wanted(file, lines)}


def distance(path: str, test: str) -> int:
    """Return 0 for the test file of a file, 1 for one in the folder of its tests, 2 for others."""
    code, place = Path("tests") / path, Path(test)
    if place.parent != code.parent:
        return 2
    return 0 if place.stem.startswith(f"test_{code.stem}") else 1


def in_order(tests: dict[str, float], path: str) -> list[str]:
    """Sort tests by file: near ones first, then quick ones."""
    files = {name: name.partition("::")[0] for name in tests}
    costs: dict[str, float] = {}
    for name, file in files.items():
        costs[file] = costs.get(file, 0.0) + tests[name]
    return sorted(tests, key=lambda name: (distance(path, files[name]), costs[files[name]], files[name]))
