"""Which code a run was made by."""

import subprocess
from pathlib import Path

from flcluster import __version__


def code_version(package: Path = Path(__file__).parents[1]) -> str:
    """Return the commit of the checkout that the package lies in, marked if files differ from it; else the version."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(package), *words], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != package.resolve().parent:  # installed, perhaps below someone else's checkout
        return f"version {__version__}"
    commit, changed = git("rev-parse", "--short=12", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return f"{commit or 'uncommitted'}{'-changed' if changed else ''}"
