"""Several methods on the same data, arrivals and budget: one run each, then one table and one set of pictures."""

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path

from flcluster.config import new_directory, option, with_dashes
from flcluster.errors import UserError
from flcluster.report import load_runs, summary_table, wide_console, write_report


def compare(argv: list[str]) -> int:
    """Run ``flcluster fit`` once per method and seed; what is there already goes on where it stopped."""
    parser = argparse.ArgumentParser(
        prog="flcluster compare",
        description="Run several methods on the same data and arrivals. Everything else is handed to flcluster fit.",
        allow_abbrev=False,
    )
    parser.add_argument("--methods", nargs="+", required=True, help="Algorithm classes, e.g. CDFL Local.")
    parser.add_argument("--seeds", nargs="+", type=int, default=None, help="Seeds to repeat with.")
    parser.add_argument("--output", type=Path, default=None, help="Folder of the runs; default runs/<config>/<time>.")
    given, rest = parser.parse_known_args(with_dashes(argv))
    if option(rest, "run_dir") or option(rest, "ckpt_path"):
        raise UserError("compare makes a run directory per method under --output: leave out --run_dir and --ckpt_path")
    configs = option(rest, "config")
    output = given.output or new_directory(Path("runs") / (Path(configs[-1]).stem if configs else "compare"))
    for seed in given.seeds or [None]:
        for method in given.methods:
            name = method.rpartition(".")[2] + ("" if seed is None else f"-seed{seed}")
            extra = [] if seed is None else ["--seed_everything", str(seed)]
            code = run_one(output / name, [*rest, "--algorithm", method, *extra])
            if code:
                return code
    runs = load_runs([output])
    console = wide_console()
    console.print(summary_table(runs))
    for path in write_report(runs, output):
        console.print(f"wrote {path}", highlight=False)
    return 0


def run_one(run_dir: Path, arguments: list[str]) -> int:
    """Run or go on with one method in a process of its own; returns its exit code, or 3 if it stopped early.

    A finished run is taken up too: other settings are refused, a longer run goes on, the same one ends at once.
    """
    resume = ["--ckpt_path", "last"] if (run_dir / "checkpoints" / "last.ckpt").exists() else []
    command = [sys.executable, "-m", "flcluster", "fit", *arguments, "--run_dir", str(run_dir), *resume]
    code = wait_for(subprocess.Popen([*command, "--engine.table", "false"]))
    if code:
        return code
    return 0 if json.loads((run_dir / "summary.json").read_text())["status"] == "finished" else 3


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """Wait through Ctrl-C (the run gets it too, and writes its checkpoint) and hand SIGTERM on."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
    finally:
        signal.signal(signal.SIGTERM, before)
