"""How fast, by every benchmark, one after the other, and the table of it: ``python3 dev.py bench``.

What is compared takes turns, in CPU time (processes: by the clock), and only ratios are told; so a machine that does
something else besides disturbs little.

python tests/benchmarks/everything.py [--quick] [--write]
    --quick   tiny sizes and one turn: that all runs, the ratios mean nothing
    --write   put the table into docs/performance.md, between its markers
"""

import importlib
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from told import Told, show

from flcluster.engine.threads import cores, wait_passively
from flcluster.files import between
from flcluster.records.provenance import code_version

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
PARTS = ("rounds", "together", "methods", "waits", "registered", "processes", "busy", "coordinator")
"""Scripts of this folder with a function ``rows``."""


def run(part: str, quick: bool) -> list[Told]:
    """Measure a part in a process of its own, whose memory and threads are nobody else's."""
    print(f"$ python tests/benchmarks/{part}.py", flush=True)
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        return show(alone.submit(measured, part, quick).result())


def measured(part: str, quick: bool) -> list[Told]:
    """Measure a part in this process, with one thread."""
    wait_passively()
    import torch

    from flcluster.engine.process import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    found: list[Told] = importlib.import_module(part).rows(quick=quick)
    return found


def table(results: dict[str, list[Told]]) -> str:
    """Return the table in Markdown."""
    head = ["| what | ratio | goal | `tests/benchmarks/` |", "|---|---|---|---|"]
    return "\n".join(
        [*head, *(f"| {t.what} | {t.found:.2f} {t.unit}".rstrip() + f" | {t.goal} | `{part}.py` |"
                  for part, rows in results.items() for t in rows)]
    )  # fmt: skip


def write(told: str) -> None:
    """Put a text between the page's marks."""
    page = between(PAGE.read_text(encoding="utf-8"), BEGIN, END, told)
    if page is None:
        raise SystemExit(f"{PAGE} has no marks {BEGIN} … {END}")
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    """Measure, print the table, write it if asked to."""
    given = set(sys.argv[1:])
    if given - {"--quick", "--write"}:
        raise SystemExit(__doc__)
    code, busy = code_version(), os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    results = {part: run(part, "--quick" in given) for part in PARTS}
    found = table(results)
    print(found)
    if "--write" in given:
        told = f"Printed by `python3 dev.py bench` at commit {code}; others kept {busy:.1f} of {cores()} cores busy:"
        write(f"{told}\n\n{found}")


if __name__ == "__main__":
    main()
