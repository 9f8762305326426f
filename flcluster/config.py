"""From the command line to a resolved configuration: one parser for every command that takes a run's settings."""

import re
import time
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace, set_parsing_settings
from lightning import LightningModule
from lightning.pytorch.loggers.logger import Logger

from flcluster.algorithm import Algorithm
from flcluster.callbacks import Callback
from flcluster.data import FederatedDataModule
from flcluster.errors import UserError
from flcluster.ranks import is_main_process

MAY_CHANGE = (
    r"run_dir|ckpt_path|logger(\..*)?|engine\.(?!session|threads).*|fabric\.(accelerator|devices|num_nodes|strategy)"
    r"|algorithm\.init_args\.(cycles|rounds)"
)


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
    session: int | None = None
    """Uploads (rounds) between two rows of metrics; default one per client (one round)."""
    progress: bool = True
    """Show progress."""
    table: bool = True
    """Print a table at the end."""
    pictures: bool = True
    """Draw pictures at the end."""


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
    parser.add_argument("--config", action="config", help="YAML file; may be given again, later ones win.")
    parser.add_argument("--seed_everything", type=int, default=0, help="Seed of data, arrivals, initialisation, all.")
    parser.add_class_arguments(FabricConfig, "fabric")
    parser.add_class_arguments(EngineConfig, "engine")
    parser.add_subclass_arguments(FederatedDataModule, "data", required=True)
    parser.add_subclass_arguments(LightningModule, "model", required=True)
    parser.add_subclass_arguments(Algorithm, "algorithm", required=True)
    parser.add_argument("--logger", type=Logger | list[Logger] | None, default=None, help="Lightning logger(s).")
    parser.add_argument("--callbacks", type=list[Callback] | None, default=None, help="Hooks, e.g. EarlyStopping.")
    parser.add_argument("--run_dir", type=str | None, default=None, help="Default runs/<config>/<time>.")
    parser.add_argument("--ckpt_path", type=str | None, default=None, help="'last' or a checkpoint to go on from.")
    parser.link_arguments("seed_everything", "data.init_args.seed")
    for name in ("num_classes", "input_shape"):
        parser.link_arguments(
            "data", f"model.init_args.{name}", compute_fn=lambda d, n=name: getattr(d, n), apply_on="instantiate"
        )
    return parser


def with_dashes(argv: list[str]) -> list[str]:
    """Accept ``key=value`` beside ``--key=value`` (W&B sweep agents send either)."""
    return [f"--{a}" if re.fullmatch(r"[A-Za-z_][\w.]*=.*", a, re.DOTALL) else a for a in argv]


def option(argv: list[str], name: str) -> list[str]:
    """Return the values of an option as given on the command line, before any parsing."""
    found = [b for a, b in pairwise(argv) if a == f"--{name}"]
    return found + [a.split("=", 1)[1] for a in argv if a.startswith(f"--{name}=")]


@dataclass(frozen=True)
class Plan:
    """A parsed command line: the settings, where the run lives, and the checkpoint it goes on from."""

    parser: ArgumentParser
    settings: Namespace
    run_dir: Path
    checkpoint: Path | None

    @property
    def text(self) -> str:
        """The resolved configuration as YAML; reading it back gives the same run."""
        return dumped(self.parser, self.settings)


def dumped(parser: ArgumentParser, settings: Namespace) -> str:
    """Return settings as YAML, with every null: where the default is something else, null says something."""
    text: str = parser.dump(settings, skip_unset=False)
    return text


def plan_fit(argv: list[str]) -> Plan:
    """Parse a command line, find the run directory and, for a resumed run, refuse settings that differ."""
    argv = with_dashes(argv)
    run_dir, checkpoint = _resumed(argv)
    parser = fit_parser()
    if checkpoint is not None and not option(argv, "config"):
        argv = ["--config", str(_config_of(run_dir)), *argv]
    for path in option(argv, "config"):
        _check_yaml(Path(path))
    settings = parser.parse_args(argv)
    if checkpoint is not None:
        assert run_dir is not None
        _refuse_changes(yaml.safe_load(dumped(parser, settings)), _config_of(run_dir))
    else:
        run_dir = _free_directory(settings, argv)
    return Plan(parser, settings, run_dir, checkpoint)


def _free_directory(settings: Namespace, argv: list[str]) -> Path:
    """Return where a new run goes: where it is told to, if no run is there, or a new directory."""
    if settings.ckpt_path is not None:
        raise UserError("ckpt_path belongs on the command line: --run_dir DIR --ckpt_path last")
    if settings.run_dir is None:
        configs = option(argv, "config")
        return new_directory(Path("runs") / (Path(configs[-1]).stem if configs else "fit"))
    run_dir = Path(settings.run_dir)
    if (run_dir / "checkpoints" / "last.ckpt").exists() or (run_dir / "summary.json").exists():
        raise UserError(f"run_dir {run_dir} already holds a run: add --ckpt_path last to go on, or name another one")
    return run_dir


def _check_yaml(path: Path) -> None:
    """Refuse a config file that is missing or is not YAML, by its name."""
    try:
        yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"--config {path} cannot be read: {' '.join(str(error).split())}") from error


def _resumed(argv: list[str]) -> tuple[Path | None, Path | None]:
    """Return (run directory, checkpoint) as far as the command line names them."""
    run_dirs, paths = option(argv, "run_dir"), option(argv, "ckpt_path")
    run_dir = Path(run_dirs[-1]) if run_dirs else None
    if not paths or paths[-1] in ("null", ""):
        return run_dir, None
    if paths[-1] == "last":
        if run_dir is None:
            raise UserError("--ckpt_path last needs --run_dir DIR, the run to go on with")
        return run_dir, run_dir / "checkpoints" / "last.ckpt"
    path = Path(paths[-1])
    home = path.resolve().parent.parent
    if run_dir is not None and run_dir.resolve() != home:
        raise UserError(f"--ckpt_path {path} belongs to the run in {home}, not to --run_dir {run_dir}")
    return run_dir or path.parent.parent, path


def _config_of(run_dir: Path | None) -> Path:
    path = (run_dir or Path(".")) / "config.yaml"
    if not path.exists():
        raise UserError(f"{path} is missing: it is written when a run starts, and a resumed run needs it")
    return path


def new_directory(base: Path) -> Path:
    """Make a directory that did not exist (other ranks only name one: rank 0 tells them which)."""
    stamp = base / time.strftime("%Y%m%d-%H%M%S")
    for i in count():
        path = stamp if i == 0 else stamp.with_name(f"{stamp.name}-{i}")
        if not is_main_process():
            return path
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:  # another run began in this second
            continue
    raise AssertionError("unreachable")


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested dicts to dotted keys."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    return {k: v for key, value in tree.items() for k, v in flat(value, f"{prefix}.{key}" if prefix else key).items()}


def _refuse_changes(now: dict[str, Any], then_path: Path) -> None:
    a, b = flat(now), flat(yaml.safe_load(then_path.read_text()))
    changed = sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k) and not re.fullmatch(MAY_CHANGE, k))
    if changed:
        lines = "\n".join(f"  {k}: {b.get(k)!r} -> {a.get(k)!r}" for k in changed)
        raise UserError(
            f"a resumed run keeps its settings, but these differ from {then_path}:\n{lines}\n"
            "Only the length, devices, engine settings and loggers may change; start a new run for anything else."
        )
