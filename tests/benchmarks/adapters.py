"""What a client costs whose adapters train, against one that trains all parameters: rows in memory, bytes, seconds.

The model and the adapters are those of docs/adapters.md. A table of 50 clients' rows is filled, and local trainings are
done; the growth of the process's own memory is what the table costs, or the size of its file where it is kept on disk
(beyond --memory_gb). Run: python tests/benchmarks/adapters.py --model vit_b_16
"""

import argparse
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torchvision.models import VisionTransformer, vit_b_16

from flcluster.datamodules import IID, ArrayDataModule, from_arrays
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
SMALL = {"image_size": 32, "patch_size": 8, "num_layers": 4, "num_heads": 4, "hidden_dim": 128, "mlp_dim": 256}


def resident() -> int:
    """Return the bytes of memory that only this process holds, pages of files left out."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return 1024 * int(fields["RssAnon"].split()[0])


def clients(size: int, number: int, samples: int) -> ArrayDataModule:
    """Return random pictures of ten classes, the same number for each client."""
    n = number * samples
    return from_arrays(
        torch.rand(n, 1, size, size), torch.randint(10, (n,)), clients=IID(), num_clients=number, test=0.0
    )


def measure(name: str, module: Any, data: ArrayDataModule, given: argparse.Namespace) -> None:
    """Print what one way of training costs."""
    with tempfile.TemporaryDirectory() as folder:
        where, budget = Path(folder), int(given.memory_gb * 2**30)
        fabric = Fabric(accelerator="cpu", devices=1)
        federation = Federation(fabric, module, data, lambda width: Bank(where, width, budget), 0)
        start, layout, before = federation.init_rows(1)[0], federation.layout, resident()
        table = federation.table("models")
        for client in range(data.num_clients):
            table[client] = start
        held = resident() - before
        on_disk = sum(path.stat().st_size for path in where.rglob("*") if path.is_file())
        seconds = []
        for client in range(given.trainings):
            began = time.perf_counter()
            trained = federation.worker.train(Job(client, start, data.shard(client).train, 1, given.batch))
            table[client] = trained.row
            seconds.append(time.perf_counter() - began)
        whole = sum(parameter.numel() for parameter in module.parameters())
        print(
            f"{name:<16}{layout.size:>12,} of {whole:>12,} numbers travel, {layout.row_bytes / 1e6:8.2f} MB an upload; "
            f"{data.num_clients} rows: {held / 1e6:9.1f} MB of memory, {on_disk / 1e6:9.1f} MB on disk; "
            f"{min(seconds):6.2f} s a training"
        )


def main() -> None:
    """Measure adapters, and then all parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["small", "vit_b_16"], default="small")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--trainings", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--memory_gb", type=float, default=4.0)
    given = parser.parse_args()
    scope: dict[str, Any] = {}
    (example,) = (
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "# lora.py" in text
    )
    exec(example, scope)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    size = SMALL["image_size"] if given.model == "small" else 224
    data = clients(size, given.clients, given.batch)
    for name in ("adapters", "all parameters"):
        net = VisionTransformer(**SMALL, num_classes=10) if given.model == "small" else vit_b_16(num_classes=10)
        module = scope["AdaptedViT"](scope["adapted"](net, given.rank) if name == "adapters" else net)
        measure(name, module, data, given)


if __name__ == "__main__":
    main()
