"""Checkpoints: plain dicts of tensors and primitives, written to a temporary name and renamed."""

from pathlib import Path
from typing import Any

import torch

from flcluster.errors import UserError
from flcluster.files import replacing

VERSION = 2
"""Of what a checkpoint holds; others are refused."""


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint so that a crash at any moment leaves either the old one or the new one."""
    with replacing(path) as temporary:
        torch.save({"version": VERSION, **content}, temporary)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in it can run code."""
    if not path.exists():
        raise UserError(f"no checkpoint at {path}: give a run directory that has one, or start a new run")
    try:
        content: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise UserError(f"{path} is not a readable checkpoint ({type(error).__name__}); it may be cut short") from error
    if not isinstance(content, dict) or "version" not in content:
        raise UserError(f"{path} is not a flcluster checkpoint")
    if content["version"] != VERSION:
        raise UserError(
            f"{path} is a checkpoint of version {content['version']}, and this flcluster reads version {VERSION}: "
            "go on with the flcluster that wrote it (summary.json has its commit), or start a new run"
        )
    return content
