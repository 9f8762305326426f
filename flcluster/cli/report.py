"""``flcluster report``: runs beside the papers."""

from pathlib import Path

from flcluster.cli.arguments import parser_of


def report(argv: list[str]) -> int:
    """Print runs beside the papers' numbers and draw the papers' figures."""
    parser = parser_of("report")
    parser.add_argument("runs", nargs="+", type=str, help="Run directories, or folders of them.")
    parser.add_argument("--output", type=str | None, default=None, help="Where report.md, .csv, .tex and pictures go.")
    parser.add_argument(
        "--html", type=str | None, default=None, help="One page to open in a browser, e.g. report.html."
    )
    given = parser.parse_args(argv)

    from flcluster.cli.watch import write_and_tell
    from flcluster.records.reader import load_runs
    from flcluster.report.report import print_tables, write_report

    runs = load_runs([Path(p) for p in given.runs])
    print_tables(runs)
    if given.output:
        write_report(runs, Path(given.output))
        print(f"wrote {given.output}/report.md")
    if given.html:
        write_and_tell(runs, Path(given.html))
    return 0
