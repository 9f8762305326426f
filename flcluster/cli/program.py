"""How to start flcluster once more, as a process of its own."""

import sys
from pathlib import Path

import flcluster


def program() -> list[str]:
    """Return the command that starts this flcluster, whatever the working directory holds.

    ``python -m flcluster`` looks for it in the working directory first, where a folder called flcluster, say the one
    that the repository was cloned into, would be taken for it. So the file itself is run; only who began with ``-m``,
    and may count on modules of the working directory, goes on with it.
    """
    begun = getattr(sys.modules["__main__"], "__spec__", None)
    if begun is not None and begun.name in ("flcluster", "flcluster.__main__"):
        return [sys.executable, "-m", "flcluster"]
    return [sys.executable, str(Path(flcluster.__file__).with_name("__main__.py"))]
