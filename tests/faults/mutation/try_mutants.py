"""Which faults the tests notice: ``python tests/faults/mutation/try_mutants.py COUNT SEED``, or ``… SEED PATTERN``.

Each fault (mutants.py) is put into a copy of the code and the tests that run its line are run, nearest first, until
one fails. Which test runs which line is found once and kept in ``.mutants.json`` (lines.py). Several seeds are given
as ``0,1``.
"""

import importlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import pytest
from lines import Lines, distance, test_files
from mutants import ROOT, Mutant, drawn, files
from named import named
from tree import Tree, module_of
from trial import OPTIONS, Collected, ended

T = TypeVar("T")
AT_ONCE = 2
SAME = Path(__file__).parent / "equivalent.txt"


def side_by_side(tasks: list[T], begin: Callable[[T, int, Path], int], folder: Path) -> Iterator[tuple[T, int, Any]]:
    """Do tasks in children, each in one of two places, and yield its place and what it has told as it ends."""
    places, waiting = list(range(AT_ONCE)), list(enumerate(tasks))
    running: dict[int, tuple[T, int, Path]] = {}
    while waiting or running:
        while waiting and places:
            (n, task), place = waiting.pop(0), places.pop()
            running[begin(task, place, folder / f"task{n}")] = (task, place, folder / f"task{n}")
        pid, _ = os.wait()
        if pid in running:
            task, place, events = running.pop(pid)
            yield task, place, ended(pid, events)
            places.append(place)


def verdict(told: list[dict[str, Any]]) -> tuple[str, str]:
    """Return what became of a mutant, and the test that says so."""
    for event in told:
        if event["what"] == "failed":
            return "caught", event["test"]
    if not told or told[-1]["what"] != "ended":
        return "caught", f"{told[-1]['test'] if told else 'as it is imported'} (hangs or dies)"
    return "survived", f"{sum(event['what'] == 'began' for event in told)} tests pass"


def known() -> dict[tuple[str, str], str]:
    """Return the mutants that change nothing, with the reason: ``path | what | why``."""
    rows = [line.split(" | ") for line in SAME.read_text().splitlines() if line and not line.startswith("#")]
    return {(path, what): why for path, what, why in rows}


def tried(mutants: list[Mutant], lines: Lines, tests: Collected, folder: Path) -> Iterator[tuple[Mutant, str, str]]:
    """Yield what became of each mutant."""
    trees = [Tree(folder / f"tree{place}") for place in range(AT_ONCE)]

    def begin(mutant: Mutant, place: int, events: Path) -> int:
        trees[place].put(mutant.path, mutant.applied((ROOT / mutant.path).read_text()))
        return tests.attempt(mutant, trees[place], lines.tests(mutant), events)

    for mutant, place, told in side_by_side(mutants, begin, folder):
        trees[place].put(mutant.path, None)
        yield mutant, *verdict(told)


def part_of(path: str) -> str:
    """Return the folder that a file's row of the table is."""
    return "/".join(path.split("/")[:2]) if path.count("/") > 1 else path.split("/")[0]


def table(found: list[tuple[Mutant, str]]) -> str:
    """Return the outcome by part of the code, in Markdown."""
    rows = ["| code | mutants | caught | equivalent | survived |", "|---|---|---|---|---|"]
    for name in (*sorted({part_of(mutant.path) for mutant, _ in found}), "all"):
        counts = Counter(what for mutant, what in found if name in (part_of(mutant.path), "all"))
        told = (counts[what] for what in ("caught", "equivalent", "survived"))
        rows.append(f"| {name} | {counts.total()} | " + " | ".join(str(count) for count in told) + " |")
    return "\n".join(rows)


def shown(mutants: list[Mutant], lines: Lines, tests: Collected, folder: Path) -> list[tuple[Mutant, str]]:
    """Try mutants, print what became of each, and return it."""
    same, found = known(), []
    for mutant, what, test in tried(mutants, lines, tests, folder):
        why = same.get((mutant.path, mutant.what)) if what == "survived" else None
        found.append((mutant, "equivalent" if why else what))
        place = f"{mutant.path}:{mutant.line}"
        print(f"{len(found):4} {found[-1][1]:10} {place}: {mutant.what} [{why or test}]", flush=True)
    return found


def rate(found: list[tuple[Mutant, str]]) -> float:
    """Return the share that was caught; what is equivalent is not caught either."""
    return sum(what == "caught" for _, what in found) / max(1, len(found))


def work(tests: Collected, folder: Path, count: int, seeds: list[int], pattern: str) -> bool:
    """Draw, try, show; return whether all that no test noticed once are caught now, and 97 % of those drawn."""
    lines, began = Lines(ROOT / ".mutants.json"), time.monotonic()

    def fits(mutant: Mutant) -> bool:
        return pattern in f"{mutant.path}:{mutant.line}"

    sets = {seed: [mutant for mutant in drawn(count, seed) if fits(mutant)] for seed in seeds}
    paths = {mutant.path for some in sets.values() for mutant in some} if pattern else set()
    lines.refresh(
        lambda tasks: side_by_side(tasks, lambda file, _, at: tests.watch(file, at), folder / "lines"),
        lambda test: not pattern or any(distance(path, test) < 2 for path in paths),
    )
    old = shown([mutant for mutant in named() if fits(mutant)], lines, tests, folder / "named")
    print(f"{len(old)} that no test noticed once: {rate(old):.1%} caught\n", flush=True)
    good = rate(old) == 1
    for seed, some in sets.items():
        new = shown(some, lines, tests, folder / f"seed{seed}")
        print(f"\n{table(new)}\n\n{len(new)} drawn with seed {seed}: {rate(new):.1%} caught\n", flush=True)
        good &= rate(new) >= 0.97
    print(f"{time.monotonic() - began:.0f} s")
    return good


def main() -> None:
    """Have all tests collected, and go to work."""
    count, seeds = int(sys.argv[1]), [int(seed) for seed in sys.argv[2].split(",")]
    pattern, good = (sys.argv[3] if len(sys.argv) > 3 else ""), []
    os.nice(1)
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        plain = Tree(Path(name) / "plain")
        sys.path.insert(0, str(plain.place))
        for path in files():
            importlib.import_module(module_of(path))
        tests = Collected(plain, lambda tests: good.append(work(tests, Path(name), count, seeds, pattern)))
        pytest.main([*OPTIONS, *(str(ROOT / file) for file in test_files())], plugins=[tests])
    raise SystemExit(good != [True])


if __name__ == "__main__":
    main()
