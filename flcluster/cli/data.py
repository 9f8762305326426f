"""``flcluster data``: who holds what."""

from pathlib import Path

from jsonargparse import ArgumentParser

from flcluster.cli.arguments import answered


def data(argv: list[str]) -> int:
    """Draw who holds which samples."""
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


def _extra(parser: ArgumentParser) -> None:
    parser.add_argument("--output", type=str, default="clients.png", help="PNG to write.")
