"""Checkpoints: plain dicts of tensors and primitives, sealed, written to a temporary name and renamed."""

import os
from pathlib import Path
from typing import Any

import torch

from flcluster.errors import UserError
from flcluster.files import PREVIOUS, last_checkpoint, replacing
from flcluster.records.seal import is_whole, seal
from flcluster.records.tensors import save

VERSION = 3
"""Of what a checkpoint holds."""

READS = (2, 3)
"""Versions that can be read; 2 had no seal."""


class DamagedError(UserError):
    """A file that a run goes on from is not as it was written."""


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint so that a crash at any moment leaves either the old one or the new one.

    The old one stays beside it as previous.ckpt.
    """
    with replacing(path) as temporary:
        save({"version": VERSION, **content}, temporary)
        seal(temporary)
        if path.exists():
            keep(path, path.with_name(PREVIOUS))


def saved_position(run: Path) -> int | None:
    """Return how far a run's last checkpoint is, without reading its tensors; None if that cannot be read."""
    path = last_checkpoint(run)
    try:
        found = torch.load(path if path.exists() else path.with_name(PREVIOUS), mmap=True, weights_only=True)
        return int(found["position"])
    except Exception:  # whatever is wrong with it will be said when it is read
        return None


def keep(path: Path, name: Path) -> None:
    """Give a file a second name, in place of what had that name before."""
    with replacing(name) as temporary:
        try:
            os.link(path, temporary)
        except OSError:  # a file system without links
            temporary.write_bytes(path.read_bytes())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in it can run code, and a damaged one is refused."""
    if not path.exists():
        raise UserError(f"no checkpoint at {path}: give a run directory that has one, or start a new run")
    whole = is_whole(path)
    if whole is False:
        raise DamagedError(f"{path} is damaged, or no checkpoint at all")
    try:
        content: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise UserError(f"{path} is not a readable checkpoint ({type(error).__name__}); it may be cut short") from error
    if not isinstance(content, dict) or "version" not in content:
        raise UserError(f"{path} is not a flcluster checkpoint")
    if content["version"] not in READS:
        raise UserError(
            f"{path} is a checkpoint of version {content['version']}, and this flcluster reads version {VERSION}: "
            "go on with the flcluster that wrote it (summary.json has its commit), or start a new run"
        )
    if content["version"] >= 3 and whole is None:
        raise DamagedError(f"{path} is damaged: its seal is gone")
    return content
