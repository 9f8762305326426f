"""``flcluster tables``: what papers print."""

from flcluster.cli.arguments import parser_of


def tables(argv: list[str]) -> int:
    """Print the papers' result tables; without a name, list them."""
    parser = parser_of("tables")
    parser.add_argument("names", nargs="*", type=str, help="Tables, e.g. cdfl_table1.")
    given = parser.parse_args(argv)

    from flcluster.report.paper_tables import list_tables, paper_table
    from flcluster.report.tables import wide_console

    for name in given.names:
        wide_console().print(paper_table(name))
    if not given.names:
        print("\n".join(list_tables()))
    return 0
