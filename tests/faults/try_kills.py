"""Kill short runs of every method at random moments, go on, and compare with the run that was never interrupted.

python tests/faults/try_kills.py COUNT SEED [RUN …]    over all runs of same_numbers.py, or those named

A process is forked that begins or goes on (``--ckpt_path auto``), with a checkpoint after every step, and gets
SIGKILL: half the time after a random while, half the time as soon as a temporary file of a checkpoint is seen. So it
goes until the run has had its kills and comes to its end; its metrics.csv, clients.csv and population.csv must then
be those of the whole run.
"""

import os
import signal
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
from good_configs import same_numbers

LATE = 300.0
"""Seconds after which a run that goes on is taken for hanging."""


def uncovered() -> set[str]:
    """Return the methods that no run is of."""
    import flcluster.algorithms as methods
    from flcluster.protocol.base import Algorithm

    found = (getattr(methods, name) for name in methods.__all__)
    known = {kind.__name__ for kind in found if issubclass(kind, Algorithm)}
    return known - {run.partition("-")[0] for run in same_numbers.RUNS}


def killed(pid: int, run: Path, wait: float, writing: bool) -> int | None:
    """Kill a process after a while, or then once it writes a checkpoint; return its exit code if it was quicker."""
    since = time.monotonic()
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        late = time.monotonic() - since
        if late > wait and (not writing or late > wait + 1 or any((run / "checkpoints").glob("*.tmp"))):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.0005 if writing and late > wait else 0.002)


def tried(flags: list[str], whole: Path, seconds: float, kills: int, draw: np.random.Generator) -> list[str]:
    """Kill a run so many times, however many runs that takes; return ``same``, or what was wrong, for each."""
    run, wrong, left, since = whole.with_name("killed"), list[str](), kills, 0
    while left or run.exists():
        with TemporaryFile() as said:
            pid = short_runs.started(flags, run, said.fileno())
            if left:
                code = killed(pid, run, seconds * draw.uniform(0, 0.7), draw.random() < 0.5)
                left, since = (left - 1, since + 1) if code is None else (left, since)
            else:
                code = forked.ended(pid, LATE)
            if code is None:
                continue
            said.seek(0)
            text = said.read().decode(errors="replace")
        differ = short_runs.differences(whole, run) if code == 0 else [f"exit code {code}: {text[-1500:]}"]
        wrong += ["; ".join(differ) or "same"] * since
        since = 0
        short_runs.removed(run)
    return wrong


def main():
    """Kill, go on, compare."""
    count, seed, runs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(same_numbers.RUNS)
    forked.warm()
    if absent := uncovered():
        raise SystemExit(f"no run of {', '.join(sorted(absent))}: add one to RUNS in same_numbers.py")
    pairs = [(run, tables) for run in runs for tables in short_runs.BUDGETS]
    draw, counts = np.random.default_rng(seed), Counter()
    with TemporaryDirectory() as folder:
        for at, (run, tables) in enumerate(pairs):
            whole, flags = Path(folder) / "whole", short_runs.flags(run, tables)
            short_runs.removed(whole)
            since = time.monotonic()
            short_runs.whole(flags, whole)
            seconds, before = time.monotonic() - since, sum(counts.values())
            kills = -(-(count - before) // (len(pairs) - at))
            for what in tried(flags, whole, seconds, max(kills, 1), draw):
                counts["same" if what == "same" else "wrong"] += 1
                if what != "same":
                    print(run, tables, what, flush=True)
            print(f"{run}, tables in {tables}: {dict(counts)}", file=sys.stderr, flush=True)
    verdict.tell("kill -9", counts, ("same",))


if __name__ == "__main__":
    main()
