"""Two processes on one run's directory, and a directory that cannot be written.

python tests/faults/try_two.py COUNT SEED    COUNT pairs of processes and a tenth as many read-only folders

Of two processes that begin or go on with one run at one moment, one does it, and the other is refused or finds
nothing left to do; the numbers are those of the whole run. A run whose folder is read-only is refused by the folder's
name, changes nothing, and goes on once it may be written again.
"""

import ctypes
import os
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

sys.path.insert(0, str(Path(__file__).parent))
import forked
import numpy as np
import short_runs
import verdict

BUSY = 75


def pair(flags: list[str], run: Path, whole: Path, apart: float) -> str:
    """Start two processes, a moment apart, and return what came of them."""
    with TemporaryFile() as said:
        first = short_runs.started(flags, run, said.fileno())
        time.sleep(apart)
        second = short_runs.started(flags, run, said.fileno())
        codes = sorted((forked.ended(first, 120), forked.ended(second, 120)))
        said.seek(0)
        text = said.read().decode(errors="replace")
    if differ := short_runs.differences(whole, run):
        return f"mixed: {differ}"
    if "Traceback" in text or codes not in ([0, 0], [0, BUSY]):
        return f"{codes}: {text[-600:]}"
    return "one did it" if codes == [0, BUSY] else "one after the other"


def without_privileges() -> None:
    """Give up root's right to write what is read-only; other users do not have it."""
    if os.geteuid():
        return
    libc, header, sets = (
        ctypes.CDLL(None, use_errno=True),
        (ctypes.c_uint32 * 2)(0x20080522, 0),
        (ctypes.c_uint32 * 6)(),
    )
    libc.capget(ctypes.byref(header), ctypes.byref(sets))
    for at in (0, 1):  # effective, permitted
        sets[at] &= ~((1 << 1) | (1 << 2))  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    if libc.capset(ctypes.byref(header), ctypes.byref(sets)):
        raise OSError(ctypes.get_errno(), "capset")


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def read_only(flags: list[str], run: Path, whole: Path) -> str:
    """Take a run's right to write away after its first steps, and give it back."""

    def go_on() -> int:
        without_privileges()
        return short_runs.fit(*flags, "--run_dir", str(run), "--ckpt_path", "auto")

    part = forked.forked(lambda: short_runs.fit(*flags, "--run_dir", str(run), "--engine.max_updates", "2"), run.parent)
    before, folders = contents(run), [run, *(path for path in run.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    end = forked.forked(go_on, run.parent)
    after = contents(run)
    for folder in folders:
        folder.chmod(0o755)
    if part.code or end.code != 2 or "Traceback" in end.said or str(run) not in end.said:
        return f"{part.code}, {end.code}: {end.said[-600:]}"
    if before != after:
        return "changed a file in a read-only folder"
    end = forked.forked(lambda: short_runs.fit(*flags, "--run_dir", str(run), "--ckpt_path", "auto"), run.parent)
    differ = short_runs.differences(whole, run)
    return f"{end.code}: {differ}" if end.code or differ else "refused by name"


def main():
    """Try pairs, then read-only folders."""
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    forked.warm()
    draw, counts = np.random.default_rng(seed), Counter()
    with TemporaryDirectory() as folder:
        whole, run, flags = Path(folder) / "whole", Path(folder) / "run", short_runs.flags("CDFL", "file")
        short_runs.whole(flags, whole)
        for n in range(count + max(1, count // 10)):
            short_runs.removed(run)
            if n % 2 and n < count:  # goes on
                forked.forked(
                    lambda: short_runs.fit(*flags, "--run_dir", str(run), "--engine.max_updates", "2"), run.parent
                )
            what = pair(flags, run, whole, draw.uniform(0, 0.05)) if n < count else read_only(flags, run, whole)
            good = what if what in ("one did it", "one after the other", "refused by name") else "wrong"
            counts["as they should" if good != "wrong" else "wrong"] += 1
            if good == "wrong":
                print(what, flush=True)
    verdict.tell("two processes, read-only folders", counts, ("as they should",))


if __name__ == "__main__":
    main()
