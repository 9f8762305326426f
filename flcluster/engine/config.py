"""From the command line to a resolved configuration: one parser for every command that takes a run's settings."""

import re
import shlex
from abc import ABC
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import (  # type: ignore[attr-defined]
    ActionConfigFile,
    ArgumentParser,
    Namespace,
    set_parsing_settings,
)
from lightning import LightningModule
from lightning.pytorch.loggers.logger import Logger

from flcluster.data import FederatedDataModule
from flcluster.engine.callbacks import Callback
from flcluster.engine.resume import (
    config_of,
    free_directory,
    option,
    refuse_changes,
    refuse_objects,
    resumed,
)
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm

OTHER = "pytorch_lightning.core.module.LightningModule"


class OtherLightningModule(ABC):  # noqa: B024
    """A LightningModule of the package ``pytorch_lightning``, which is another one than ``lightning``."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return any(f"{each.__module__}.{each.__name__}" == OTHER for each in kind.__mro__)


@dataclass
class FabricConfig:
    """Where to run: handed to Lightning Fabric."""

    accelerator: str = "auto"
    """cpu, gpu, mps, auto …"""
    devices: int | str = 1
    """Processes (devices) per node; clients are shared out among them."""
    num_nodes: int = 1
    """Nodes, under torchrun or SLURM."""
    strategy: str = "auto"
    """How processes are started and talk; client models are never wrapped by it."""
    precision: str = "32-true"
    """32-true, bf16-mixed or 16-mixed."""


@dataclass
class EngineConfig:
    """How to run. Nothing here changes a result, but for the last bits of sums with other ``threads``."""

    look_ahead: int | None = None
    """Clients trained ahead of their upload; default 1 with one process, 4 per process with more."""
    memory_gb: float = 1.0
    """Host memory for rows of client models (per process); tables beyond it go to a memory-mapped file."""
    threads: int | None = None
    """CPU threads per process; default OMP_NUM_THREADS, or all cores divided by the processes of this machine."""
    checkpoint_minutes: float = 5.0
    """Time between checkpoints."""
    max_time: str | None = None
    """Stop (resumably) after HH:MM:SS or DD:HH:MM:SS."""
    max_updates: int | None = None
    """Stop (resumably) after this many uploads (or rounds) in all."""
    metric: str | None = None
    """What a module of your own is scored by, a name that its validation_step logs; default accuracy, or the loss."""
    session: int | None = None
    """Uploads (rounds) between two rows of metrics; default one per client (one round)."""
    progress: bool = True
    """Show progress."""
    table: bool = True
    """Print a table at the end."""
    pictures: bool = True
    """Draw pictures at the end."""


class WithBases(ActionConfigFile):
    """``--config FILE``: the files that FILE names under ``base``, each after its own bases, then FILE itself."""

    @staticmethod
    def apply_config(parser: ArgumentParser, cfg: Namespace, dest: str, value: str) -> None:
        """Lay a config over what is there; one that is given as text, not by name, has no bases."""
        for layer in [value] if "\n" in value else map(str, layers(Path(value))):
            ActionConfigFile.apply_config(parser, cfg, dest, layer)
            cfg.pop("base", None)


def layers(config: Path, over: tuple[Path, ...] = ()) -> list[Path]:
    """Return the files that make up a config, lowest first and each once; ``over`` are those that it is a base of."""
    if config.resolve() in [path.resolve() for path in over]:
        raise UserError(f"--config {over[0]}: base goes round in a circle: {' > '.join(map(str, [*over, config]))}")
    tree = _read(config, over)
    refuse_objects(tree, config)
    names = tree.get("base") or [] if isinstance(tree, dict) else []
    below = [names] if isinstance(names, str) else names
    if not (isinstance(below, list) and all(isinstance(name, str) for name in below)):
        raise UserError(f"--config {config}: base must be a file or a list of files, relative to it, got {names!r}")
    found = [path for name in below for path in layers(config.parent / name, (*over, config))]
    return [*dict.fromkeys(found), config]


def _read(config: Path, over: tuple[Path, ...]) -> Any:
    """Return what a config file says; one that is missing or is not YAML is refused by its name."""
    try:
        return yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        named = f" (base of {over[-1]})" if over else ""
        raise UserError(f"--config {config}{named} cannot be read: {' '.join(str(error).split())}") from error


def fit_parser(prog: str = "flcluster fit") -> ArgumentParser:
    """Build the parser of a run's settings. Imports the three libraries, so that bare class names are known."""
    import lightning.pytorch.loggers  # noqa: F401

    import flcluster.algorithms
    import flcluster.datamodules
    import flcluster.modules  # noqa: F401

    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = ArgumentParser(
        prog=prog,
        usage=f"{prog} [--config FILE ...] [--KEY VALUE ...]",  # the whole list would bury what an error says
        description="Run one method on one federated dataset.",
    )
    parser.add_argument("--config", action=WithBases, help="YAML file; may be given again, later ones win.")
    parser.add_argument("--seed_everything", type=int, default=0, help="Seed of data, arrivals, initialisation, all.")
    parser.add_class_arguments(FabricConfig, "fabric")
    parser.add_class_arguments(EngineConfig, "engine")
    parser.add_subclass_arguments(FederatedDataModule, "data", required=True)
    parser.add_subclass_arguments((LightningModule, OtherLightningModule), "model", required=True)
    parser.add_subclass_arguments(Algorithm, "algorithm", required=True)
    parser.add_argument("--logger", type=Logger | list[Logger] | None, default=None, help="Lightning logger(s).")
    parser.add_argument("--callbacks", type=list[Callback] | None, default=None, help="Hooks, e.g. EarlyStopping.")
    parser.add_argument(
        "--model_start", type=str | None, default=None, help="File of weights that the first models have."
    )
    parser.add_argument("--run_dir", type=str | None, default=None, help="Default runs/<config>/<time>.")
    parser.add_argument(
        "--ckpt_path", type=str | None, default=None, help="'last', 'auto' (last if there) or a checkpoint."
    )
    parser.link_arguments("seed_everything", "data.init_args.seed")
    for name in ("num_classes", "input_shape"):
        parser.link_arguments(
            "data", f"model.init_args.{name}", compute_fn=lambda d, n=name: getattr(d, n), apply_on="instantiate"
        )
    return parser


