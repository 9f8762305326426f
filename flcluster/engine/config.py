"""From the command line to a resolved configuration: one parser for every command that takes a run's settings."""

import os
import shlex
from abc import ABC
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace
from lightning import LightningModule
from lightning.pytorch.callbacks import Callback as TrainerCallback
from lightning.pytorch.loggers.logger import Logger

from flcluster.data import FederatedDataModule
from flcluster.engine.arguments import add_places, add_settings, option, usage, with_dashes
from flcluster.engine.callbacks import Callback
from flcluster.engine.messages.parser import RunParser
from flcluster.engine.resume import config_of, free_directory, refuse_changes, resumed
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.records.masked import MASK, hiding, in_environment, masked, secrets_in


class OtherLightningModule(ABC):  # noqa: B024
    """A LightningModule of the package ``pytorch_lightning``, which is another one than ``lightning``."""

    place = "pytorch_lightning.core.module.LightningModule"

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return any(f"{each.__module__}.{each.__name__}" == cls.place for each in kind.__mro__)


class OtherTrainerCallback(OtherLightningModule):
    """A callback of the package ``pytorch_lightning``."""

    place = "pytorch_lightning.callbacks.callback.Callback"


def fit_parser(prog: str = "flcluster fit") -> ArgumentParser:
    """Build the parser of a run's settings. Imports the three libraries, so that bare class names are known."""
    import lightning.pytorch.loggers  # noqa: F401

    import flcluster.algorithms
    import flcluster.datamodules
    import flcluster.modules  # noqa: F401

    parser = RunParser(
        prog=prog, usage=usage(prog), description="Run one method on one federated dataset.", allow_abbrev=False
    )
    parser.whole = True
    add_settings(parser)
    parser.add_subclass_arguments(FederatedDataModule, "data", required=True)
    parser.add_subclass_arguments((LightningModule, OtherLightningModule), "model", required=True)
    parser.add_subclass_arguments(Algorithm, "algorithm", required=True)
    parser.add_argument("--logger", type=Logger | list[Logger] | None, default=None, help="Lightning logger(s).")
    parser.add_argument("--callbacks", type=list[Callback] | None, default=None, help="Hooks, e.g. EarlyStopping.")
    parser.add_argument(
        "--trainer_callbacks",
        type=list[TrainerCallback | OtherTrainerCallback] | None,
        default=None,
        help="Lightning callbacks; each local training has copies of its own.",
    )
    add_places(parser)
    parser.link_arguments("seed_everything", "data.init_args.seed")
    for name in ("num_classes", "input_shape"):
        parser.link_arguments(
            "data", f"model.init_args.{name}", compute_fn=lambda d, n=name: getattr(d, n), apply_on="instantiate"
        )
    return parser


@dataclass(frozen=True)
class Plan:
    """A parsed command line: the settings, where the run lives, and the checkpoint it goes on from."""

    parser: ArgumentParser
    settings: Namespace
    run_dir: Path
    checkpoint: Path | None
    told: dict[str, Any] | None = None
    """What is to be told of the settings, where they have objects in them."""
    command: str = ""
    """What the user typed."""

    @property
    def config(self) -> dict[str, Any]:
        """What config.yaml says: the resolved configuration without what is this run's alone, and without secrets."""
        told: dict[str, Any] = masked(self._told)
        return {**told, "run_dir": None, "ckpt_path": None}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no file of the run may have in it."""
        return (*(value for _, value in secrets_in(self._told)), *in_environment())

    @property
    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = yaml.safe_load(self.text) if self.told is None else self.told
        return told

    @property
    def text(self) -> str:
        """The resolved configuration as YAML; reading it back gives the same run."""
        return dumped(self.parser, self.settings)


yaml.SafeDumper.add_multi_representer(Enum, lambda dumper, member: dumper.represent_data(member.value))
"""Some of Lightning's defaults are members of enumerations where their type says text."""


def dumped(parser: ArgumentParser, settings: Namespace, checked: bool = True) -> str:
    """Return settings as YAML, with every null: where the default is something else, null says something."""
    text: str = parser.dump(settings, skip_unset=False, skip_validation=not checked)
    return text


def ask_for_secrets(parser: ArgumentParser, settings: Namespace) -> None:
    """Take secrets that a run's config.yaml does not keep from the environment, or refuse and say which are missing."""
    text = dumped(parser, settings)
    if MASK not in text:
        return
    for path, value in secrets_in(yaml.safe_load(text)):
        if MASK not in value:
            continue
        holder, name = settings, ""
        for part in path[:-1]:
            holder = holder[int(part)] if isinstance(holder, list) else holder[part]
            name = _class_of(holder) or name
        variable = "_".join([*([name.removesuffix("Logger").upper()] if name else []), path[-1].upper()])
        if variable not in os.environ or value != MASK:
            flag = ".".join(part for part in path if part != "init_args")
            raise UserError(
                f"{flag} is a secret, which a run's files do not keep: give it again (--{flag} VALUE, or {variable} in "
                f"the environment), or go on without (--{path[0]} null)"
            )
        holder[path[-1]] = os.environ[variable]


def _class_of(part: Any) -> str:
    """Return the name of the class that a part of the settings is for; empty where it is none."""
    named = part.get("class_path") if isinstance(part, Namespace | dict) else None
    return str(named or "").rpartition(".")[2]


def plan_fit(argv: list[str]) -> Plan:
    """Parse a command line, find the run directory and, for a resumed run, refuse settings that differ."""
    typed, argv = shlex.join(["flcluster", "fit", *argv]), with_dashes(argv)
    run_dir, checkpoint = resumed(argv)
    parser = fit_parser()
    if checkpoint is not None and not option(argv, "config"):
        argv = ["--config", str(config_of(run_dir)), *argv]
    settings = parser.parse_args(argv)
    ask_for_secrets(parser, settings)
    if checkpoint is not None:
        assert run_dir is not None
        config = config_of(run_dir)
        refuse_changes(masked(yaml.safe_load(dumped(parser, settings))), yaml.safe_load(config.read_text()), config)
    else:
        run_dir = free_directory(settings, argv)
    plan = Plan(parser, settings, run_dir, checkpoint)
    return replace(plan, command=hiding(plan.secrets)(typed))
