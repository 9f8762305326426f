"""Uploads of the quickstart on a quiet machine and beside programs that keep every core busy.

With the command's own settings (one thread for a small model, threads that sleep while they wait), and with PyTorch's
(a thread for each core, which spins while it waits). Each run is a process of its own; what counts is the run's time
without the start of the process. All take turns, quiet and busy; the smallest of the turns counts.
Run: python tests/benchmarks/busy.py [--uploads 20] [--turns 3]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from told import Told, show

from flcluster.engine.threads import PASSIVE, cores

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0
"""Seconds after which a run is given up."""
SETTINGS = {
    "ours": dict[str, str](),
    "a thread a core, asleep": {"OMP_NUM_THREADS": str(cores())},
    "a thread a core, spinning": {"OMP_NUM_THREADS": str(cores()), "KMP_BLOCKTIME": "200"},  # no word of ours then
}


@contextmanager
def busy() -> Iterator[None]:
    """Keep every core busy with something else."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores())]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def seconds(uploads: int, setting: dict[str, str]) -> float:
    """Return how long a run of some uploads takes, the first models included."""
    environment = {name: value for name, value in os.environ.items() if name not in (*PASSIVE, "OMP_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "flcluster", "fit", "--config", str(ROOT / "configs/quickstart.yaml")]
        flags = [f"--engine.{name}=false" for name in ("progress", "pictures", "table")]
        given = [*command, *flags, f"--engine.max_updates={uploads}", f"--run_dir={run}"]
        try:
            subprocess.run(given, env=environment | setting, check=True, timeout=LIMIT, cwd=folder, capture_output=True)
        except subprocess.TimeoutExpired:
            return LIMIT
        return float(json.loads((run / "summary.json").read_text())["wall_seconds"])


def rows(quick: bool = False, uploads: int = 20, turns: int = 2) -> list[Told]:
    """Return each time as a multiple of ours on the quiet machine."""
    if quick:
        return [Told("CDFL's first upload / itself", seconds(1, SETTINGS["ours"]) / seconds(1, SETTINGS["ours"]))]
    times: dict[str, list[float]] = {}
    for _ in range(turns):
        for name, setting in SETTINGS.items():
            times.setdefault(f"{name}, quiet", []).append(seconds(uploads, setting))
        with busy():
            for name, setting in SETTINGS.items():
                times.setdefault(f"{name}, busy", []).append(seconds(uploads, setting))
    first = min(times.pop("ours, quiet"))
    return [
        Told(f"{uploads} CDFL uploads: {name} machine / ours, quiet machine", min(found) / first)
        for name, found in times.items()
    ]


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uploads", type=int, default=20)
    parser.add_argument("--turns", type=int, default=2)
    given = parser.parse_args()
    show(rows(uploads=given.uploads, turns=given.turns))


if __name__ == "__main__":
    main()
