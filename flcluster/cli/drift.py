"""``flcluster drift``: how far a stream's clients drift (FIELDING, Table 2), and a picture of it."""

from pathlib import Path

import numpy as np
from lightning.fabric import Fabric
from numpy.typing import NDArray

from flcluster.data import View
from flcluster.engine.config import Plan, fit_parser, with_dashes
from flcluster.engine.fit import instantiated
from flcluster.errors import UserError
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.report.tables import wide_console


def drift(argv: list[str]) -> int:
    """Print the drift of the configured stream beside the paper's and draw its labels over time."""
    from flcluster.algorithms.drift.representations import InputEmbedding
    from flcluster.datamodules.pictures.stream import draw_stream
    from flcluster.datamodules.streams.magnitude import drift_table
    from flcluster.datamodules.streams.module import StreamDataModule

    parser = fit_parser("flcluster drift")
    parser.add_argument("--output", type=str, default="stream.png", help="PNG to write.")
    parser.add_argument(
        "--until", type=int | None, default=None, help="Last round to look at; default the whole stream."
    )
    parser.add_argument(
        "--embedding_epochs", type=int, default=0, help="Epochs of the model whose embeddings are compared."
    )
    settings = parser.parse_args(with_dashes(argv))
    made = instantiated(Plan(parser, settings, Path("."), None))
    if not isinstance(made.data, StreamDataModule):
        raise UserError(f"data is {type(made.data).__name__}: drift is measured of a stream, e.g. StreamDigits")
    made.data.prepare_data()
    made.data.setup("fit")
    embed = None
    if settings.embedding_epochs:
        fabric = Fabric(accelerator="cpu", devices=1)
        fed = Federation(
            fabric, made.model, made.data, lambda width: Bank(Path("."), width, 2**30), made.seed_everything
        )
        shared = InputEmbedding(epochs=settings.embedding_epochs).shared_model(fed)

        def embed(view: View) -> NDArray[np.float32]:
            mean: NDArray[np.float32] = fed.worker.features(shared, view).mean(0).numpy()
            return mean

    wide_console().print(drift_table(made.data, embed, settings.until))
    print(f"wrote {draw_stream(made.data, settings.output, until=settings.until)}")
    return 0
