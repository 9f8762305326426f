"""One model of a run as a file for any other project: a Lightning checkpoint, safetensors, torch.export or ONNX."""

from pathlib import Path
from typing import Literal

from flcluster.cli.arguments import loading, parser_of
from flcluster.errors import UserError


def export(argv: list[str]) -> int:
    """Write a cluster's or a client's model, with names of classes and normalisation.

    Programs (torch.export, onnx) take pixels in [0, 1] and normalise them as the run's data did; with --normalised
    false they take what the run's data gave. Checkpoints hold weights, whose module takes normalised inputs.
    """
    parser = parser_of("export", export.__doc__)
    parser.add_argument("run", type=str, help="Run directory.")
    parser.add_argument("--cluster", type=int | None, default=None, help="Which cluster's model (0, 1, …).")
    parser.add_argument("--client", type=int | None, default=None, help="Which client's current model.")
    formats = Literal["lightning", "safetensors", "torch.export", "onnx"]
    parser.add_argument("--format", type=formats, default="lightning", help="Of the file.")
    parser.add_argument("--normalised", type=bool, default=True, help="Whether a program normalises pixels itself.")
    parser.add_argument("--output", type=str | None, default=None, help="Default RUN/cluster<k>.ckpt and the like.")
    given = parser.parse_args(argv)
    if (given.cluster is None) == (given.client is None):
        raise UserError("give either --cluster K or --client M")
    loading("export", argv)
    from flcluster.engine.finished.exporting import FORMATS, Exported
    from flcluster.engine.finished.saved import Saved

    ending, write = FORMATS[given.format]
    run = Path(given.run)
    name = f"cluster{given.cluster}" if given.client is None else f"client{given.client}"
    path = Path(given.output or run / f"{name}{ending}")
    write(Exported.of(Saved.load(run), given.cluster, given.client), path, given.normalised)
    print(f"wrote {path}")
    return 0
