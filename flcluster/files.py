"""Files that are there whole or not at all, and names for them."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

LAST = "last.ckpt"
PREVIOUS = "previous.ckpt"


def last_checkpoint(run: Path) -> Path:
    """Return where a run's checkpoint lies."""
    return run / "checkpoints" / LAST


def has_checkpoint(run: Path) -> bool:
    """Say whether there is one that a run can go on from."""
    return last_checkpoint(run).exists() or last_checkpoint(run).with_name(PREVIOUS).exists()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; what is written there takes its place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def slug(name: str) -> str:
    """Return a name that is safe in a path.

    >>> slug("FedYogi + FIELDING")
    'FedYogi_FIELDING'
    """
    return re.sub(r"[^\w.-]+", "_", name).strip("_")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_config(path: Path, config: dict[str, Any]) -> None:
    """Write the resolved configuration whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
