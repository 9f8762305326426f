"""One model of a run as a plain Lightning checkpoint, for any other Lightning project."""

from pathlib import Path

from flcluster.cli.arguments import loading, parser_of
from flcluster.errors import UserError
from flcluster.files import replacing


def export(argv: list[str]) -> int:
    """Write a cluster's or a client's model; ``TheModule.load_from_checkpoint(FILE)`` reads it."""
    parser = parser_of("export")
    parser.add_argument("run", type=str, help="Run directory.")
    parser.add_argument("--cluster", type=int | None, default=None, help="Which cluster's model (0, 1, …).")
    parser.add_argument("--client", type=int | None, default=None, help="Which client's current model.")
    parser.add_argument("--output", type=str | None, default=None, help="Default RUN/cluster<k>.ckpt and the like.")
    given = parser.parse_args(argv)
    if (given.cluster is None) == (given.client is None):
        raise UserError("give either --cluster K or --client M")
    loading("export", argv)
    run = Path(given.run)
    name = f"cluster{given.cluster}" if given.client is None else f"client{given.client}"
    path = Path(given.output or run / f"{name}.ckpt")
    write_model(run, given.cluster, given.client, path)
    print(f"wrote {path}")
    return 0


def write_model(run: Path, cluster: int | None, client: int | None, path: Path) -> None:
    """Find the model in the run's last checkpoint and write it as a Lightning checkpoint."""
    import lightning
    import torch

    from flcluster.engine.saved import Saved

    saved = Saved.load(run)
    module = saved.module(cluster, client)
    content = {
        "state_dict": module.state_dict(),
        "hyper_parameters": dict(module.hparams),
        "pytorch-lightning_version": lightning.__version__,
        "epoch": 0,
        "global_step": int(saved.content["position"]),
    }
    with replacing(path) as temporary:
        torch.save(content, temporary)
