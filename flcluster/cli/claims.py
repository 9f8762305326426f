"""``flcluster claims``: what the papers say, held against what was measured."""

from pathlib import Path

from flcluster.cli.arguments import parser_of


def claims(argv: list[str]) -> int:
    """Print the papers' claims with verdicts; write the pages that are made from them."""
    parser = parser_of("claims")
    parser.add_argument("papers", nargs="*", type=str, help="Papers, e.g. FIELDING; default all.")
    parser.add_argument("--results", type=str, default="results", help="Folder of gathered runs and claims.")
    parser.add_argument(
        "--write", nargs="*", type=str, default=[], help="Pages to make of results/NAME.in: docs/results.md README.md."
    )
    given = parser.parse_args(argv)
    from dataclasses import replace

    from flcluster.engine.messages.words import did_you_mean, listed
    from flcluster.errors import UserError
    from flcluster.report.claims.grids import claims_grid, counts_grid
    from flcluster.report.claims.page import write_page
    from flcluster.report.claims.results import Results
    from flcluster.report.tables import terminal, wide_console

    results = Results(Path(given.results))
    found, console = results.papers, wide_console()
    for paper in given.papers or found:
        if paper not in found:
            raise UserError(f"no claims of {paper!r};{did_you_mean(paper, found)} There are {listed(found)}")
        console.print(terminal(replace(claims_grid(found[paper]), title=paper)))
    console.print(terminal(replace(counts_grid(found), title="Claims")))
    for page in given.write:
        write_page(results, Path(page))
        print(f"wrote {page}")
    return 0
