"""The checkpoint that a run goes on from: the last one, or, where that is damaged, the one before it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flcluster.federation.bank import Bank
from flcluster.files import LAST, PREVIOUS
from flcluster.records.checkpoint import DamagedError, load_checkpoint


@dataclass(frozen=True)
class Restored:
    """A checkpoint that a run goes on from."""

    content: dict[str, Any]
    path: Path
    note: str | None = None
    """Why it is not the last one."""


def restored(path: Path) -> Restored:
    """Read a checkpoint and check the rows it needs; where the last one is damaged, take the one before it."""
    before = path.with_name(PREVIOUS)
    try:
        return Restored(_whole(path), path)
    except DamagedError as error:
        if path.name != LAST or not before.exists():
            raise
        content = _whole(before)
        return Restored(content, before, f"{error}: going on from {before}, {content['position']} steps into the run")


def _whole(path: Path) -> dict[str, Any]:
    """Read a checkpoint; if it, or a row that it needs, is not as it was written, say so."""
    if path.name == LAST and not path.exists() and path.with_name(PREVIOUS).exists():
        raise DamagedError(f"{path} is missing")
    content = load_checkpoint(path)
    if why := Bank.damage(path.parent.parent / "bank", content["bank"]):
        raise DamagedError(f"{why}, and {path} needs it")
    return content
