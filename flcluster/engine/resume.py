"""Where a run lives, and going on with one: what may change and what may not."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace

from flcluster.engine.arguments import option
from flcluster.engine.process import is_main_process
from flcluster.engine.processes.lock import BEAT, LEASE, held
from flcluster.errors import BusyError, UserError, writing
from flcluster.files import has_checkpoint, last_checkpoint
from flcluster.records.configuration import flat

MAY_CHANGE = (
    r"run_dir|ckpt_path|logger(\..*)?|engine\.(?!session|threads|together|metric).*"
    r"|fabric\.(accelerator|devices|num_nodes|strategy)"
)
LENGTH = r"algorithm\.init_args\.(cycles|rounds)"


def free_directory(settings: Namespace, argv: list[str]) -> Path:
    """Return where a new run goes: where it is told to, if no run is there, or a new directory."""
    if settings.ckpt_path not in (None, "auto"):
        raise UserError("ckpt_path belongs on the command line: --run_dir DIR --ckpt_path last")
    if settings.run_dir is None:
        configs = option(argv, "config")
        return new_directory(Path("runs") / (named_after(Path(configs[-1])) if configs else "fit"))
    run_dir = Path(settings.run_dir)
    refuse_taken(run_dir, looked=settings.ckpt_path == "auto")
    return run_dir


def refuse_taken(run_dir: Path, looked: bool) -> None:
    """Refuse to begin a run where one is; where none was when one ``looked``, another process was quicker."""
    if looked and has_checkpoint(run_dir):
        raise BusyError(f"another process has just begun the run in {run_dir}: go on with it (--ckpt_path last)")
    if has_checkpoint(run_dir) or (run_dir / "summary.json").exists():
        raise UserError(f"run_dir {run_dir} already holds a run: go on with it (--ckpt_path last), or name another one")


def resumed(argv: list[str]) -> tuple[Path | None, Path | None]:
    """Return (run directory, checkpoint) as far as the command line names them."""
    run_dirs, paths = option(argv, "run_dir"), option(argv, "ckpt_path")
    run_dir = Path(run_dirs[-1]) if run_dirs else None
    if not paths or paths[-1] in ("null", ""):
        return run_dir, None
    if paths[-1] in ("last", "auto"):
        if run_dir is None:
            raise UserError(f"--ckpt_path {paths[-1]} needs --run_dir DIR, the run to go on with")
        begun = paths[-1] == "last" or has_checkpoint(run_dir)
        return run_dir, last_checkpoint(run_dir) if begun else None
    path = Path(paths[-1])
    home = path.resolve().parent.parent
    if run_dir is not None and run_dir.resolve() != home:
        raise UserError(f"--ckpt_path {path} belongs to the run in {home}, not to --run_dir {run_dir}")
    return run_dir or path.parent.parent, path


def config_of(run_dir: Path | None) -> Path:
    """Return the file that a run's settings were written to when it started."""
    path = (run_dir or Path(".")) / "config.yaml"
    if not path.exists():
        raise UserError(f"{path} is missing: it is written when a run starts, and a resumed run needs it")
    return path


def named_after(config: Path) -> str:
    """Return what to call the runs of a config or a study: its name, behind that of its folder if this has studies.

    So configs/dfca/digits.yaml gives dfca_digits, configs/dfca/studies/table1.yaml dfca_table1.
    """
    folder = config.parent.parent if config.parent.name == "studies" else config.parent
    return f"{folder.name}_{config.stem}" if folder.name and (folder / "studies").is_dir() else config.stem


def new_directory(base: Path) -> Path:
    """Make a directory that did not exist (other ranks only name one: rank 0 tells them which)."""
    stamp = base / time.strftime("%Y%m%d-%H%M%S")
    for i in count():
        path = stamp if i == 0 else stamp.with_name(f"{stamp.name}-{i}")
        if not is_main_process():
            return path
        try:
            with writing(path):
                path.mkdir(parents=True)
            return path
        except FileExistsError:  # another run began in this second
            continue
    raise AssertionError("unreachable")


RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
"""What says how often a scheduler has started this again, perhaps on another machine than before."""

RESTARTED = LEASE + 2 * BEAT
"""Seconds to wait then until a machine that is gone no longer counts as the holder of the run's directory."""


@contextmanager
def claimed(run_dir: Path, new: bool) -> Iterator[None]:
    """Have a run's directory for this run alone while the block runs; other ranks leave that to the first."""
    if not is_main_process():
        yield
        return
    with held(run_dir, wait=RESTARTED if any(os.environ.get(name, "0") != "0" for name in RESTARTS) else 0.0):
        if new:
            refuse_taken(run_dir, looked=True)
        clear(run_dir)
        yield


def clear(run_dir: Path) -> None:
    """Remove what killed processes left half-written."""
    for folder in (run_dir, run_dir / "checkpoints", run_dir / "bank"):
        for path in folder.glob("*.tmp"):
            path.unlink(missing_ok=True)
    for path in (run_dir / "bank").glob("tmp*/"):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def tidy(run_dir: Path) -> Iterator[None]:
    """Leave no empty directory behind where a run was refused before it wrote anything."""
    try:
        yield
    except UserError:
        with suppress(OSError):
            run_dir.rmdir()
        raise


def refuse_changes(now: dict[str, Any], then: dict[str, Any], source: Path) -> None:
    """Refuse to go on with settings other than a run began with, but for those that cannot change a result."""
    a, b = flat(now), flat(then)
    if changed := [key for key in _changed(now, then) if not re.fullmatch(LENGTH, key)]:
        lines = "\n".join(f"  {k}: {b.get(k)!r} -> {a.get(k)!r}" for k in changed)
        raise UserError(
            f"a resumed run keeps its settings, but these differ from {source}:\n{lines}\n"
            "Only the length, devices, engine settings (but session, threads, together, metric) and loggers may "
            "change; start a new run for anything else."
        )


def _changed(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    """Return the keys in which settings differ that can change a result."""
    a, b = flat(now), flat(then)
    return sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k) and not re.fullmatch(MAY_CHANGE, k))


def came_to_its_end(run_dir: Path) -> bool:
    """Say whether a run finished, and has not been begun anew (say, for longer) since it did."""
    summary, config = run_dir / "summary.json", run_dir / "config.yaml"
    try:
        finished = json.loads(summary.read_text(encoding="utf-8"))["status"] == "finished"
        return finished and summary.stat().st_mtime_ns >= config.stat().st_mtime_ns
    except (OSError, ValueError, KeyError, TypeError):
        return False


def is_whole(run_dir: Path, now: dict[str, Any]) -> bool:
    """Say whether a run with these settings and this length is finished, so that there is nothing to go on with."""
    if not came_to_its_end(run_dir):
        return False
    then = yaml.safe_load(config_of(run_dir).read_text(encoding="utf-8"))
    return not _changed(now, then)
