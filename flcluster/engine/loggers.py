"""Lightning's loggers in a federated run: where they write, which W&B run they continue, what they plot against."""

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.loggers import WandbLogger

from flcluster.records.configuration import key_of_settings
from flcluster.records.masked import hiding

KEPT = ("summary.json", "metrics.csv", "clients.csv", "config.yaml", "provenance.json")
"""Files of a run's directory that go into its W&B artifact."""

Note = Callable[[str], None]
"""Says something to the user."""


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


class Loggers:
    """A run's loggers. One that fails is named once and switched off: it is no reason to end a run.

    Args:
        made: The loggers.
        notes: What is to be said of those that could not be made.
        secrets: What is taken out of what a logger says.
    """

    def __init__(self, made: Iterable[Any] = (), notes: Iterable[str] = (), secrets: Sequence[str] = ()) -> None:
        self.made, self.notes, self.secrets = list(made), list(notes), secrets

    def start(self, config: dict[str, Any], note: Note) -> None:
        """Send the resolved configuration, and plot W&B's charts against client updates."""
        for told in self.notes:
            note(told)
        with _typed(hiding(self.secrets)):
            self._each("at its start", lambda logger: _start(logger, config), note)

    def log(self, row: dict[str, float], step: int, note: Note) -> None:
        """Hand over a row of metrics."""
        self._each("as it took in numbers", lambda logger: logger.log_metrics(row, step=step), note)

    def finish(self, summary: dict[str, Any], run_dir: Path, note: Note) -> None:
        """Hand over the final numbers and the files that hold them, and close."""
        self._each("at its end", lambda logger: _finish(logger, summary, run_dir), note)

    def keep_pictures(self, pictures: Sequence[Path], note: Note) -> None:
        """Show pictures that were drawn after a run in its W&B run, and keep them as an artifact."""
        self._each("as it took in pictures", lambda logger: _keep_pictures(logger, pictures), note)

    def _each(self, when: str, call: Callable[[Any], None], note: Note) -> None:
        for logger in list(self.made):
            try:
                call(logger)
            except (Exception, SystemExit) as error:
                self.made.remove(logger)
                note(switched_off(type(logger).__name__, when, error, self.secrets))


def switched_off(name: str, when: str, error: BaseException, secrets: Sequence[str]) -> str:
    """Say that a logger has failed."""
    lines = str(error).strip().splitlines()
    why = hiding(secrets)(f"{type(error).__name__}{': ' if lines else ''}{lines[0] if lines else ''}"[:300])
    return f"the logger {name} failed {when} ({why}): it is switched off, and the run goes on"


@contextmanager
def _typed(hide: Callable[[str], str]) -> Iterator[None]:
    """Let loggers that keep the command line see it without secrets."""
    typed = sys.argv
    sys.argv = [hide(word) for word in typed]
    for at, word in enumerate(typed[:-1]):  # a flag and its value are two words
        sys.argv[at : at + 2] = (
            hide(f"{word} {typed[at + 1]}").split(" ", 1) if word.startswith("--") else sys.argv[at : at + 2]
        )
    try:
        yield
    finally:
        sys.argv = typed


def _start(logger: Any, config: dict[str, Any]) -> None:
    logger.log_hyperparams(config)
    if isinstance(logger, WandbLogger):
        logger.experiment.define_metric("update")
        logger.experiment.define_metric("*", step_metric="update")


def _finish(logger: Any, summary: dict[str, Any], run_dir: Path) -> None:
    if isinstance(logger, WandbLogger):
        logger.experiment.summary.update(summary)
        _keep(logger, "run", [run_dir / name for name in KEPT])
    logger.finalize("success")


def _keep_pictures(logger: Any, pictures: Sequence[Path]) -> None:
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
