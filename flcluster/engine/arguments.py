"""What every run is told, whatever its data, model and method: the part of its arguments that needs no PyTorch."""

import re
from argparse import SUPPRESS
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from jsonargparse import ArgumentParser, set_parsing_settings

from flcluster.engine.layers import WithBases
from flcluster.errors import UserError, at_least
from flcluster.score import Mode


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

    def __post_init__(self) -> None:
        at_least("num_nodes", self.num_nodes, 1, "fabric.")


@dataclass
class EngineConfig:
    """How to run. Only ``metric``, and in last bits of sums ``threads`` and ``together``, change what a run tells."""

    together: Literal["auto"] | int = "auto"
    """Clients trained in one pass; auto goes by model, batch and device, 1 is one by one."""
    look_ahead: int | None = None
    """Clients trained ahead of their upload; default 1 with one process, 4 per process with more."""
    memory_gb: float = 1.0
    """Host memory for rows of client models (per process); tables beyond it go to a memory-mapped file."""
    threads: int | None = None
    """CPU threads per process; default OMP_NUM_THREADS, or 1, and this process's share of the cores for large steps."""
    checkpoint_minutes: float = 5.0
    """Time between checkpoints."""
    max_time: str | None = None
    """Stop (resumably) after HH:MM:SS or DD:HH:MM:SS."""
    max_updates: int | None = None
    """Stop (resumably) after this many uploads (or rounds) in all."""
    metric: str | None = None
    """What a module of your own is scored by, a name that its validation_step logs; default accuracy, or the loss."""
    metric_mode: Mode = "auto"
    """Whether less of the metric is better (min) or more (max); auto goes by its name: loss, error, rmse, … are min."""
    session: int | None = None
    """Uploads (rounds) between two rows of metrics; default one per client (one round)."""
    progress: bool = True
    """Show progress."""
    table: bool = True
    """Print a table at the end."""
    pictures: bool = True
    """Draw pictures at the end."""

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value not in (None, "auto"):
                at_least(name, value, least, "engine.")
        seconds(self.max_time)

    @property
    def clients_together(self) -> int | None:
        """How many clients are trained in one pass; None where that goes by the rule."""
        return None if self.together == "auto" else self.together


LEAST = {
    "together": 1,
    "look_ahead": 0,
    "memory_gb": 0,
    "threads": 1,
    "checkpoint_minutes": 0,
    "max_updates": 0,
    "session": 1,
}
"""The smallest values of keys of ``engine``."""


def seconds(text: str | None) -> float | None:
    """Read HH:MM:SS or DD:HH:MM:SS."""
    if text is None:
        return None
    try:
        parts = [float(p) for p in text.split(":")]
        if not (1 <= len(parts) <= 4 and min(parts) >= 0):
            raise ValueError
    except ValueError:
        raise UserError(f"engine.max_time must be HH:MM:SS or DD:HH:MM:SS, got {text!r}") from None
    return sum(p * unit for p, unit in zip(reversed(parts), (1, 60, 3600, 86400), strict=False))


def with_dashes(argv: list[str]) -> list[str]:
    """Accept ``key=value`` beside ``--key=value`` (W&B sweep agents send either)."""
    return [f"--{a}" if re.fullmatch(r"[A-Za-z_][\w.]*=.*", a, re.DOTALL) else a for a in argv]


def option(argv: list[str], name: str) -> list[str]:
    """Return the values of an option as given on the command line, before any parsing."""
    found = [b for a, b in pairwise(argv) if a == f"--{name}"]
    return found + [a.split("=", 1)[1] for a in argv if a.startswith(f"--{name}=")]


def add_settings(parser: ArgumentParser) -> None:
    """Add what comes before data, model and method."""
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser.add_argument("--config", action=WithBases, help="YAML file; may be given again, later ones win.")
    parser.add_argument("--seed_everything", type=int, default=0, help="Seed of data, arrivals, initialisation, all.")
    parser.add_class_arguments(FabricConfig, "fabric")
    parser.add_class_arguments(EngineConfig, "engine")


def add_places(parser: ArgumentParser) -> None:
    """Add what comes after them: how a Trainer trains, the first weights, where the run lives and goes on from."""
    parser.add_argument(
        "--trainer", type=dict[str, Any] | None, default=None, help="Arguments of each local training's Trainer."
    )
    parser.add_argument(
        "--model_start", type=str | None, default=None, help="File of weights that the first models have."
    )
    parser.add_argument("--run_dir", type=str | None, default=None, help="Default runs/<config>/<time>.")
    parser.add_argument(
        "--ckpt_path", type=str | None, default=None, help="'last', 'auto' (last if there) or a checkpoint."
    )


def usage(prog: str) -> str:
    """Return the one line that says how a command with a run's settings is used: all keys would bury everything."""
    return f"{prog} [--config FILE ...] [--KEY VALUE ...]"


def help_parser(prog: str, description: str | None = None) -> ArgumentParser:
    """Build a parser that says what can be set, for ``--help``: it knows no class, and so loads no library."""
    parser = ArgumentParser(prog=prog, usage=usage(prog), description=description, epilog=MORE, allow_abbrev=False)
    add_settings(parser)
    for name, told in PARTS.items():
        for key, value, said in (
            ("", "CLASS", told),
            (".help", "CLASS", "Show a class's settings, and exit."),
            (".KEY", "VALUE", "One of its settings."),
        ):
            parser.add_argument(f"--{name}{key}", metavar=value, default=SUPPRESS, help=said)
    add_places(parser)
    return parser


PARTS = {
    "data": "Who holds which samples when: flcluster data --list names them.",
    "model": "What is trained: MLP, CNN, ResNet18, ShuffleNetV2, ViT, or the class path of a LightningModule.",
    "algorithm": "The method: flcluster methods names them.",
    "logger": "A Lightning logger or a list of them: CSVLogger, TensorBoardLogger, WandbLogger, …",
    "callbacks": "A list of hooks: EarlyStopping, HeterogeneityProbe, or the class path of your own.",
    "trainer_callbacks": "A list of Lightning callbacks; each local training has copies of its own.",
}
"""The parts of a run that are classes, and what ``--help`` says of them."""


MORE = "A YAML file has the same keys; a part is written {class_path: CDFL, init_args: {rho: 0.1}} there."
"""The last line of ``--help``."""
