"""Which faults the tests find: ``python tests/faults/mutation/try_mutants.py COUNT SEED``, or ``COUNT SEED PATTERN``.

Each fault (mutants.py) is put into a copy of the code and the tests that run its line are run, nearest first, until
one fails. Which test runs which line is found once and kept in ``.mutants.json`` (lines.py).
"""

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

from lines import Lines
from mutants import ROOT, Mutant, drawn
from named import named
from trial import Ordered, Tree, begun, ended

T = TypeVar("T")
AT_ONCE = 2
SAME = Path(__file__).parent / "equivalent.txt"


def import_libraries() -> None:
    """Import what takes seconds and is not ours, so that a child need not."""
    import hypothesis  # noqa: F401
    import jsonargparse  # noqa: F401
    import lightning.fabric
    import lightning.pytorch  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import networkx  # noqa: F401
    import scipy.optimize  # noqa: F401
    import sklearn.cluster  # noqa: F401
    import torch
    import torchmetrics  # noqa: F401
    import torchvision  # noqa: F401

    torch.set_num_threads(1)


def side_by_side(tasks: list[T], begin: Callable[[T, Tree, Path], int], folder: Path) -> Iterator[tuple[T, list[Any]]]:
    """Do tasks in children, two at a time, and yield what each has told as it ends."""
    trees = [Tree(folder / f"tree{i}") for i in range(AT_ONCE)]
    running: dict[int, tuple[T, Tree, Path]] = {}
    waiting = list(enumerate(tasks))
    while waiting or running:
        while waiting and trees:
            n, task = waiting.pop(0)
            tree, events = trees.pop(), folder / f"task{n}"
            running[begin(task, tree, events)] = (task, tree, events)
        pid, _ = os.wait()
        if pid in running:
            task, tree, events = running.pop(pid)
            yield task, ended(pid, events)
            trees.append(tree)


def verdict(told: list[dict[str, Any]]) -> tuple[str, str]:
    """Return what became of a mutant, and the test that says so."""
    if not told:
        return "caught", "as it is imported"
    for event in told:
        if event["what"] == "failed":
            return "caught", event["test"]
    if told[-1]["what"] == "ended":
        passed = f"{sum(event['what'] == 'began' for event in told)} tests pass"
        return ("survived", passed) if told[-1]["code"] in (0, 5) else ("caught", "as tests are collected")
    return "caught", f"{told[-1]['test']} (hangs or dies)"


def known() -> dict[tuple[str, str], str]:
    """Return the mutants that change nothing, with the reason: ``path | what | why``."""
    rows = [line.split(" | ") for line in SAME.read_text().splitlines() if line and not line.startswith("#")]
    return {(path, what): why for path, what, why in rows}


def tried(mutants: list[Mutant], lines: Lines, folder: Path) -> Iterator[tuple[Mutant, str, str]]:
    """Yield what became of each mutant."""
    used: dict[Mutant, Tree] = {}

    def begin(mutant: Mutant, tree: Tree, events: Path) -> int:
        used[mutant] = tree
        tree.put(mutant.path, mutant.applied((ROOT / mutant.path).read_text()))
        wanted = lines.tests(mutant)
        files = list(dict.fromkeys(name.partition("::")[0] for name in wanted))
        return begun(tree, files, events, lambda told: Ordered(wanted, told), ["-x"])

    for mutant, told in side_by_side(mutants, begin, folder):
        used.pop(mutant).put(mutant.path, None)
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


def shown(mutants: list[Mutant], lines: Lines, folder: Path) -> list[tuple[Mutant, str]]:
    """Try mutants, print what became of each, and return it."""
    same, found = known(), []
    for mutant, what, test in tried(mutants, lines, folder):
        why = same.get((mutant.path, mutant.what)) if what == "survived" else None
        found.append((mutant, "equivalent" if why else what))
        place = f"{mutant.path}:{mutant.line}"
        print(f"{len(found):4} {found[-1][1]:10} {place}: {mutant.what} [{why or test}]", flush=True)
    return found


def rate(found: list[tuple[Mutant, str]]) -> float:
    """Return the share that was caught; what is equivalent is not caught either."""
    return sum(what == "caught" for _, what in found) / max(1, len(found))


def main() -> None:
    """Draw, try, show."""
    count, seed, pattern = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""
    os.nice(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        import_libraries()
        lines = Lines(ROOT / ".mutants.json")
        lines.refresh(lambda tasks, begin: side_by_side(tasks, begin, Path(name) / "lines"))
        fits = [mutant for mutant in drawn(count, seed) if pattern in f"{mutant.path}:{mutant.line}"]
        old = shown([mutant for mutant in named() if pattern in mutant.path], lines, Path(name) / "named")
        new = shown(fits, lines, Path(name) / "drawn")
    print(f"\n{table(new)}\n\n{len(old)} that no test noticed once: {rate(old):.1%} caught")
    print(f"{len(new)} drawn with seed {seed}: {rate(new):.1%} caught; {time.monotonic() - began:.0f} s")
    raise SystemExit(rate(old) < 1 or rate(new) < 0.97)


if __name__ == "__main__":
    main()
