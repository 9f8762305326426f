"""What made a run: the code, its libraries, the command and the machine."""

import json
import os
import platform
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

from flcluster import __version__
from flcluster.files import replacing

FILE = "provenance.json"
"""In a run's directory: a list with an entry each time that it began or went on."""


PACKAGE = Path(__file__).parents[1]


def git_state(package: Path = PACKAGE) -> tuple[str, bool] | None:
    """Return the commit of the checkout that the package lies in and whether files differ from it, None without one."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(package), *words], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != package.resolve().parent:  # installed, perhaps below someone else's checkout
        return None
    commit, changed = git("rev-parse", "--short=12", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return commit or "uncommitted", bool(changed)


def code_version(package: Path = PACKAGE) -> str:
    """Return the commit of the checkout that the package lies in, marked if files differ from it; else the version."""
    found = git_state(package)
    return f"version {__version__}" if found is None else f"{found[0]}{'-changed' * found[1]}"


def provenance(command: str, code: str, processes: int) -> dict[str, Any]:
    """Return what a run is made by now; of paths and names of this machine only what the command says.

    Args:
        command: The command line, or what started the run instead of one.
        code: What ``code_version`` says.
        processes: How many processes share the work.
    """
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": command,
        "commit": None if code.startswith("version ") else code.removesuffix("-changed"),
        "uncommitted_changes": code.endswith("-changed"),
        "versions": versions(),
        "machine": {**machine(), "processes": processes},
    }


def versions() -> dict[str, str]:
    """Return the versions of what numbers may depend on."""
    import lightning
    import numpy
    import scipy
    import torch

    libraries = {"torch": torch, "lightning": lightning, "numpy": numpy, "scipy": scipy}
    known = {name: str(library.__version__) for name, library in libraries.items()}
    cuda = {"cuda": str(torch.version.cuda)} if torch.version.cuda else {}
    return {"flcluster": __version__, "python": platform.python_version(), **known, **cuda}


def machine() -> dict[str, Any]:
    """Return what kind of machine this is; not which one."""
    import torch

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def _cpu(path: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name, as far as the system tells."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or "unknown"


def read_provenance(run_dir: Path) -> list[dict[str, Any]]:
    """Return all that made a run, its beginning first; nothing if that is not there or cannot be read."""
    try:
        told = json.loads((run_dir / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []


def add_provenance(run_dir: Path, told: dict[str, Any]) -> None:
    """Add an entry to a run's file."""
    path, before = run_dir / FILE, read_provenance(run_dir)
    if not before and path.exists():
        warnings.warn(f"{path} cannot be read: what made this run so far is forgotten", stacklevel=2)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps([*before, told], indent=2) + "\n", encoding="utf-8")
