"""The models of a run, read back from its directory."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from lightning import LightningModule
from torch import Tensor

from flcluster.data import FederatedDataModule
from flcluster.engine.config import Plan, fit_parser
from flcluster.engine.fit import instantiated
from flcluster.engine.layers import refuse_objects
from flcluster.engine.resume import config_of
from flcluster.errors import UserError
from flcluster.federation.bank import Bank
from flcluster.federation.layout import Layout
from flcluster.federation.trainer.copied import Copied
from flcluster.files import last_checkpoint
from flcluster.protocol.base import Algorithm
from flcluster.records.checkpoint import load_checkpoint


@dataclass(frozen=True, eq=False)
class Saved:
    """A run as its directory has it: its configured objects and its last checkpoint."""

    run: Path
    model: LightningModule
    data: FederatedDataModule
    algorithm: Algorithm[Any]
    content: dict[str, Any]

    @classmethod
    def load(cls, run: Path, **objects: Any) -> "Saved":
        """Read config.yaml and checkpoints/last.ckpt, but for ``objects``, which take their places. No data is read."""
        checkpoint = last_checkpoint(run)
        content = load_checkpoint(checkpoint)
        config = config_of(run)
        tree = yaml.safe_load(config.read_text(encoding="utf-8"))
        given = {name: value for name, value in objects.items() if value is not None}
        tree["objects"] = {
            name: why for name, why in (tree.get("objects") or {}).items() if name in PARTS - given.keys()
        }
        refuse_objects(tree, config)
        parser = fit_parser()
        settings = parser.parse_object({**{k: v for k, v in tree.items() if k not in UNUSED}, **given})
        made = instantiated(Plan(parser, settings, run, checkpoint))
        return cls(run, made.model, made.data, made.algorithm, content)

    @property
    def state(self) -> Any:
        """The method's state."""
        return self.algorithm.unpack(self.content["loop"]["state"], torch.empty(0))

    def models(self) -> Tensor:
        """Return the server's models; a method with one global model has one."""
        models = self.algorithm.server_models(self.state)
        if models is None:
            raise UserError(f"{type(self.algorithm).__name__} has no model at the server: ask for a client's")
        return models

    def cluster_model(self, cluster: int | None) -> Tensor:
        """Return one of the server's models; the only one if none is named."""
        models = self.models()
        if cluster is None and len(models) == 1:
            return models[0]
        if cluster is None or not 0 <= cluster < len(models):
            raise UserError(f"cluster {cluster}: this run has models 0 to {len(models) - 1}")
        return models[cluster]

    def client_model(self, client: int, width: int) -> Tensor:
        """Return the model a client last received, or that of its cluster where it has none of its own."""
        state = self.state
        if not 0 <= client < self.data.num_clients:
            raise UserError(f"client {client}: the run has clients 0 to {self.data.num_clients - 1}")
        name, row = self.algorithm.own_row(state, client)
        bank = Bank(self.run / "bank", width, budget=0)
        bank.restore(self.content["bank"])
        table = bank.tables.get(name)
        if table is not None and row in table:
            return table[row]
        cluster = self.algorithm.cluster_of(state, client)
        if cluster is not None:
            return self.models()[cluster]
        raise UserError(f"client {client}: the run's checkpoint has no model of this client")

    def layout(self) -> Layout | Copied:
        """Return how a model lies in a row of this run; of a module of one's own the checkpoint knows what travels."""
        module, travels = deepcopy(self.model), self.content["travels"]
        if travels is None:
            return Layout(module)
        trained, changed = travels
        return Copied(module, trained, changed, torch.device("cpu"))

    def module(self, cluster: int | None = None, client: int | None = None) -> LightningModule:
        """Return a copy of the run's module with the weights of a cluster or a client."""
        if cluster is not None and client is not None:
            raise UserError("give either a cluster or a client, not both")
        module = deepcopy(self.model)
        layout = self.layout()
        row = self.cluster_model(cluster) if client is None else self.client_model(client, layout.size)
        module.load_state_dict(layout.state_dict(row))
        return module


def told_by(data: FederatedDataModule) -> dict[str, Any]:
    """Return what must be known of data to use a model elsewhere: names of classes, and how pixels are normalised."""
    found = data.normalisation
    scaled = None if found is None else {"mean": found[0], "std": found[1]}
    return {"class_names": list(data.class_names), "normalisation": scaled}


PARTS = {"data", "model", "algorithm"}


UNUSED = ("objects", "logger", "callbacks", "trainer", "trainer_callbacks")
"""Parts of a configuration that no model depends on."""
