"""One run from its plan: build what is configured, start the processes, drive, finish."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from lightning.fabric import Fabric
from lightning.pytorch.loggers.logger import Logger
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from flcluster.engine.arguments import FabricConfig
from flcluster.engine.config import Plan
from flcluster.engine.loggers import Loggers, prepare_loggers, switched_off
from flcluster.engine.messages.built import NOT_BUILT, memory_told, refused_by
from flcluster.engine.messages.values import refuse_fields, refuse_number, refuse_trainer, refuse_unfit
from flcluster.engine.process import (
    Interrupt,
    end_with_parent,
    hand_on,
    keep_freed_memory,
    spared,
    tell_children_their_parent,
)
from flcluster.engine.processes.again import meet_anew
from flcluster.engine.processes.lost import Watch, company, from_collective, said, told, watch_children
from flcluster.engine.processes.presence import Gone
from flcluster.engine.processes.quick import end_quickly
from flcluster.engine.restored import restored
from flcluster.engine.resume import refuse_changes
from flcluster.engine.run import ActiveRun, Experiment
from flcluster.engine.start import read_weights, start_from, where_from
from flcluster.engine.threads import operations_of, share_of, threads_of, warning
from flcluster.errors import BusyError, LostError, UnwritableError, UserError, at_least
from flcluster.federation.extras import Extras
from flcluster.files import has_checkpoint
from flcluster.given import blamed
from flcluster.records.masked import hiding
from flcluster.seeds import torch_seed

PARTS = ("data", "model", "algorithm", "logger", "callbacks", "trainer_callbacks")
MISTAKES = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in (UserError, BusyError, LostError)}
"""What is told in one line, by the name that it has in another process's traceback."""

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")


def build(plan: Plan) -> Experiment:
    """Instantiate what a plan names. No data is read yet."""
    taken_up = restored(plan.checkpoint) if plan.checkpoint else None
    content = taken_up.content if taken_up else None
    config, secrets = plan.config, plan.secrets  # before the loggers are told what is this run's alone
    if taken_up and "config" in taken_up.content:
        refuse_changes(config, taken_up.content["config"], taken_up.path)
    ids = prepare_loggers(plan.settings, plan.run_dir, content["logger_ids"] if content else {}, config)
    loggers = made_loggers(plan, secrets)
    plan.settings.logger = None
    made = instantiated(plan)
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
        secrets=secrets,
    )


def made_loggers(plan: Plan, secrets: Sequence[str]) -> Loggers:
    """Build the configured loggers, each by itself: one that cannot begin, say without a network, is left out."""
    given, made, notes = plan.settings.get("logger"), [], []
    for each in given if isinstance(given, list) else [given] if given else []:
        if not isinstance(each, Namespace):  # a script's own object
            made.append(each)
            continue
        for name, value in each.init_args.as_dict().items():
            refuse_number(f"logger.{name}", value)
        parser = ArgumentParser(exit_on_error=False)
        parser.add_argument("--logger", type=Logger)
        try:
            made.append(parser.instantiate(Namespace(logger=each)).logger)  # type: ignore[no-untyped-call]
        except Exception as error:
            root = _root(error)
            if isinstance(root, TypeError | ValueError | ImportError | UserError):  # what the user is to mend
                raise UserError(f"logger: {NOT_BUILT}: {hiding(secrets)(str(root))}") from error
            notes.append(switched_off(each.class_path.rpartition(".")[2], "to begin", root, secrets))
    return Loggers(made, notes, secrets)


def _root(error: BaseException) -> BaseException:
    """Return what a constructor said, which the parser wraps."""
    while below := error.__cause__ or error.__context__:
        error = below
    return error


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
    if elsewhere(exp.fabric):
        tell_children_their_parent()
        with hand_on(), plainly(lambda gone: lost(gone, exp)), memory_told(exp.config):
            summary: dict[str, Any] = fabric.launch(partial(drive_apart, exp=exp))
        return summary
    watch = watching(exp)
    if not externally(fabric):
        tell_children_their_parent()
        end_with_parent(lambda: watch.lost(Gone(0)))
        watch_children(fabric, watch)
    try:
        meet_anew()
        with memory_told(exp.config):
            summary = fabric.launch(partial(drive, exp=exp, watch=watch))
    except RuntimeError as error:
        if not from_collective(error):
            raise
        raise LostError(lost(Gone(-1, said(error)), exp)) from error
    finally:
        watch.over.set()
    return summary


