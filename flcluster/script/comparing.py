"""``fl.compare``: several methods on the same data, one after the other in this process."""

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flcluster.comparison.budget import Built, Words, budgets
from flcluster.comparison.turns import Turns
from flcluster.engine.fit import instantiated
from flcluster.engine.process import RANKS
from flcluster.engine.resume import new_directory
from flcluster.errors import BusyError, UserError
from flcluster.files import has_checkpoint, refuse_alike, run_folder
from flcluster.report.study.checks import named
from flcluster.script.fitting import fit
from flcluster.script.named import Method, arguments_of
from flcluster.script.recipe import recipe
from flcluster.script.runs import Run, Runs
from flcluster.script.untouched import untouched

WORDS = Words('lengths={{"{name}": {{"{unit}": {length}}}}}', "budget", "budget={}", '"')


def compare(
    methods: Mapping[str, Method] | Iterable[Method | Mapping[str, Method]],
    *,
    seeds: Sequence[int] | None = None,
    output: str | Path | None = None,
    budget: float | str | None = None,
    lengths: Mapping[str, Mapping[str, float]] | None = None,
    **common: Any,
) -> Runs:
    """Run several methods or configs, once per seed, and return the runs; ``.table()`` prints them side by side.

    All are checked before the first one runs. Every run is made, whatever becomes of one; what failed is told at the
    end by a ``UserError``, and ``fl.load`` and ``flcluster report`` read what did not. Called again with the same
    ``output`` it goes on where it stopped.

    Args:
        methods: Methods by name, ``{"gentle": CDFL(beta0=0.1), "local": "Local"}``; or a list of such, of methods, or
            of paths of configs, which are then called by their class or file.
        seeds: Seeds to repeat with.
        output: Folder of the runs; default runs/compare/<time>.
        budget: Samples of local training: "equal" (all have the first one's), a number for all, "own" (as they are);
            by default other budgets than the first one's are refused.
        lengths: Lengths of some methods alone, by name: ``{"FedAvg": {"rounds": 5}}``.
        **common: What every run has: the other arguments of ``fit``.
    """
    if "run_dir" in common or "ckpt" in common:
        raise UserError("compare makes a directory per run: give output=… instead of run_dir and ckpt")
    each = arguments_of(methods, common, lengths or {})
    refuse_alike(list(each), "methods")
    repeats: list[int | None] = list(seeds) if seeds else [None]
    quiet = not (common.get("engine") or {}).get("progress", True)
    with untouched(), named("fl.compare"):
        equal = budgets(_built(each, repeats[0]), "same" if budget is None else str(budget), WORDS)
    for name, (unit, length) in equal.items():
        each[name] = _lasting(each[name], unit, int(length) if unit == "rounds" else length)
        if not quiet:
            print(f"{name}: {unit}={length:g}, for an equal budget", file=sys.stderr)
    folder = Path(output) if output is not None else new_directory(Path("runs") / "compare")
    runs = {
        run_folder(name, seed): {**arguments, **({} if seed is None else {"seed": seed})}
        for seed in repeats
        for name, arguments in each.items()
    }
    return _all_of(runs, folder, quiet)


def _lasting(arguments: Mapping[str, Any], unit: str, length: float) -> dict[str, Any]:
    """Return the arguments of a method of another length."""
    return {**{name: value for name, value in arguments.items() if name not in ("rounds", "cycles")}, unit: length}


def _built(each: Mapping[str, Mapping[str, Any]], seed: int | None) -> dict[str, Built]:
    """Parse and build every method, so that no mistake waits behind hours of training."""
    built = {}
    for name, arguments in each.items():
        with named(name):
            given = arguments if seed is None else {**arguments, "seed": seed}
            plan = recipe(given, place=Path(".")).plan
            plan.settings.logger = None  # none begins to write yet
            made, told = instantiated(plan), plan.told or {}
            untold = id(given.get("data")) if "data" in told.get("objects", {}) else None
            source = yaml.safe_dump([told["data"], untold])
            built[name] = Built(made.algorithm, made.data, made.seed_everything, source)
    return built


def _all_of(runs: Mapping[str, dict[str, Any]], folder: Path, quiet: bool) -> Runs:
    """Make all runs; raise afterwards what kept some of them from being made."""
    made: dict[str, Run] = {}
    failed: dict[str, Exception] = {}
    turns = Turns(folder, runs, alone=not any(name in os.environ for name in RANKS))
    while turns.left:
        if (name := turns.take()) is None:
            turns.wait(quiet)
            continue
        if not quiet:
            print(f"run {list(runs).index(name) + 1} of {len(runs)}: {folder / name}", file=sys.stderr)
        try:
            made[name] = _run(runs[name], folder / name)
        except Exception as error:
            if turns.alone and isinstance(error, BusyError):
                turns.put_back(name)
                continue
            failed[name] = error
            if not quiet:
                print(f"{name}: {_said(error)}", file=sys.stderr)
    if failed:
        lines = "\n".join(f"  {name}: {_said(error)}" for name, error in failed.items())
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed:\n{lines}\nfl.load reads the others in {folder}; the same call "
            f'with output="{folder}" goes on.'
        ) from next(iter(failed.values()))
    found = Runs([made[name] for name in runs])
    if early := [f"{run.dir.name} ({run.status})" for run in found if run.status != "finished"]:
        warnings.warn(f"{len(early)} of {len(runs)} runs stopped early: {', '.join(early)}", stacklevel=3)
    return found


def _run(arguments: dict[str, Any], run_dir: Path) -> Run:
    """Begin a run or go on with it."""
    if not has_checkpoint(run_dir):
        return fit(**{**arguments, "run_dir": run_dir})
    kept = {name: value for name, value in arguments.items() if name != "start"}  # it has its weights already
    return fit(**{**kept, "run_dir": run_dir, "ckpt": "last"})


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
