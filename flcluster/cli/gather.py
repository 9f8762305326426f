"""``flcluster gather``: finished runs as rows of one small CSV file that outlives their directories."""

from pathlib import Path

from flcluster.cli.arguments import parser_of


def gather(argv: list[str]) -> int:
    """Write a row for every finished run into a CSV file, its curves beside it; rows of other runs stay."""
    parser = parser_of("gather")
    parser.add_argument("runs", nargs="+", type=str, help="Run directories, or folders of them.")
    parser.add_argument("--output", type=str, required=True, help="CSV file, e.g. results/NAME.csv.")
    given = parser.parse_args(argv)
    from flcluster.records.reader import load_runs
    from flcluster.report.gathered.curves import path_beside, write_curves
    from flcluster.report.gathered.rows import merged, read_rows, row_of, write_rows

    runs = load_runs(given.runs)
    finished = [run for run in runs if run.summary.get("status") == "finished"]
    path = Path(given.output)
    rows = merged(read_rows(path) if path.exists() else [], map(row_of, finished))
    write_curves(finished, path_beside(path))
    write_rows(rows, path)
    left = f"; left out {len(runs) - len(finished)} that have not finished" if len(finished) < len(runs) else ""
    print(f"wrote {path}: {len(rows)} rows, {len(finished)} of them from these runs{left}")
    return 0