def externally(fabric: Fabric) -> bool:
    """Say whether torchrun, SLURM or the like has started the processes."""
    environment = getattr(fabric.strategy, "cluster_environment", None)
    return bool(getattr(environment, "creates_processes_externally", False))


def watching(exp: Experiment) -> Watch:
    """Return what learns of lost processes of a run."""
    return Watch(lambda gone: lost(gone, exp), lambda: exp.run_dir, silent=elsewhere(exp.fabric))


def lost(gone: Gone, exp: Experiment) -> str:
    """Say which process is gone, what was saved and how to go on."""
    same = f"the same command and --run_dir {quote(str(exp.run_dir))} --ckpt_path auto"
    return told(gone, exp.run_dir, same if "TORCHELASTIC_RUN_ID" in os.environ else exp.how_to_go_on(""))


@contextmanager
def plainly(lost: Callable[[Gone], str]) -> Iterator[None]:
    """Tell in one line how processes that were made for the run ended, if a signal or a user's mistake ended one."""
    logger = logging.getLogger("torch.multiprocessing.spawn")  # says of each of the others that it ends it
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except ProcessExitedException as error:
        how = None if error.signal_name == "SIGKILL" else error.signal_name or f"exit code {error.exit_code}"
        raise LostError(lost(Gone(error.error_index, how))) from error
    except ProcessRaisedException as error:
        last = str(error).strip().splitlines()[-1]
        kind, _, said = last.partition(": ")
        if kind not in MISTAKES:
            raise
        raise MISTAKES[kind](said) from error
    finally:
        logger.setLevel(before)


def elsewhere(config: FabricConfig) -> bool:
    """Say whether the run is driven in processes that are made for it, and none of them is this one."""
    return config.strategy.endswith(("_spawn", "_fork", "_forkserver", "_notebook"))


def drive_apart(fabric: Fabric, exp: Experiment) -> dict[str, Any]:
    """Run an experiment in processes that were made for it, and have nothing to do when it has ended."""
    ends_with = end_quickly()
    ends_with(1)
    end_with_parent(lambda: os._exit(LostError.exit_code))
    # tensors that were handed to other processes are shared with them
    exp.model, exp.restored = deepcopy(exp.model), deepcopy(exp.restored)
    try:
        summary = drive(fabric, exp, watching(exp))
    except Exception as error:
        if isinstance(error, UserError) or (told := blamed(error)) is None:
            raise
        raise UserError(told) from error
    ends_with(0)
    return summary


def drive(fabric: Fabric, exp: Experiment, watch: Watch) -> dict[str, Any]:
    """Run an experiment in the processes that Fabric started."""
    with Interrupt() as interrupt, company(fabric, watch):
        notes = settle(fabric, exp)
        run = ActiveRun(exp, fabric, interrupt)
        with run.log.listening(), run.progress, closing(run), resumably(exp):
            for text in notes:
                run.progress.note(text)
            run.begin()
            with spared():
                why = run.drive()
            return run.finish(why)


@contextmanager
def resumably(exp: Experiment) -> Iterator[None]:
    """Where something cannot be written, say how to go on afterwards: the last checkpoint is whole."""
    try:
        yield
    except UnwritableError as error:
        if not has_checkpoint(exp.run_dir):
            raise
        raise UserError(f"{error}; then go on with {exp.how_to_go_on('')}") from error


def fabric_of(exp: Experiment) -> Fabric:
    """Make the Fabric that a run is configured with; no process is started yet."""
    c = exp.fabric
    for name, value in vars(c).items():
        refuse_number(f"fabric.{name}", value)
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
    keep_freed_memory()
    if exp.engine.threads or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(exp.engine.threads or threads(fabric, exp))
    exp.run_dir = Path(fabric.broadcast(str(exp.run_dir)))
    mine = exp.restored.content["position"] if exp.restored else None
    first = fabric.broadcast(mine)
    if mine != first:
        raise UserError(
            f"this process would go on from step {mine or 0} of {exp.run_dir}, rank 0 from step {first or 0}: is it on "
            "a file system that all nodes see?"
        )
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
