"""Flip single bits in what a resume reads: refused by the file's name, or exactly the numbers of the whole run.

python tests/faults/try_flips.py COUNT SEED [RUN …]    over runs of some kinds, or those named

A run is stopped twice, so that it has a checkpoint and the one before it. Each time one bit of one of its files is
flipped, the files in turn, and it goes on. To go on with other numbers, or to say nothing of the file, is wrong.
"""

import shutil
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
import forked
import numpy as np
import short_runs
import verdict

KINDS = ("CDFL", "Scaffold", "Fielding", "DFCA", "APFL")
"""Uploads, rounds with a table, rounds on a stream, gossip, phases."""
UNREAD = ("run.log", "run.lock")
"""Files of a run that nothing reads to go on."""


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def read_by_a_resume(run: Path) -> list[Path]:
    """Return the files of a run that has stopped, but for what nobody reads."""
    found = sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file() and path.stat().st_size)
    return [path for path in found if path.name not in UNREAD]


def stopped(flags: list[str], run: Path) -> None:
    """Make a run that has stopped twice."""
    for at, how in (("2", []), ("3", ["--ckpt_path", "last"])):
        each = [*flags, "--run_dir", str(run), "--engine.max_updates", at, *how]
        if (end := forked.forked(lambda each=each: short_runs.fit(*each), run.parent, 600, None)).code:
            raise SystemExit(f"{run} did not stop as it should: {end.said}")


def gone_on(run: Path, whole: Path) -> tuple[str, str]:
    """Go on with a damaged run; return what came of it, and what it said."""
    flags = ["--run_dir", str(run), "--ckpt_path", "last", "--engine.max_updates", "null"]
    end = forked.forked(lambda: short_runs.fit(*flags), run.parent, 120, 6)
    if end.code == 0:
        differ = short_runs.differences(whole, run)
        return ("unnoticed", "; ".join(differ)) if differ else ("same numbers", end.said)
    if end.code == 2 and "Traceback" not in end.said:
        return "refused", end.said
    return ("hangs" if end.code == forked.LATE else "traceback"), end.said


def outcome(stopped: Path, whole: Path, name: Path, bit: int) -> tuple[str, str]:
    """Flip a bit in a copy of a stopped run and return what came of it."""
    run = stopped.with_name("damaged")
    short_runs.removed(run)
    shutil.copytree(stopped, run)
    flip(run / name, bit)
    what, said = gone_on(run, whole)
    if what == "refused" and name.name not in said:
        return "names no file", said
    return what, said


def main():
    """Flip, go on, compare."""
    count, seed, kinds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or KINDS
    forked.warm()
    draw, counts = np.random.default_rng(seed), Counter()
    pairs = [(kind, tables) for kind in kinds for tables in short_runs.BUDGETS]
    with TemporaryDirectory() as folder:
        for at, (kind, tables) in enumerate(pairs):
            whole, cut, flags = Path(folder) / "whole", Path(folder) / "cut", short_runs.flags(kind, tables)
            short_runs.removed(whole), short_runs.removed(cut)
            short_runs.whole(flags, whole)
            stopped(flags, cut)
            files = read_by_a_resume(cut)
            for n in range(-(-(count - sum(counts.values())) // (len(pairs) - at))):
                name = files[n % len(files)]
                bit = int(draw.integers(8 * (cut / name).stat().st_size))
                what, said = outcome(cut, whole, name, bit)
                counts[what] += 1
                if what not in ("same numbers", "refused"):
                    print(kind, tables, name, bit, what, said[-600:], flush=True)
            print(f"{kind}, tables in {tables}: {dict(counts)}", file=sys.stderr, flush=True)
    verdict.tell("bit flips", counts, ("same numbers", "refused"))


if __name__ == "__main__":
    main()
