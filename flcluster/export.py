"""One model of a run as a plain Lightning checkpoint, for any other Lightning project."""

import os
from pathlib import Path
from typing import Any

import lightning
import torch
from jsonargparse import ArgumentParser
from torch import Tensor

from flcluster.bank import Bank
from flcluster.checkpoint import load_checkpoint
from flcluster.config import fit_parser
from flcluster.errors import UserError
from flcluster.layout import Layout


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


def write_model(run: Path, cluster: int | None, client: int | None, path: Path) -> None:
    """Find the row in the run's last checkpoint and write it as a Lightning checkpoint."""
    content = load_checkpoint(run / "checkpoints" / "last.ckpt")
    settings = fit_parser()
    made = settings.instantiate(settings.parse_path(str(run / "config.yaml")))
    layout = Layout(made.model)
    if cluster is not None:
        row = cluster_row(made.algorithm, content, cluster)
    else:
        row = client_row(run, content, int(client or 0), layout.size)
    saved = {
        "state_dict": layout.state_dict(row),
        "hyper_parameters": dict(made.model.hparams),
        "pytorch-lightning_version": lightning.__version__,
        "epoch": 0,
        "global_step": int(content["position"]),
    }
    temporary = path.with_name(f"{path.name}.tmp")
    torch.save(saved, temporary)
    os.replace(temporary, path)


def cluster_row(algorithm: Any, content: dict[str, Any], cluster: int) -> Tensor:
    """Return a cluster model; a method with one global model has cluster 0."""
    state = algorithm.unpack(content["loop"]["state"], torch.device("cpu"))
    models = algorithm.clusters(state)
    if models is None:
        shared = getattr(state, "models", getattr(state, "model", None))
        if shared is None:
            raise UserError(f"{type(algorithm).__name__} has no cluster or global model: export a --client's")
        models = shared if shared.dim() == 2 else shared[None]
    if not 0 <= cluster < len(models):
        raise UserError(f"--cluster {cluster}: this run has models 0 to {len(models) - 1}")
    row: Tensor = models[cluster]
    return row


def client_row(run: Path, content: dict[str, Any], client: int, width: int) -> Tensor:
    """Return the model a client last received."""
    bank = Bank(run / "bank", width, budget=2**62)
    bank.restore(content["bank"])
    table = bank.tables.get("start")
    if table is None or client not in table:
        raise UserError(f"--client {client}: the run's checkpoint has no model of this client")
    return table[client]
