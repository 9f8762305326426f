"""``fl.compare``: several methods on the same data, one after the other in this process."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from flcluster.engine.resume import named_after, new_directory
from flcluster.errors import UserError
from flcluster.files import has_checkpoint, slug
from flcluster.protocol.base import Algorithm
from flcluster.script.fitting import Named, fit
from flcluster.script.runs import Run, Runs

Method = Algorithm[Any] | Named | Path


def compare(
    methods: Mapping[str, Method] | Iterable[Method | Mapping[str, Method]],
    *,
    seeds: Sequence[int] | None = None,
    output: str | Path | None = None,
    **common: Any,
) -> Runs:
    """Run several methods or configs, once per seed, and return the runs; ``.table()`` prints them side by side.

    Called again with the same ``output`` it goes on where it stopped.

    Args:
        methods: Methods by name, ``{"gentle": CDFL(beta0=0.1), "local": "Local"}``; or a list of such, of methods, or
            of paths of configs, which are then called by their class or file.
        seeds: Seeds to repeat with.
        output: Folder of the runs; default runs/compare/<time>.
        **common: What every run has: the other arguments of ``fit``.
    """
    if "run_dir" in common or "ckpt" in common:
        raise UserError("compare makes a directory per run: give output=… instead of run_dir and ckpt")
    jobs = _jobs(methods)
    folder = Path(output) if output is not None else new_directory(Path("runs") / "compare")
    quiet = not (common.get("engine") or {}).get("progress", True)
    repeats: list[int | None] = list(seeds) if seeds else [None]
    runs: list[Run] = []
    for seed, (name, arguments) in product(repeats, jobs.items()):
        run_dir = folder / (slug(name) if seed is None else f"{slug(name)}-seed{seed}")
        if not quiet:
            print(f"run {len(runs) + 1} of {len(jobs) * len(repeats)}: {run_dir}", file=sys.stderr)
        ckpt = "last" if has_checkpoint(run_dir) else None
        own = {**arguments, "run_dir": run_dir, "ckpt": ckpt, **({} if seed is None else {"seed": seed})}
        runs.append(fit(**{**common, **own}))
    return Runs(runs)


def _jobs(methods: Mapping[str, Method] | Iterable[Method | Mapping[str, Method]]) -> dict[str, dict[str, Any]]:
    """Return what sets each run apart by the run's name."""
    if isinstance(methods, str):
        methods = [methods]
    pairs: list[tuple[str, Method]] = []
    for each in [methods] if isinstance(methods, Mapping) else methods:
        if isinstance(each, Mapping) and "class_path" not in each:
            pairs += each.items()
        else:
            pairs.append((_name(each), each))
    twice = [name for i, (name, _) in enumerate(pairs) if name in [other for other, _ in pairs[:i]]]
    if twice:
        raise UserError(f'two methods are called {twice[0]}: name them, {{"one": …, "other": …}}')
    return {name: {"config": each} if _is_config(each) else {"algorithm": each} for name, each in pairs}


def _is_config(method: Any) -> bool:
    return isinstance(method, Path) or (isinstance(method, str) and method.endswith((".yaml", ".yml")))


def _name(method: Any) -> str:
    if _is_config(method):
        return named_after(Path(method))
    named = method["class_path"] if isinstance(method, Mapping) else method
    kind = named if isinstance(named, str) else (named if isinstance(named, type) else type(named)).__name__
    return kind.rpartition(".")[2]
