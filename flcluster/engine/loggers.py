"""Lightning's loggers in a federated run: where they write, which W&B run they continue, what they plot against."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.loggers import WandbLogger

from flcluster.records.configuration import key_of_settings

KEPT = ("summary.json", "metrics.csv", "clients.csv", "config.yaml", "provenance.json")
"""Files of a run's directory that go into its W&B artifact."""


def prepare_loggers(
    settings: Namespace, run_dir: Path, ids: dict[str, str], config: Mapping[str, Any]
) -> dict[str, str]:
    """Fill in what a run knows better than its configuration; returns the ids to keep in checkpoints.

    A ``save_dir`` of "." means the run directory. A W&B logger gets an id, so that a resumed run continues it; a sweep
    agent has chosen one already. Its run is called by method, data and seed, and grouped with its repeats, unless the
    configuration or W&B's environment says otherwise.
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
            _name(arguments, config)
    return kept


def _name(arguments: Namespace, config: Mapping[str, Any]) -> None:
    """Name a W&B run, and its group by all that repeats have in common."""
    kinds = [str(config[part]["class_path"]).rpartition(".")[2] for part in ("algorithm", "data")]
    told = " ".join(kinds)
    if arguments.get("name") is None and "WANDB_NAME" not in os.environ:
        arguments.name = f"{told} seed={config['seed_everything']}"
    if arguments.get("group") is None and "WANDB_RUN_GROUP" not in os.environ:
        arguments.group = f"{told} {key_of_settings(config)}"


def start_loggers(loggers: Sequence[Any], config: dict[str, Any]) -> Sequence[Any]:
    """Send the resolved configuration, and plot W&B's charts against client updates."""
    for logger in loggers:
        logger.log_hyperparams(config)
        if isinstance(logger, WandbLogger):
            logger.experiment.define_metric("update")
            logger.experiment.define_metric("*", step_metric="update")
    return loggers


def finish_logger(logger: Any, summary: dict[str, Any], run_dir: Path) -> None:
    """Hand over the final numbers and the files that hold them, and close."""
    if isinstance(logger, WandbLogger):
        logger.experiment.summary.update(summary)
        _keep(logger, "run", [run_dir / name for name in KEPT])
    logger.finalize("success")


def keep_pictures(loggers: Sequence[Any], pictures: Sequence[Path]) -> None:
    """Show pictures that were drawn after a run in its W&B run, and keep them as an artifact."""
    for logger in loggers:
        if isinstance(logger, WandbLogger) and pictures:
            import wandb

            logger.experiment.log({f"pictures/{path.stem}": wandb.Image(str(path)) for path in pictures})
            _keep(logger, "pictures", pictures)


def _keep(logger: WandbLogger, kind: str, paths: Sequence[Path]) -> None:
    import wandb

    artifact = wandb.Artifact(f"{kind}-{logger.experiment.id}", type=kind)
    for path in paths:
        if path.exists():
            artifact.add_file(str(path))
    logger.experiment.log_artifact(artifact)
