"""Time a DFCA round by its parts: assign, train, gossip. By default the size of the paper's MNIST experiment.

    python tests/benchmarks/gossip.py [--clients 240] [--models 4] [--hidden 2048] [--p 0.1] [--samples 20] [--rounds 3]

The models of all clients are real rows in memory (6.3 GB by default) or, with --memory_gb 1, in a memory-mapped file;
clients hold few samples, so that the time of gossip is seen beside a short training. Inputs are noise: nothing is
learnt here.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from lightning.fabric import Fabric

from flcluster.algorithms import DFCA
from flcluster.datamodules import RotatedDataModule
from flcluster.engine.process import peak_gb
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.modules import CNN, MLP
from flcluster.topology.families import ErdosRenyi


class Noise:
    """Random images in the place of a dataset."""

    def __init__(self, root: str = "", train: bool = True) -> None:
        draw = torch.Generator().manual_seed(int(train))
        self.data = torch.randint(256, (20000, 28, 28), dtype=torch.uint8, generator=draw)
        self.targets = torch.randint(10, (20000,), generator=draw)


class Timed(DFCA):
    """DFCA that remembers how long its parts took."""

    seconds: ClassVar[dict[str, float]] = {}

    def assign(self, *given: Any) -> list[int]:
        """Time the assignment."""
        return self._timed("assign", super().assign, *given)

    def train(self, *given: Any) -> list[Any]:
        """Time the training."""
        return self._timed("train", super().train, *given)

    def gossip(self, *given: Any) -> None:
        """Time the averaging."""
        return self._timed("gossip", super().gossip, *given)

    def _timed(self, part: str, call: Callable[..., Any], *given: Any) -> Any:
        began = time.perf_counter()
        result = call(*given)
        self.seconds[part] = time.perf_counter() - began
        return result


def main() -> None:
    """Run a few rounds and print a line each."""
    given = _arguments()
    data = RotatedDataModule(
        f"{__name__}.Noise", 10, (1, 28, 28), (0.5,), (0.3,),
        num_clusters=given.models, num_clients=given.clients, samples=(given.samples, given.samples),
        main_share=(1.0, 1.0), redraw=False, proxy_size=0, test_size=1,
    )  # fmt: skip
    if given.cnn:
        module: Any = CNN(10, (1, 28, 28), hidden=128, batch_norm=True, optimizer="sgd", lr=0.1, weight_decay=0.0)
    else:
        module = MLP(10, (1, 28, 28), hidden=(given.hidden,))
    method = Timed(topology=ErdosRenyi(p=given.p), aggregation=given.aggregation, batch_size=50)
    with tempfile.TemporaryDirectory() as folder:
        bank = lambda width: Bank(Path(folder), width, int(given.memory_gb * 2**30))  # noqa: E731
        fed = Federation(Fabric(accelerator="cpu", devices=1), module, data, bank, 0)
        data.setup()
        rows = given.clients * given.models
        print(f"{rows} models of {fed.layout.size:,} numbers: {rows * fed.layout.row_bytes / 1e9:.1f} GB")
        state = method.init(fed)
        for t in range(given.rounds):
            state, _ = method.step(state, t, fed)
            parts = ", ".join(f"{part} {seconds:6.2f} s" for part, seconds in method.seconds.items())
            print(f"round {t}: {parts}; {state.messages} messages so far, peak memory {peak_gb():.1f} GB", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=240)
    parser.add_argument("--models", type=int, default=4, help="k: models per client")
    parser.add_argument("--hidden", type=int, default=2048, help="width of the MLP")
    parser.add_argument("--cnn", action="store_true", help="DFCA's CNN with BatchNorm instead of the MLP")
    parser.add_argument("--p", type=float, default=0.1, help="edge probability")
    parser.add_argument("--samples", type=int, default=20, help="training samples of a client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--aggregation", choices=("batch", "sequential"), default="batch")
    parser.add_argument("--memory_gb", type=float, default=16.0, help="host memory for models; beyond it a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
