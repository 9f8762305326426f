"""A DFCA round of 1,152 digits clients and a CDFL session of the quickstart, one by one and in one pass.

Everything that a run does counts: choosing, training, mixing, measuring, writing rows. Both take the same steps turn by
turn in one process, in CPU time. Run: python tests/benchmarks/methods.py [--turns 5]
"""

import argparse
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from held import experiment, held, take
from registered import Registered
from told import Told, in_turns, ratio, show

from flcluster.algorithms import CDFL, DFCA
from flcluster.datamodules import RotatedDigits
from flcluster.engine.process import keep_freed_memory
from flcluster.modules import MLP
from flcluster.topology.families import ErdosRenyi

DIGITS = (1, 8, 8)
WARM = 6
"""Trainings of a group after which its steps have been recorded (flcluster/federation/together/recorded.py)."""


def dfca(clients: int) -> tuple[Any, Any, Any, int]:
    """Return data, model, method, and the steps of a turn."""
    method = DFCA(topology=ErdosRenyi(p=10 / clients), rounds=1000, local_epochs=5, batch_size=20, num_clusters=2)
    return Registered(clients), MLP(10, DIGITS, hidden=[64], lr=0.1), method, 1


def cdfl(clients: int) -> tuple[Any, Any, Any, int]:
    """Return the quickstart's; a session is an upload of each client."""
    data = RotatedDigits(num_clusters=4, num_clients=clients)
    method: Any = CDFL(cycles=1000, local_epochs=5, batch_size=32, pretrain_epochs=5, rho=0.1)
    return data, MLP(10, DIGITS, hidden=[200], optimizer="adam", lr=0.003), method, clients


def measured(what: str, make: Any, clients: int, turns: int, warm: int) -> Told:
    """Return how many times as long one by one takes as what the rule says."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ways = {}
        for together in (1, "auto"):
            *parts, steps = make(clients)
            run = stack.enter_context(held(experiment(*parts, Path(folder) / str(together), together=together)))
            ways[str(together)] = partial(take, run, steps)
        for _ in range(warm):
            ways["auto"]()
            ways["1"]()
        times = in_turns(ways, turns)
    return Told(f"{what}: one by one / in one pass", ratio(times["1"], times["auto"]))


def rows(quick: bool = False, turns: int = 5) -> list[Told]:
    """Return how many times as fast one pass is."""
    torch.manual_seed(0)
    if quick:
        return [measured("DFCA", dfca, 24, 1, 0), measured("CDFL", cdfl, 20, 1, 0)]
    return [
        measured("A DFCA round of 1,152 digits clients", dfca, 1_152, turns, 0),
        measured("A CDFL session of the quickstart", cdfl, 20, turns, WARM),
    ]


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    torch.set_num_threads(1)
    keep_freed_memory()
    show(rows(turns=parser.parse_args().turns))


if __name__ == "__main__":
    main()
