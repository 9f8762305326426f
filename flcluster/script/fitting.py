"""``fl.fit``: one run from a script or a notebook."""

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning import LightningModule

from flcluster.data import FederatedDataModule
from flcluster.engine.fit import build, elsewhere, fabric_of
from flcluster.engine.fit import fit as run_to_end
from flcluster.engine.process import exit_code
from flcluster.engine.progress import in_notebook
from flcluster.engine.resume import claimed, tidy
from flcluster.engine.run import Experiment
from flcluster.engine.start import start_from
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.script.recipe import recipe
from flcluster.script.runs import Run
from flcluster.script.untouched import untouched

GO_ON, UNLIMITED = 'fl.fit(…, run_dir="{run_dir}", ckpt="last"{unlimited})', ', engine={"max_updates": None}'
"""What goes on with a run, and what that needs besides where ``engine.max_updates`` stopped it."""

Named = str | type | Mapping[str, Any]
"""A class: by name, itself, or with its settings as ``{"class_path": …, "init_args": {…}}``."""


def fit(
    data: FederatedDataModule | Named | None = None,
    model: LightningModule | Named | None = None,
    algorithm: Algorithm[Any] | Named | None = None,
    *,
    config: str | Path | None = None,
    rounds: int | None = None,
    cycles: float | None = None,
    seed: int | None = None,
    run_dir: str | Path | None = None,
    ckpt: str | Path | None = None,
    start: str | Path | Mapping[str, Any] | LightningModule | None = None,
    engine: Mapping[str, Any] | None = None,
    fabric: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    trainer_callbacks: Sequence[Any] | None = None,
    logger: Any = None,
) -> Run:
    """Run one method on one federated dataset and return the run.

    Nothing global of the process is changed: random generators, threads, signal handlers, environment and so on are
    afterwards as before. Mistakes are a ``UserError``. Ctrl-C writes a checkpoint and is then raised as
    ``KeyboardInterrupt``; SIGTERM does the same and is then the script's again. A second Ctrl-C interrupts at once.

    Args:
        data: A datamodule, or the name of its class.
        model: A LightningModule, or the name of its class; a name needs no classes and input shape: the data have them.
            An object is copied, and its weights are kept in the run's directory.
        algorithm: A method, or the name of its class.
        config: A YAML file that the other arguments are laid over.
        rounds: Length of a method in rounds.
        cycles: Length of a method of uploads, per client.
        seed: Seed of all draws, those of the data too; default that of the data.
        run_dir: Where the run lives; default runs/fit/<time>.
        ckpt: "last" or a checkpoint, to go on with the run in ``run_dir``; what was given as an object is given again.
        start: Weights of the first models: a checkpoint's path, a state dict or a module.
        engine: Settings of the engine by name, e.g. ``{"progress": False}``; nothing is printed or drawn at the end.
        fabric: Settings of Fabric by name, e.g. ``{"devices": 2}``: processes are made for the run and end with it.
        callbacks: Hooks.
        trainer: Arguments of each local training's Trainer, e.g. ``{"gradient_clip_val": 1.0}``.
        trainer_callbacks: Lightning callbacks; each local training has copies of its own.
        logger: One Lightning logger or several.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    with untouched():
        made = recipe(given)
        with tidy(made.plan.run_dir), claimed(made.plan.run_dir, new=made.plan.checkpoint is None):
            command = f"fl.fit in {Path(sys.argv[0]).name or 'Python'}"
            exp = replace(build(made.plan), start=made.start, go_on=GO_ON, unlimited=UNLIMITED, command=command)
            if made.start is not None and not isinstance(model, LightningModule):
                start_from(exp.model, made.start, "start")
            place(exp)
            summary = run_to_end(exp)
    code = exit_code(summary["status"])
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt(f"{summary['status']}; go on with {exp.how_to_go_on('')}")
    if code:
        signal.raise_signal(signal.Signals(code - 128))
    return replace(
        Run.load(exp.run_dir),
        data=exp.data if isinstance(data, FederatedDataModule) else None,
        module=exp.model if isinstance(model, LightningModule) else None,
        algorithm=exp.algorithm if isinstance(algorithm, Algorithm) else None,
    )


def place(exp: Experiment) -> None:
    """Choose how several processes are started: made for the run, or by torchrun or SLURM; never in a notebook."""
    refused = (
        f"fabric.devices={exp.fabric.devices} in a notebook or an interactive session: other processes cannot see its "
        "cells; take one device here, or run the same lines as a script: python FILE.py"
    )
    interactive = hasattr(sys, "ps1") or in_notebook()
    try:
        fabric = fabric_of(exp)
    except UserError as error:
        raise UserError(refused) if interactive and "interactive" in str(error) else error from None
    environment = getattr(fabric.strategy, "cluster_environment", None)
    if fabric.world_size == 1 or getattr(environment, "creates_processes_externally", False):
        return
    if interactive:
        raise UserError(refused)
    if exp.fabric.strategy == "auto":
        exp.fabric.strategy = "ddp_spawn"
    elif not elsewhere(exp.fabric):
        raise UserError(
            f"fabric.strategy={exp.fabric.strategy} would start the whole script again in every process: take "
            "ddp_spawn (the default) or ddp_fork, or start the script with torchrun"
        )
