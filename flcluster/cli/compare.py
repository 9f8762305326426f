"""Several methods on the same data, arrivals and budget: one run each, then one table and one set of pictures."""

import argparse
from pathlib import Path

from flcluster.cli.processes import refuse_places, run_all, with_seed
from flcluster.engine.arguments import option, with_dashes
from flcluster.engine.resume import named_after, new_directory


def compare(argv: list[str]) -> int:
    """Run ``flcluster fit`` once per method and seed; what is there already goes on where it stopped."""
    parser = argparse.ArgumentParser(
        prog="flcluster compare",
        description="Run several methods on the same data and arrivals. Everything else is handed to flcluster fit.",
        allow_abbrev=False,
    )
    parser.add_argument("--methods", nargs="+", required=True, help="Algorithm classes, e.g. CDFL Local.")
    parser.add_argument("--seeds", nargs="+", type=int, default=None, help="Seeds to repeat with.")
    parser.add_argument("--output", type=Path, default=None, help="Folder of the runs; default runs/<config>/<time>.")
    given, rest = parser.parse_known_args(with_dashes(argv))
    refuse_places("compare", rest)
    configs = option(rest, "config")
    output = given.output or new_directory(Path("runs") / (named_after(Path(configs[-1])) if configs else "compare"))
    jobs = [
        with_seed(method.rpartition(".")[2], [*rest, "--algorithm", method], seed)
        for seed in given.seeds or [None]
        for method in given.methods
    ]
    if code := run_all(output, jobs):
        return code

    from flcluster.cli.watch import write_and_tell
    from flcluster.records.reader import load_runs
    from flcluster.report.report import summary_table, write_report
    from flcluster.report.tables import wide_console

    runs = load_runs([*(output / name for name, _ in jobs), output])
    console = wide_console()
    console.print(summary_table(runs))
    for path in write_report(runs, output):
        console.print(f"wrote {path}", highlight=False)
    write_and_tell(runs, output / "report.html")
    return 0
