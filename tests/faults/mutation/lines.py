"""Which test runs which line: found by running every test file once, and kept until it or what it runs changes."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mutants import ROOT, Mutant

TESTS = (
    *("algorithms", "flcluster/clustering", "flcluster/devices", "flcluster/engine", "flcluster/federation"),
    *("flcluster/protocol", "flcluster/records", "flcluster/topology", "flcluster/report"),
    *(
        "test_docstrings.py",
        "flcluster/test_data.py",
        "datamodules/test_lightning.py",
        "faults/short/test_try_configs.py",
        "flcluster/cli/test_export.py",
    ),
)
"""Tests that are asked: those of commands and scripts, which make whole runs, would take too long."""
LIMIT = 200.0
"""Seconds of tests after which a mutant has survived."""


def digest(path: str) -> str:
    """Return what a file's text comes to; nothing for a file that is gone."""
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:16] if (ROOT / path).exists() else ""


def test_files() -> list[str]:
    """Return the files of tests, as paths in the repository."""
    places = [ROOT / "tests" / name for name in TESTS]
    found = [path for place in places for path in (place.rglob("test_*.py") if place.is_dir() else [place])]
    return [str(path.relative_to(ROOT)) for path in found]


class Lines:
    """Per test file its tests with the lines that they run, and the digests of all these files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def refresh(
        self,
        watched: Callable[[list[str]], Iterable[tuple[str, int, list[dict[str, Any]]]]],
        wanted: Callable[[str], bool],
    ) -> None:
        """Run the wanted test files whose lines are not known, or not any more."""
        there = test_files()
        now = {path: digest(path) for path in {*there, *(p for one in self.files.values() for p in one["digests"])}}
        valid = {p for p, one in self.files.items() if all(now[q] == d for q, d in one["digests"].items())}
        self.files = {path: one for path, one in self.files.items() if path in valid and path in there}
        missing = [path for path in there if path not in self.files and wanted(path)]
        for n, (file, _, told) in enumerate(watched(missing), start=1):
            if not told or told[-1]["what"] != "ended":
                raise SystemExit(f"{file} does not come to its end")
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
