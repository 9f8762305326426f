"""The page of some runs: written to a file, or served while they go on."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flcluster.cli.arguments import parser_of

if TYPE_CHECKING:
    from flcluster.records.reader import Run


def write_and_tell(runs: "Sequence[Run]", path: Path) -> None:
    """Write runs as one page and say how to open it."""
    from flcluster.report.html.page import write_page

    print(f"wrote {write_page(runs, path)}\nopen it in a browser, no network needed: {path.resolve().as_uri()}")


def watch(argv: list[str]) -> int:
    """Serve the page of runs until Ctrl-C."""
    parser = parser_of("watch")
    parser.add_argument(
        "runs", nargs="+", type=str, help="Run directories, or folders of them, also empty or yet to come."
    )
    parser.add_argument("--port", type=int, default=8765, help="Port to serve at; 0 for any that is free.")
    parser.add_argument(
        "--host",
        type=str,
        default="127.0.0.1",
        help="Address to serve at. The default is seen by this machine alone; with another one, others can read along.",
    )
    given = parser.parse_args(argv)

    from flcluster.report.html.live import server

    with server([Path(path) for path in given.runs], given.host, given.port) as served:
        host, port = served.server_address[:2]
        print(f"watching {', '.join(given.runs)}: http://{_shown(str(host))}:{port}/ (Ctrl-C ends)", flush=True)
        for path in given.runs:
            if not Path(path).exists():
                print(f"{path} is not there yet: the page waits for it", flush=True)
        try:
            served.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
