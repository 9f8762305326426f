"""The command ``flcluster``. A command is a file of this folder, with a function of its name that takes its arguments.

Nothing is imported here that takes time: ``--version`` and ``--help`` answer at once, and every command loads what it
needs when it runs.
"""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from shutil import get_terminal_size
from textwrap import fill

from flcluster import __version__
from flcluster.engine.processes.quick import end_quickly
from flcluster.engine.threads import wait_passively
from flcluster.errors import UserError, harmless
from flcluster.given import blamed

COMMANDS: dict[str, str] = {
    "fit": "Run one method: --config A.yaml [--config B.yaml …] [--key value …].",
    "compare": "Run several methods on the same data and arrivals, then report: --methods A B … and what fit takes.",
    "study": "Run a study's variants, draw its figures and table: STUDY.yaml [--seeds …] [--only …], what fit takes.",
    "report": "Print runs beside the papers' numbers, draw figures or a page: RUN [RUN …] [--output DIR] [--html F].",
    "watch": "Serve the page of runs while they go on, to this machine's browser: RUN [RUN …] [--port N].",
    "gather": "Keep the numbers of finished runs in one small CSV file: RUN [RUN …] --output results/NAME.csv.",
    "methods": "List the methods, one line each: [WORD …] keeps those with these words.",
    "data": "Draw who holds what: takes what fit takes, and --output FILE.png (default clients.png); "
    "--list [WORD …] lists the datasets.",
    "drift": "Tell how far a stream drifts and draw its labels over time: takes what fit takes, and --output FILE.png.",
    "convert": "Make a manifest from a dataset's published files: KIND SOURCE OUTPUT.csv.",
    "predict": "Write what a model of a run predicts: RUN --cluster K | --client M [--split test] [--output FILE].",
    "export": "Write one model of a run as a plain Lightning checkpoint: RUN --cluster K | --client M [--output FILE].",
    "completion": "Print a script with which a shell completes commands, keys and names: bash, zsh or tcsh.",
    "claims": "Hold what the papers say against results/, claim by claim: [PAPER …] [--write PAGE …].",
    "tables": "Print the papers' result tables: [NAME …] [--output FILE.md]; without a name, list them.",
}
"""What there is, by name, and what ``--help`` says of it."""


def command(name: str) -> Callable[[list[str]], int]:
    """Load a command."""
    function: Callable[[list[str]], int] = getattr(import_module(f"flcluster.cli.{name}"), name)
    return function


def usage() -> str:
    """Return what ``flcluster --help`` prints."""
    width = min(get_terminal_size().columns, 120)
    lines = [fill(f"  {name:<11}{told}", width, subsequent_indent=" " * 13) for name, told in COMMANDS.items()]
    return "usage: flcluster COMMAND …\n\n" + "\n".join(lines) + "\n\nflcluster COMMAND --help tells more."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; mistakes of the user, also in code of their own, become one message and exit code 2."""
    if argv is None:  # this process has nothing else to do
        ends_with = end_quickly()
        code = main(sys.argv[1:])
        ends_with(code)
        return code
    args = list(argv)
    if not args or args[0] in ("-h", "--help"):
        print(usage())
        return 0
    if args[0] == "--version":
        print(f"flcluster {__version__}")
        return 0
    if args[0] not in COMMANDS:
        print(f"flcluster: unknown command {args[0]!r}\n\n{usage()}", file=sys.stderr)
        return 2
    wait_passively()
    hook, threading.excepthook = threading.excepthook, _told
    try:
        return command(args[0])(args[1:])
    except Exception as error:
        told = str(error) if isinstance(error, UserError) else blamed(error)
        if told is None and not isinstance(error, OSError):
            raise
        if getattr(error, "heard", True):
            print(harmless(f"flcluster {args[0]}{_rank()}: {told or error}"), file=sys.stderr)
        return error.exit_code if isinstance(error, UserError) else 2
    finally:
        threading.excepthook = hook


def _told(args: threading.ExceptHookArgs) -> None:
    """Say in one line that a thread of a library has failed: a run does nothing there that it needs."""
    at = args.exc_traceback
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" at {at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at else ""
    why = f"{args.exc_type.__name__}: {args.exc_value}{place}"
    print(harmless(f"flcluster: a thread in the background failed, nothing else did ({why})"), file=sys.stderr)


def _rank() -> str:
    """Say which process speaks, where there are several."""
    from flcluster.engine.process import is_main_process

    return "" if is_main_process() else f" (rank {os.environ.get('RANK', os.environ.get('LOCAL_RANK'))})"
