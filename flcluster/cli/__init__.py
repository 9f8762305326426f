"""The command ``flcluster``: fit, compare, study, report, gather, data, drift, convert, export, tables."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from flcluster import __version__
from flcluster.errors import UserError
from flcluster.federation.ranks import is_main_process


def fit_command(argv: list[str]) -> int:
    """Run one method: --config A.yaml [--config B.yaml …] [--key value …]."""
    from flcluster.engine.config import plan_fit
    from flcluster.engine.fit import build, elsewhere, fit
    from flcluster.engine.loggers import keep_pictures
    from flcluster.engine.process import exit_code
    from flcluster.engine.resume import tidy
    from flcluster.records.reader import Run
    from flcluster.report.report import summary_table
    from flcluster.report.tables import wide_console

    plan = plan_fit(argv)
    with tidy(plan.run_dir):
        exp = build(plan)
        summary = fit(exp)
    if not is_main_process():
        return 0
    if summary["updates"] and exp.engine.pictures:
        pictures = draw_run(exp.run_dir)
        if not elsewhere(exp.fabric):
            keep_pictures(exp.loggers, pictures)
    if summary["updates"] and exp.engine.table:
        wide_console().print(summary_table([Run.load(exp.run_dir)]))
    return exit_code(summary["status"])


def draw_run(run_dir: Path) -> list[Path]:
    """Draw a run's pictures into its directory: here, not in the engine, so that no other process loads matplotlib."""
    from flcluster.records.reader import Run
    from flcluster.report.figures.of_run import run_pictures

    pictures = run_pictures(Run.load(run_dir))
    for path in pictures:
        print(f"drew {path}", file=sys.stderr)
    return pictures


def compare_command(argv: list[str]) -> int:
    """Run several methods on the same data and arrivals, then report: --methods A B … and what fit takes."""
    from flcluster.cli.compare import compare

    return compare(argv)


def study_command(argv: list[str]) -> int:
    """Run a study's variants and draw its figures and table: STUDY.yaml [--seeds …] [--only …] and what fit takes."""
    from flcluster.cli.study import study

    return study(argv)


def report_command(argv: list[str]) -> int:
    """Print runs beside the papers' numbers and draw the papers' figures: RUN [RUN …] [--output DIR]."""
    from jsonargparse import ArgumentParser

    from flcluster.records.reader import load_runs
    from flcluster.report.report import print_tables, write_report

    parser = ArgumentParser(prog="flcluster report", description=report_command.__doc__)
    parser.add_argument("runs", nargs="+", type=str, help="Run directories, or folders of them.")
    parser.add_argument("--output", type=str | None, default=None, help="Where report.md, .csv, .tex and pictures go.")
    given = parser.parse_args(argv)
    runs = load_runs([Path(p) for p in given.runs])
    print_tables(runs)
    if given.output:
        write_report(runs, Path(given.output))
        print(f"wrote {given.output}/report.md")
    return 0


def gather_command(argv: list[str]) -> int:
    """Keep the numbers of finished runs in one small CSV file: RUN [RUN …] --output results/NAME.csv."""
    from flcluster.cli.gather import gather

    return gather(argv)


def data_command(argv: list[str]) -> int:
    """Draw who holds what: takes what fit takes, and --output FILE.png (default clients.png)."""
    from flcluster.datamodules.pictures.clients import draw_clients
    from flcluster.engine.config import Plan, fit_parser, with_dashes
    from flcluster.engine.fit import instantiated

    parser = fit_parser("flcluster data")
    parser.add_argument("--output", type=str, default="clients.png", help="PNG to write.")
    settings = parser.parse_args(with_dashes(argv))
    data = instantiated(Plan(parser, settings, Path("."), None)).data
    data.prepare_data()
    data.setup("fit")
    draw_clients(data, Path(settings.output))
    print(f"wrote {settings.output}")
    return 0


def drift_command(argv: list[str]) -> int:
    """Tell how far a stream drifts and draw its labels over time: takes what fit takes, and --output FILE.png."""
    from flcluster.cli.drift import drift

    return drift(argv)


def convert_command(argv: list[str]) -> int:
    """Make a manifest from a dataset's published files: KIND SOURCE OUTPUT.csv."""
    from jsonargparse import ArgumentParser

    from flcluster.datamodules.traces.convert import convert

    parser = ArgumentParser(prog="flcluster convert", description=convert_command.__doc__)
    parser.add_argument("kind", type=str, help="fmow, cityscapes, cityscapes_frames, waymo or open_images.")
    parser.add_argument("source", type=str, help="Folder of the dataset.")
    parser.add_argument("output", type=str, help="Manifest to write.")
    given = parser.parse_args(argv)
    print(f"wrote {convert(given.kind, given.source, given.output)}")
    return 0


def export_command(argv: list[str]) -> int:
    """Write one model of a run as a plain Lightning checkpoint: RUN --cluster K | --client M [--output FILE]."""
    from flcluster.cli.export import export

    return export(argv)


def tables_command(argv: list[str]) -> int:
    """Print the papers' result tables: [NAME …]; without a name, list them."""
    from flcluster.report.paper_tables import list_tables, paper_table
    from flcluster.report.tables import wide_console

    for name in argv or []:
        wide_console().print(paper_table(name))
    if not argv:
        print("\n".join(list_tables()))
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "fit": fit_command,
    "compare": compare_command,
    "study": study_command,
    "report": report_command,
    "gather": gather_command,
    "data": data_command,
    "drift": drift_command,
    "convert": convert_command,
    "export": export_command,
    "tables": tables_command,
}


def usage() -> str:
    """Return what ``flcluster --help`` prints."""
    lines = [f"  {name:<9}{(command.__doc__ or '').strip()}" for name, command in COMMANDS.items()]
    return "usage: flcluster COMMAND …\n\n" + "\n".join(lines) + "\n\nflcluster COMMAND --help tells more."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; mistakes of the user become one message and exit code 2."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        print(usage())
        return 0
    if args[0] == "--version":
        print(f"flcluster {__version__}")
        return 0
    if args[0] not in COMMANDS:
        print(f"flcluster: unknown command {args[0]!r}\n\n{usage()}", file=sys.stderr)
        return 2
    try:
        return COMMANDS[args[0]](args[1:])
    except (UserError, OSError) as error:
        rank = "" if is_main_process() else f" (rank {os.environ.get('RANK', os.environ.get('LOCAL_RANK'))})"
        print(f"flcluster {args[0]}{rank}: {error}", file=sys.stderr)
        return 2
