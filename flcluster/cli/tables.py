"""``flcluster tables``: what papers print."""

from pathlib import Path
from typing import TYPE_CHECKING

from flcluster.cli.arguments import parser_of
from flcluster.errors import UserError

if TYPE_CHECKING:
    from flcluster.report.tables import Grid

KINDS = (".md", ".csv")


def tables(argv: list[str]) -> int:
    """Print the papers' result tables, or write them to a file; without a name, list them."""
    parser = parser_of("tables")
    parser.add_argument("names", nargs="*", type=str, help="Tables, e.g. cdfl_table1; default: list them.")
    parser.add_argument("--output", type=str | None, default=None, help="File to write: .md, or .csv of one table.")
    given = parser.parse_args(argv)
    if given.output and Path(given.output).suffix not in KINDS:
        raise UserError(f"--output {given.output}: tables are written as {' or '.join(KINDS)}; name such a file")

    from flcluster.report.paper_tables import list_tables, paper_grid
    from flcluster.report.tables import terminal, wide_console

    grids = [paper_grid(name) for name in given.names]
    if given.output:
        write(grids, Path(given.output))
        print(f"wrote {given.output}")
        return 0
    for grid in grids:
        wide_console().print(terminal(grid))
    if not grids:
        print("\n".join(list_tables()))
    return 0


def write(grids: "list[Grid]", path: Path) -> None:
    """Write tables as Markdown, or one as CSV."""
    from flcluster.files import replacing
    from flcluster.report.tables import markdown, write_csv

    if path.suffix == ".csv":
        if len(grids) != 1:
            raise UserError(f"--output {path}: a .csv file has one table, name one (or write .md)")
        heads = grids[0].heads
        write_csv(path, heads, ([row.get(head, "") for head in heads] for row in grids[0].rows))
        return
    if not grids:
        raise UserError(f"--output {path}: name the tables to write; flcluster tables lists them")
    with replacing(path) as temporary:
        temporary.write_text("\n".join(f"# {grid.title}\n\n{markdown(grid)}\n" for grid in grids), encoding="utf-8")
