"""One run from its plan: build what is configured, start the processes, drive, finish."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning.fabric import Fabric
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from flcluster.engine.arguments import FabricConfig
from flcluster.engine.config import Plan
from flcluster.engine.loggers import prepare_loggers
from flcluster.engine.messages.built import memory_told, refused_by
from flcluster.engine.messages.values import refuse_fields, refuse_trainer, refuse_unfit
from flcluster.engine.process import (
    Interrupt,
    end_with_parent,
    hand_on,
    keep_freed_memory,
    spared,
    tell_children_their_parent,
)
from flcluster.engine.restored import restored
from flcluster.engine.resume import refuse_changes
from flcluster.engine.run import ActiveRun, Experiment
from flcluster.engine.start import read_weights, start_from, where_from
from flcluster.engine.threads import operations_of, share_of, threads_of, warning
from flcluster.errors import UserError, at_least
from flcluster.federation.extras import Extras
from flcluster.files import has_checkpoint
from flcluster.seeds import torch_seed

PARTS = ("data", "model", "algorithm", "logger", "callbacks", "trainer_callbacks")
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")


def build(plan: Plan) -> Experiment:
    """Instantiate what a plan names. No data is read yet."""
    taken_up = restored(plan.checkpoint) if plan.checkpoint else None
    content = taken_up.content if taken_up else None
    config = plan.config  # before the loggers are told what is this run's alone
    if taken_up and "config" in taken_up.content:
        refuse_changes(config, taken_up.content["config"], taken_up.path)
    ids = prepare_loggers(plan.settings, plan.run_dir, content["logger_ids"] if content else {}, config)
    made = instantiated(plan)
    loggers = made.logger if isinstance(made.logger, list) else [made.logger] if made.logger else []
    return Experiment(
        seed=made.seed_everything,
        fabric=made.fabric,
        engine=made.engine,
        data=made.data,
        model=made.model,
        algorithm=made.algorithm,
        config=config,
        run_dir=plan.run_dir,
        loggers=loggers,
        callbacks=made.callbacks or [],
        extras=Extras(made.trainer or {}, made.trainer_callbacks or ()),
        restored=taken_up,
        logger_ids=ids,
        command=plan.command,
    )


def instantiated(plan: Plan) -> Namespace:
    """Build the configured objects; what their constructors refuse is the user's to fix."""
    at_least("seed_everything", plan.settings.seed_everything, 0, prefix="")
    refuse_trainer(plan.settings.trainer or {})
    for part in PARTS:
        refuse_unfit(part, _tree(plan.settings.get(part)))
    tree = {name: _tree(plan.settings.get(name)) for name in PARTS}
    try:
        with torch_seed(plan.settings.seed_everything, "module"), memory_told(tree):
            made: Namespace = plan.parser.instantiate(plan.settings)  # a module of one's own begins as it is made
    except (ValueError, TypeError, ImportError) as error:
        raise refused_by(error, tree) from error
    for name in ("engine", "algorithm"):
        refuse_fields(name, made[name])
    if made.model_start is not None:
        path = where_from(made.model_start, plan.run_dir if plan.checkpoint else None)
        start_from(made.model, read_weights(path), str(path))
    return made


def _tree(part: Any) -> Any:
    """Return a part of the settings as a tree of dictionaries; an object that a script has made as it is."""
    if isinstance(part, list):
        return [_tree(each) for each in part]
    return part.as_dict() if isinstance(part, Namespace) else part


def fit(exp: Experiment) -> dict[str, Any]:
    """Run an experiment to its end, or to the point where it is stopped, and return its summary."""
    fabric = fabric_of(exp)
    tell_children_their_parent()
    handing = hand_on() if elsewhere(exp.fabric) else nullcontext()
    with handing, plainly(lambda: going_on(exp)), memory_told(exp.config):
        summary: dict[str, Any] = fabric.launch(partial(drive, exp=exp))
    return summary


def going_on(exp: Experiment) -> str:
    """Say how to go on after the processes of a run were ended from outside."""
    if has_checkpoint(exp.run_dir):
        return f"go on with: {exp.how_to_go_on('')}"
    return "there is no checkpoint yet, start the run anew"


@contextmanager
def plainly(remedy: Callable[[], str]) -> Iterator[None]:
    """Tell in one line how processes that were made for the run ended, if a signal or a user's mistake ended one."""
    try:
        yield
    except ProcessExitedException as error:
        how = error.signal_name or f"exit code {error.exit_code}"
        raise UserError(f"a process of the run was ended from outside ({how}): {remedy()}") from error
    except ProcessRaisedException as error:
        last = str(error).strip().splitlines()[-1]
        kind, _, told = last.partition(": ")
        if kind != f"{UserError.__module__}.{UserError.__qualname__}":
            raise
        raise UserError(told) from error


def elsewhere(config: FabricConfig) -> bool:
    """Say whether the run is driven in processes that are made for it, and none of them is this one."""
    return config.strategy.endswith(("_spawn", "_fork", "_forkserver", "_notebook"))


def drive(fabric: Fabric, exp: Experiment) -> dict[str, Any]:
    """Run an experiment in the processes that Fabric started."""
    told = settle(fabric, exp)
    if elsewhere(exp.fabric):
        exp.model = deepcopy(exp.model)  # tensors that were handed to another process are shared with it
    with Interrupt() as interrupt:
        run = ActiveRun(exp, fabric, interrupt)
        with run.log.listening(), run.progress, closing(run):
            for text in told:
                run.progress.note(text)
            run.begin()
            with spared():
                why = run.drive()
            return run.finish(why)


def fabric_of(exp: Experiment) -> Fabric:
    """Make the Fabric that a run is configured with; no process is started yet."""
    c = exp.fabric
    if c.precision not in PRECISIONS:
        raise UserError(f"fabric.precision must be one of {', '.join(PRECISIONS)}, got {c.precision!r}")
    try:
        return Fabric(
            accelerator=c.accelerator,
            devices=c.devices,
            num_nodes=c.num_nodes,
            strategy=c.strategy,
            precision=c.precision,  # type: ignore[arg-type]
            callbacks=list(exp.callbacks),
        )
    except (ValueError, TypeError, RuntimeError, ImportError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(c).items())
        raise UserError(f"fabric ({given}): {error}") from error


def settle(fabric: Fabric, exp: Experiment) -> list[str]:
    """Set this process up, agree with the others on where the run lives; return what a user should know of it."""
    end_with_parent()
    keep_freed_memory()
    if exp.engine.threads or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(exp.engine.threads or threads(fabric, exp))
    exp.run_dir = Path(fabric.broadcast(str(exp.run_dir)))
    several = torch.get_num_threads()
    by_rule = several > 1 and not exp.engine.threads and "OMP_NUM_THREADS" not in os.environ
    said = f"computing with {several} threads, which pays for steps as large as this model's (engine.threads)"
    return [text for text in (said if by_rule else None, warning(several)) if text]


def threads(fabric: Fabric, exp: Experiment) -> int:
    """Return how many threads the rule gives this process: its share of the cores for large steps, else one."""
    share = share_of(fabric.world_size // exp.fabric.num_nodes)
    if fabric.device.type != "cpu":
        return max(1, share)
    return threads_of(operations_of(exp.model, exp.data, exp.algorithm.batch_size), share)
