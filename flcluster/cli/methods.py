"""``flcluster methods``: which methods there are."""

from typing import TYPE_CHECKING

from flcluster.cli.arguments import loading, parser_of

if TYPE_CHECKING:
    from flcluster.report.tables import Cells

CAPTION = "flcluster fit --algorithm NAME takes one, --algorithm.help NAME shows its settings; docs/methods says more."


def methods(argv: list[str]) -> int:
    """List the methods."""
    parser = parser_of("methods")
    parser.add_argument("words", nargs="*", type=str, help="Only those with these words in their line, e.g. gossip.")
    given = parser.parse_args(argv)
    loading("methods", argv)

    from flcluster.cli.listing import show

    show("Methods (files of algorithms/)", rows(), given.words, CAPTION)
    return 0


def rows() -> "list[Cells]":
    """Return a row for each method."""
    from flcluster.cli.listing import classes_of, file_of, summary_of
    from flcluster.protocol.base import Algorithm

    kinds = classes_of("algorithms", Algorithm)
    papers = [getattr(kind, "paper", "") or "–" for kind in kinds]
    return [
        {"Method": kind.__name__, "What it does": summary_of(kind), "Paper": paper, "File": file_of(kind)}
        for kind, paper in zip(kinds, papers, strict=True)
    ]
