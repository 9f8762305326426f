"""Weights that a run starts from: a checkpoint of one's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flcluster.errors import UserError
from flcluster.files import replacing
from flcluster.records.tensors import save

START = "start.ckpt"
"""In a run's directory: the weights it started from, where a script handed them over and no file had them."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights of a Lightning checkpoint, or a plain state dict; nothing in the file can run code."""
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise UserError(f"model_start: {path} is missing") from None
    except Exception as error:
        raise UserError(
            f"model_start: {path} cannot be read as weights alone ({type(error).__name__}): write them with "
            "torch.save(model.state_dict(), PATH)"
        ) from error
    return weights_of(content, str(path))


def weights_of(content: Any, name: str) -> dict[str, Tensor]:
    """Return the tensors of a Lightning checkpoint or a state dict by name."""
    found = content.get("state_dict", content) if isinstance(content, Mapping) else None
    if not found or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"model_start: {name} has no weights: give a Lightning checkpoint or a state dict")
    return dict(found)


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write weights whole or not at all."""
    with replacing(path) as temporary:
        save({"state_dict": dict(weights)}, temporary)


def start_from(module: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Load weights into a module; all of them must fit."""
    have = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in weights.items()}
    unlike = sorted(key for key in have.keys() | given.keys() if have.get(key) != given.get(key))
    if unlike:
        shown = ", ".join(f"{key} (model {have.get(key)}, file {given.get(key)})" for key in unlike[:3])
        more = f" and {len(unlike) - 3} more" if len(unlike) > 3 else ""
        raise UserError(f"model_start: {name} does not fit {type(module).__name__}: {shown}{more}")
    module.load_state_dict(weights)


def where_from(path: str, run_dir: Path | None) -> Path:
    """Return the file of a run's first weights; a run that goes on finds its own also where it was moved to."""
    own = run_dir / Path(path).name if run_dir is not None else None
    return own if own is not None and own.exists() else Path(path)
