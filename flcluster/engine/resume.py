"""Where a run lives, and going on with one: what may change and what may not."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace

from flcluster.errors import UserError
from flcluster.federation.ranks import is_main_process
from flcluster.records.configuration import flat

MAY_CHANGE = (
    r"run_dir|ckpt_path|logger(\..*)?|engine\.(?!session|threads).*|fabric\.(accelerator|devices|num_nodes|strategy)"
    r"|algorithm\.init_args\.(cycles|rounds)"
)


AUTO = "auto"
"""As ``ckpt_path``: the last checkpoint where there is one, else from the start."""


def option(argv: list[str], name: str) -> list[str]:
    """Return the values of an option as given on the command line, before any parsing."""
    found = [b for a, b in pairwise(argv) if a == f"--{name}"]
    return found + [a.split("=", 1)[1] for a in argv if a.startswith(f"--{name}=")]


def free_directory(settings: Namespace, argv: list[str]) -> Path:
    """Return where a new run goes: where it is told to, if no run is there, or a new directory."""
    if settings.ckpt_path not in (None, AUTO):
        raise UserError("ckpt_path belongs on the command line: --run_dir DIR --ckpt_path last")
    if settings.run_dir is None:
        configs = option(argv, "config")
        return new_directory(Path("runs") / (named_after(Path(configs[-1])) if configs else "fit"))
    run_dir = Path(settings.run_dir)
    if (run_dir / "checkpoints" / "last.ckpt").exists() or (run_dir / "summary.json").exists():
        raise UserError(f"run_dir {run_dir} already holds a run: go on with it (--ckpt_path last), or name another one")
    return run_dir


def resumed(argv: list[str]) -> tuple[Path | None, Path | None]:
    """Return (run directory, checkpoint) as far as the command line names them."""
    run_dirs, paths = option(argv, "run_dir"), option(argv, "ckpt_path")
    run_dir = Path(run_dirs[-1]) if run_dirs else None
    if not paths or paths[-1] in ("null", ""):
        return run_dir, None
    if paths[-1] in ("last", AUTO):
        if run_dir is None:
            raise UserError(f"--ckpt_path {paths[-1]} needs --run_dir DIR, the run to go on with")
        last = run_dir / "checkpoints" / "last.ckpt"
        return run_dir, last if paths[-1] == "last" or last.exists() else None
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
            path.mkdir(parents=True)
            return path
        except FileExistsError:  # another run began in this second
            continue
    raise AssertionError("unreachable")


@contextmanager
def tidy(run_dir: Path) -> Iterator[None]:
    """Leave no empty directory behind where a run was refused before it wrote anything."""
    try:
        yield
    except UserError:
        with suppress(OSError):
            run_dir.rmdir()
        raise


def refuse_objects(tree: Any, config: Path) -> None:
    """Refuse a config.yaml that cannot be read back, because a script handed objects over that no file can tell."""
    if isinstance(tree, dict) and tree.get("objects"):
        untold = "; ".join(f"{name}: {why}" for name, why in tree["objects"].items())
        raise UserError(
            f"{config} is of a run of a script, and not all of it can be told in a file ({untold}). "
            f'Go on with it in Python: fl.fit(…, run_dir="{config.parent}", ckpt="last") with the same objects'
        )


def refuse_changes(now: dict[str, Any], then_path: Path) -> None:
    """Refuse to go on with settings other than a run began with, but for those that cannot change a result."""
    a, b = flat(now), flat(yaml.safe_load(then_path.read_text()))
    changed = sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k) and not re.fullmatch(MAY_CHANGE, k))
    if changed:
        lines = "\n".join(f"  {k}: {b.get(k)!r} -> {a.get(k)!r}" for k in changed)
        raise UserError(
            f"a resumed run keeps its settings, but these differ from {then_path}:\n{lines}\n"
            "Only the length, devices, engine settings and loggers may change; start a new run for anything else."
        )
