"""``flcluster data``: who holds what."""

from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from flcluster.cli.arguments import answered, loading

if TYPE_CHECKING:
    from flcluster.report.tables import Cells

CAPTION = "flcluster fit --data NAME takes one, --data.help NAME shows its settings; docs/data says more."


def data(argv: list[str]) -> int:
    """Draw who holds which samples."""
    if "--list" in argv:
        return listed([word for word in argv if word != "--list"])
    if answered("data", argv, _extra):
        return 0
    from flcluster.datamodules.pictures.clients import draw_clients
    from flcluster.engine.arguments import with_dashes
    from flcluster.engine.config import Plan, fit_parser
    from flcluster.engine.fit import instantiated

    parser = fit_parser("flcluster data")
    _extra(parser)
    settings = parser.parse_args(with_dashes(argv))
    made = instantiated(Plan(parser, settings, Path("."), None)).data
    made.prepare_data()
    made.setup("fit")
    draw_clients(made, Path(settings.output))
    print(f"wrote {settings.output}")
    return 0


def listed(words: list[str]) -> int:
    """List the datamodules."""
    loading("data", [])
    from flcluster.cli.listing import show

    show("Data (files of datamodules/)", rows(), words, CAPTION)
    return 0


def rows() -> "list[Cells]":
    """Return a row for each datamodule."""
    from flcluster.cli.listing import classes_of, file_of, summary_of
    from flcluster.data import FederatedDataModule

    found = classes_of("datamodules", FederatedDataModule)
    return [{"Data": kind.__name__, "What it is": summary_of(kind), "File": file_of(kind)} for kind in found]


def _extra(parser: ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="List the datasets; words after it choose among them.")
    parser.add_argument("--output", type=str, default="clients.png", help="PNG to write.")
