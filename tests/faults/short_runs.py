"""Short runs of every method that are killed, damaged and taken up again, and what they must come to all the same."""

import shutil
from pathlib import Path

import good_configs as good
from forked import begin, ended, forked
from good_configs import same_numbers

NUMBERS = ("metrics.csv", "clients.csv", "population.csv")
BUDGETS = {"memory": "1", "file": "0"}
"""Where tables of rows are -> engine.memory_gb."""


def flags(run: str, tables: str = "memory") -> list[str]:
    """Return the flags of one of same_numbers.py's runs, with a checkpoint after every step."""
    config, own = same_numbers.RUNS[run]
    method = ["--config", str(good.ROOT / config), "--algorithm", run.partition("-")[0]]
    often = ["--engine.checkpoint_minutes", "0", "--engine.threads", "1", "--engine.memory_gb", BUDGETS[tables]]
    return [*method, *same_numbers.SHORT[config], *own, *good.QUIET, *often]


def fit(*flags: str) -> int:
    """Run ``flcluster fit`` in this process."""
    from flcluster.cli import main

    return main(["fit", *flags])


def started(flags: list[str], run: Path, said: int) -> int:
    """Begin or go on with a run in a process of its own; return its number."""
    return begin(lambda: fit(*flags, "--run_dir", str(run), "--ckpt_path", "auto"), said, 600, None, run.parent)


def whole(flags: list[str], run: Path) -> None:
    """Make a run that is never interrupted."""
    end = forked(lambda: fit(*flags, "--run_dir", str(run)), run.parent, 600, None)
    if end.code:
        raise SystemExit(f"{run} does not run to its end by itself: {end.said}")


def differences(one: Path, other: Path) -> list[str]:
    """Name every column in which two runs differ, timings aside."""
    there = [name for name in NUMBERS if (one / name).exists() or (other / name).exists()]
    return [line for name in there for line in same_numbers.differences(one / name, other / name, name)]


def removed(run: Path) -> None:
    """Remove a run's directory."""
    shutil.rmtree(run, ignore_errors=True)


__all__ = ["BUDGETS", "NUMBERS", "differences", "ended", "fit", "flags", "removed", "started", "whole"]
