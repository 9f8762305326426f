"""One model of a run as a plain Lightning checkpoint, for any other Lightning project."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from jsonargparse import ArgumentParser
from lightning import LightningModule
from torch import Tensor

from flcluster.data import FederatedDataModule
from flcluster.engine.config import fit_parser
from flcluster.errors import UserError
from flcluster.federation.bank import Bank
from flcluster.federation.layout import Layout
from flcluster.files import replacing
from flcluster.protocol.base import Algorithm
from flcluster.records.checkpoint import load_checkpoint


def export(argv: list[str]) -> int:
    """Write a cluster's or a client's model; ``TheModule.load_from_checkpoint(FILE)`` reads it."""
    parser = ArgumentParser(prog="flcluster export", description=export.__doc__)
    parser.add_argument("run", type=str, help="Run directory.")
    parser.add_argument("--cluster", type=int | None, default=None, help="Which cluster's model (0, 1, …).")
    parser.add_argument("--client", type=int | None, default=None, help="Which client's current model.")
    parser.add_argument("--output", type=str | None, default=None, help="Default RUN/cluster<k>.ckpt and the like.")
    given = parser.parse_args(argv)
    if (given.cluster is None) == (given.client is None):
        raise UserError("give either --cluster K or --client M")
    run = Path(given.run)
    name = f"cluster{given.cluster}" if given.client is None else f"client{given.client}"
    path = Path(given.output or run / f"{name}.ckpt")
    write_model(run, given.cluster, given.client, path)
    print(f"wrote {path}")
    return 0


@dataclass(frozen=True, eq=False)
class Saved:
    """A run as its directory has it: its configured objects and its last checkpoint."""

    run: Path
    model: LightningModule
    data: FederatedDataModule
    algorithm: Algorithm[Any]
    content: dict[str, Any]

    @classmethod
    def load(cls, run: Path) -> "Saved":
        """Read config.yaml and checkpoints/last.ckpt. No data is read."""
        content = load_checkpoint(run / "checkpoints" / "last.ckpt")
        settings = fit_parser()
        made = settings.instantiate(settings.parse_path(str(run / "config.yaml")))
        return cls(run, made.model, made.data, made.algorithm, content)

    @property
    def state(self) -> Any:
        """The method's state."""
        return self.algorithm.unpack(self.content["loop"]["state"], torch.empty(0))

    def models(self) -> Tensor:
        """Return the server's models; a method with one global model has one."""
        models = self.algorithm.server_models(self.state)
        if models is None:
            raise UserError(f"{type(self.algorithm).__name__} has no model at the server: export a --client's")
        return models

    def client_model(self, client: int, width: int) -> Tensor:
        """Return the model a client last received, or that of its cluster where it has none of its own."""
        state = self.state
        if not 0 <= client < self.data.num_clients:
            raise UserError(f"--client {client}: the run has clients 0 to {self.data.num_clients - 1}")
        name, row = self.algorithm.own_row(state, client)
        bank = Bank(self.run / "bank", width, budget=0)
        bank.restore(self.content["bank"])
        table = bank.tables.get(name)
        if table is not None and row in table:
            return table[row]
        cluster = self.algorithm.cluster_of(state, client)
        if cluster is not None:
            return self.models()[cluster]
        raise UserError(f"--client {client}: the run's checkpoint has no model of this client")


def write_model(run: Path, cluster: int | None, client: int | None, path: Path) -> None:
    """Find the row in the run's last checkpoint and write it as a Lightning checkpoint."""
    saved = Saved.load(run)
    layout = Layout(saved.model)
    if client is not None:
        row = saved.client_model(client, layout.size)
    else:
        models = saved.models()
        if cluster is None or not 0 <= cluster < len(models):
            raise UserError(f"--cluster {cluster}: this run has models 0 to {len(models) - 1}")
        row = models[cluster]
    content = {
        "state_dict": layout.state_dict(row),
        "hyper_parameters": dict(saved.model.hparams),
        "pytorch-lightning_version": lightning.__version__,
        "epoch": 0,
        "global_step": int(saved.content["position"]),
    }
    with replacing(path) as temporary:
        torch.save(content, temporary)
