"""Lightning's loggers in a federated run: where they write, which W&B run they continue, what they plot against."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.loggers import WandbLogger


def prepare_loggers(settings: Namespace, run_dir: Path, ids: dict[str, str]) -> dict[str, str]:
    """Fill in what a run knows better than its configuration; returns the ids to keep in checkpoints.

    A ``save_dir`` of "." means the run directory. A W&B logger gets an id, so that a resumed run continues it; a sweep
    agent has chosen one already.
    """
    given = settings.get("logger")
    kept = dict(ids)
    for entry in given if isinstance(given, list) else [given] if given else []:
        if not isinstance(entry, Namespace):  # a script's own object
            continue
        arguments = entry.init_args
        if "save_dir" in arguments and arguments.save_dir in (None, "."):
            arguments.save_dir = str(run_dir)
        if entry.class_path.endswith("WandbLogger"):
            chosen = arguments.get("id") or os.environ.get("WANDB_RUN_ID")
            kept["wandb"] = kept.get("wandb") or chosen or f"fl{secrets.token_hex(4)}"
            arguments.id, arguments.resume = kept["wandb"], "allow"
    return kept


def start_loggers(loggers: Sequence[Any], config: dict[str, Any]) -> Sequence[Any]:
    """Send the resolved configuration, and plot W&B's charts against client updates."""
    for logger in loggers:
        logger.log_hyperparams(config)
        if isinstance(logger, WandbLogger):
            logger.experiment.define_metric("update")
            logger.experiment.define_metric("*", step_metric="update")
    return loggers


def finish_logger(logger: Any, summary: dict[str, Any]) -> None:
    """Hand over the final numbers and close."""
    if isinstance(logger, WandbLogger):
        logger.experiment.summary.update(summary)
    logger.finalize("success")
