"""Try mistakes in code of a user's own, each in a process of its own: what each came to.

python tests/faults/try_code.py [SEED [WORD …]]    only those whose kind, change or message has one of the words

A wrong file must be refused at the first step at the latest, in one message that names its class and the file, with
exit code 2 and without a traceback; what the run leaves must be whole. A right one that looks odd must run.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "authors"))
import bad_code
import forked
import verdict
from good_code import KINDS
from good_configs import QUIET

CLIENTS = 6
"""Of each run; a step takes at most so many updates."""


def run(case: bad_code.Case, seed: int, folder: Path) -> forked.Ended:
    """Run a configuration that names the file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "mine.py").write_text(case.text)
    flags = [*KINDS[case.kind][1], *case.flags, *QUIET, "--engine.progress", "true", "--seed_everything", str(seed)]

    def fit() -> int:
        from flcluster.cli import main

        sys.path.insert(0, str(folder))
        return main(["fit", *flags, "--run_dir", "run"])

    return forked.forked(fit, folder)


def updates(run_dir: Path) -> int:
    """Return how many updates a run has written of."""
    path = run_dir / "clients.csv"
    return len(path.read_text().splitlines()) - 1 if path.exists() and path.stat().st_size else 0


def half_written(run_dir: Path) -> list[str]:
    """Return what a run left that is not whole."""
    from flcluster.records.seal import is_whole

    sealed = [path for path in run_dir.rglob("*.ckpt") if not is_whole(path)]
    return [path.name for path in [*run_dir.rglob("*.tmp"), *sealed]]


def outcome(case: bad_code.Case, seed: int, folder: Path) -> tuple[str, str]:
    """Return what a file came to, and what was said."""
    ended = run(case, seed, folder)
    said = " ".join(ended.said.split())
    if case in bad_code.RIGHT:
        ran = ended.code == 0 and (folder / "run" / "summary.json").exists()
        return ("ran" if ran and case.said in said else "refused what is right"), ended.said
    if ended.code != 2 or "Traceback" in said:
        return ("not noticed" if ended.code == 0 else "traceback"), ended.said
    message = ended.said.splitlines()[-1]
    if not (case.name in message and "mine.py" in message and case.said in message and len(message) < 800):
        return "names no class and file", ended.said
    if half_written(folder / "run"):
        return "half-written", ended.said
    return ("refused" if updates(folder / "run") <= CLIENTS else "late"), ended.said


def attempts(cases: Sequence[bad_code.Case], seed: int) -> Counter[str]:
    """Try cases, count what they came to, and show what is wrong."""
    counts = Counter[str]()
    forked.warm()
    with TemporaryDirectory() as base:
        for at, case in enumerate(cases, start=1):
            what, said = outcome(case, seed, Path(base) / "case")
            counts[what] += 1
            if what not in ("refused", "ran"):
                print(f"{what} | {case.kind} | {case.new} | {case.said} |", *said.strip().splitlines()[-3:], flush=True)
            if at % 20 == 0:
                print(f"{at} of {len(cases)}: {dict(counts)}", file=sys.stderr, flush=True)
    return counts


def main() -> None:
    """Try, count, and show what is wrong."""
    seed, words = int((sys.argv[1:] or ["0"])[0]), sys.argv[2:]
    every = [*bad_code.WRONG, *bad_code.RIGHT]
    chosen = [c for c in every if not words or any(word in f"{c.kind} {c.new} {c.said}" for word in words)]
    verdict.tell("code of a user's own", attempts(chosen, seed), ("refused", "ran"))


if __name__ == "__main__":
    main()
