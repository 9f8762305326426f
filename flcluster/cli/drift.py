"""``flcluster drift``: how far a stream's clients drift (FIELDING, Table 2), and a picture of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from flcluster.cli.arguments import answered
from flcluster.errors import UserError

if TYPE_CHECKING:  # read when the command runs
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from flcluster.data import View
    from flcluster.datamodules.streams.magnitude import Embed
    from flcluster.datamodules.streams.module import StreamDataModule


def drift(argv: list[str]) -> int:
    """Print the drift of the configured stream beside the paper's and draw its labels over time."""
    if answered("drift", argv, _extra):
        return 0
    from flcluster.datamodules.pictures.stream import draw_stream
    from flcluster.datamodules.streams.module import StreamDataModule
    from flcluster.engine.arguments import with_dashes
    from flcluster.engine.config import Plan, fit_parser
    from flcluster.engine.fit import instantiated
    from flcluster.report.tables import wide_console

    parser = fit_parser("flcluster drift")
    _extra(parser)
    settings = parser.parse_args(with_dashes(argv))
    made = instantiated(Plan(parser, settings, Path("."), None))
    if not isinstance(made.data, StreamDataModule):
        raise UserError(f"data is {type(made.data).__name__}: drift is measured of a stream, e.g. StreamDigits")
    made.data.prepare_data()
    made.data.setup("fit")
    embed = _embedding(made, settings.embedding_epochs) if settings.embedding_epochs else None
    wide_console().print(drift_table(made.data, embed, settings.until))
    print(f"wrote {draw_stream(made.data, settings.output, until=settings.until)}")
    return 0


def _extra(parser: ArgumentParser) -> None:
    parser.add_argument("--output", type=str, default="stream.png", help="PNG to write.")
    parser.add_argument(
        "--until", type=int | None, default=None, help="Last round to look at; default the whole stream."
    )
    parser.add_argument(
        "--embedding_epochs", type=int, default=0, help="Epochs of the model whose embeddings are compared."
    )


def _embedding(made: Any, epochs: int) -> "Embed":
    """Train the model whose features are compared."""
    from lightning.fabric import Fabric

    from flcluster.algorithms.drift.representations import InputEmbedding
    from flcluster.federation.bank import Bank
    from flcluster.federation.federation import Federation

    fabric = Fabric(accelerator="cpu", devices=1)
    fed = Federation(fabric, made.model, made.data, lambda width: Bank(Path("."), width, 2**30), made.seed_everything)
    shared = InputEmbedding(epochs=epochs).shared_model(fed)

    def embed(view: "View") -> "NDArray[np.float32]":
        mean: NDArray[np.float32] = fed.worker.features(shared, view).mean(0).numpy()
        return mean

    return embed


def drift_table(data: "StreamDataModule", embed: "Embed | None" = None, until: int | None = None) -> "Table":
    """Return a table of how far this data drifts, beside the paper's datasets."""
    from rich.table import Table

    from flcluster.datamodules.streams.magnitude import (
        Magnitude,
        embedding_drift,
        events_until,
        label_drift,
        summarise,
    )
    from flcluster.report.paper_tables import read_table

    ours = {"label_L1": summarise(label_drift(data, until))}
    if embed is not None:
        ours["embedding_L2"] = summarise(embedding_drift(data, embed, until))
    count = len(events_until(data, until))
    table = Table(
        title=f"Drift at {count} events of {data.name}",
        caption="Mean over drifted clients at each event. Other lines: FIELDING, Table 2, as printed.",
    )
    for column in ("dataset", "metric", *Magnitude._fields):
        table.add_column(column, justify="right" if column in Magnitude._fields else "left")
    for metric, magnitude in ours.items():
        table.add_row(f"{data.name} (ours)", metric, *(f"{value:.3f}" for value in magnitude), style="bold")
    for row in read_table("fielding_table2_drift"):
        if row["metric"] in ours:
            table.add_row(*row.values())
    return table
