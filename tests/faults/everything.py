"""All parts of the harness, one after the other, and the table of what they came to: ``python3 dev.py faults``.

python tests/faults/everything.py [--write]   --write puts the table into docs/reliability.md, between its markers
"""

import subprocess
import sys
from pathlib import Path

from verdict import Verdict, read

from flcluster.files import between
from flcluster.records.provenance import code_version

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"

PARTS: list[list[str]] = [
    ["try_configs.py", "3000", "0"],
    ["try_data.py", "700", "0"],
    ["try_code.py"],
    ["try_kills.py", "300", "0"],
    ["try_flips.py", "200", "0"],
    ["try_two.py", "20", "0"],
    ["try_disk.py"],
    ["try_ranks.py"],
]
"""A script of this folder and what it is told: README.md says what it must print."""


def run(part: list[str]) -> tuple[list[Verdict], int]:
    """Run a part, show what it says, and return its last lines (one is usual) and its exit code."""
    command = [sys.executable, str(HERE / part[0]), *part[1:]]
    print("$ python", f"tests/faults/{part[0]}", *part[1:], flush=True)
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            found.append(read(line))
    return [each for each in found if each is not None], process.returncode


def row(part: list[str], told: Verdict) -> str:
    """Return a line of the table."""
    return f"| {told.name} | {told.tried} | {told.came_to} | {told.wrong} | `{' '.join(part)}` |"


def table(results: list[tuple[list[str], list[Verdict], int]]) -> str:
    """Return the table in Markdown."""
    head = ["| what | tried | came to | wrong | `tests/faults/` |", "|---|---|---|---|---|"]
    rows = [row(part, told) for part, verdicts, _ in results for told in verdicts]
    broken = [f"| {part[0]} | | told no result | – | |" for part, verdicts, _ in results if not verdicts]
    return "\n".join([*head, *rows, *broken])


def write(told: str) -> None:
    """Put a text between the page's marks."""
    page = between(PAGE.read_text(encoding="utf-8"), BEGIN, END, told)
    if page is None:
        raise SystemExit(f"{PAGE} has no marks {BEGIN} … {END}")
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    """Run, print the table, write it if asked to."""
    if unlisted := {path.name for path in HERE.glob("try_*.py")} - {part[0] for part in PARTS}:
        raise SystemExit(f"{', '.join(sorted(unlisted))}: not in PARTS of {Path(__file__).name}")
    if sys.argv[1:] not in ([], ["--write"]):
        raise SystemExit(__doc__)
    code = code_version()
    results = [(part, *run(part)) for part in PARTS]
    found = table(results)
    print(found)
    if sys.argv[1:]:
        told = f"Printed by `python3 dev.py faults` at commit {code}:\n\n{found}"
        write(told)
    wrong = [part[0] for part, verdicts, code in results if code or not verdicts]
    raise SystemExit(f"wrong: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