def with_dashes(argv: list[str]) -> list[str]:
    """Accept ``key=value`` beside ``--key=value`` (W&B sweep agents send either)."""
    return [f"--{a}" if re.fullmatch(r"[A-Za-z_][\w.]*=.*", a, re.DOTALL) else a for a in argv]


@dataclass(frozen=True)
class Plan:
    """A parsed command line: the settings, where the run lives, and the checkpoint it goes on from."""

    parser: ArgumentParser
    settings: Namespace
    run_dir: Path
    checkpoint: Path | None
    told: dict[str, Any] | None = None
    """What config.yaml says, where settings have objects in them."""
    command: str = ""
    """What the user typed."""

    @property
    def config(self) -> dict[str, Any]:
        """What config.yaml says: the resolved configuration without what is this run's alone."""
        told: dict[str, Any] = yaml.safe_load(self.text) if self.told is None else self.told
        return {**told, "run_dir": None, "ckpt_path": None}

    @property
    def text(self) -> str:
        """The resolved configuration as YAML; reading it back gives the same run."""
        return dumped(self.parser, self.settings)


def dumped(parser: ArgumentParser, settings: Namespace, checked: bool = True) -> str:
    """Return settings as YAML, with every null: where the default is something else, null says something."""
    text: str = parser.dump(settings, skip_unset=False, skip_validation=not checked)
    return text


def plan_fit(argv: list[str]) -> Plan:
    """Parse a command line, find the run directory and, for a resumed run, refuse settings that differ."""
    typed, argv = shlex.join(["flcluster", "fit", *argv]), with_dashes(argv)
    run_dir, checkpoint = resumed(argv)
    parser = fit_parser()
    if checkpoint is not None and not option(argv, "config"):
        argv = ["--config", str(config_of(run_dir)), *argv]
    settings = parser.parse_args(argv)
    if checkpoint is not None:
        assert run_dir is not None
        refuse_changes(yaml.safe_load(dumped(parser, settings)), config_of(run_dir))
    else:
        run_dir = free_directory(settings, argv)
    return Plan(parser, settings, run_dir, checkpoint, command=typed)
