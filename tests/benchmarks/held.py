"""A run that is held open and taken on by so many steps at a time; nothing of it is printed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENDLESS = 10**6


def experiment(data: Any, model: Any, method: Any, folder: Path, *, ranks: int = 1, **engine: Any) -> Any:
    """Return a run that takes no step by itself and writes no checkpoint."""
    from flcluster.engine.arguments import EngineConfig, FabricConfig
    from flcluster.engine.run import Experiment

    where = FabricConfig(accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto")
    engine = {"threads": 1, "progress": False, "checkpoint_minutes": ENDLESS, "max_updates": 0, **engine}
    return Experiment(0, where, EngineConfig(**engine), data, model, method, {}, folder)


@contextmanager
def held(exp: Any) -> Iterator[Any]:
    """Begin a run, and hold it."""
    from flcluster.engine.fit import fabric_of, settle
    from flcluster.engine.process import Interrupt, tell_children_their_parent
    from flcluster.engine.run import ActiveRun

    tell_children_their_parent()
    fabric = fabric_of(exp)
    if exp.fabric.devices > 1:
        fabric.launch()
    settle(fabric, exp)
    with Interrupt() as interrupt:
        run = ActiveRun(exp, fabric, interrupt)
        run.begin()
        yield run
        run.close()


def take(run: Any, steps: int) -> None:
    """Take so many steps, with all that a run does about them."""
    run.exp.engine.max_updates = run.loop.position + steps
    run.drive()
