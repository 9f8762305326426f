"""A page of runs that go on: what their files say now, read again when they change, served to this machine."""

import hashlib
import html
import json
import socket
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flcluster.errors import UserError
from flcluster.records.running import FILES, load_running, running_directories
from flcluster.report.html.content import content
from flcluster.report.html.page import page

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


class Watched:
    """What is shown of some directories, made anew when a file of theirs has changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self.lock = threading.Lock()
        self.seen: object = None
        self.text, self.tag = "", ""

    def now(self) -> tuple[str, str]:
        """Return the content as JSON, and its hash."""
        with self.lock:
            if (seen := self._state()) != self.seen:
                self.text = json.dumps(self._told(), separators=(",", ":"), allow_nan=False)
                self.tag = f'"{hashlib.sha256(self.text.encode()).hexdigest()[:20]}"'
                self.seen = seen
            return self.text, self.tag

    def _directories(self) -> list[Path]:
        return list(dict.fromkeys(found for path in self.paths for found in running_directories(path)))

    def _state(self) -> object:
        files = [folder / name for folder in self._directories() for name in FILES]
        stats = [(file, file.stat()) for file in files if file.exists()]
        return [(file, stat.st_mtime_ns, stat.st_size) for file, stat in stats]

    def _told(self) -> dict[str, Any]:
        """Return the content of the page; of files that cannot be read, what is wrong with them."""
        waiting = {"title": "Waiting for a run", "said": "", "state": "waiting"}
        try:
            runs = [run for folder in self._directories() if (run := load_running(folder)) is not None]
            if runs:
                return content(sorted(runs, key=lambda run: str(run.path)))
            lines = [f"{path} {'has no numbers' if path.exists() else 'is not there'} yet." for path in self.paths]
        except (UserError, OSError, ValueError) as error:  # a file may be read as it is being written
            lines = [str(error)]
        block = {"kind": "notes", "title": "", "lines": lines}
        return {**waiting, "sections": [{"id": "waiting", "title": "Nothing to show", "intro": "", "blocks": [block]}]}


class Handler(BaseHTTPRequestHandler):
    """Answers GET of the page and of its data; nothing that a request names is looked for on disk."""

    watched: Watched
    hosts: frozenset[str] | None
    server_version, sys_version = "flcluster", ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Send the page or its data."""
        if not self._is_addressed():
            self._refuse(HTTPStatus.FORBIDDEN, "this server is another's name: ask for it as 127.0.0.1 or localhost")
        elif self.path == "/":
            self._send(page(json.loads(self.watched.now()[0]), live=True), "text/html; charset=utf-8")
        elif self.path == "/data.json":
            text, tag = self.watched.now()
            if self.headers.get("If-None-Match") == tag:
                self._send("", "application/json", HTTPStatus.NOT_MODIFIED, tag)
            else:
                self._send(text, "application/json", tag=tag)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is only /")

    def _is_addressed(self) -> bool:
        """Say whether a request is meant for this machine: no other site may read runs through a reader's browser."""
        name = self.headers.get("Host", "")
        return self.hosts is None or name.rpartition(":")[0] in self.hosts or name in self.hosts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return lambda: self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "only GET")
        raise AttributeError(name)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._send(html.escape(why) + "\n", "text/plain; charset=utf-8", status)

    def _send(self, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK, tag: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        headers |= {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}
        headers |= {"ETag": tag} if tag else {}
        headers |= {"Allow": "GET"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing: the terminal is the reader's."""


def server(paths: Sequence[Path], host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the page of some directories, bound but not yet serving."""
    wrong = [path for path in paths if path.exists() and not path.is_dir()]
    if wrong:
        raise UserError(f"{wrong[0]} is not a directory: give a run's directory, or a folder that holds some")
    hosts = frozenset(LOOPBACK) if host in LOOPBACK else None
    handler = type("WatchHandler", (Handler,), {"watched": Watched(paths), "hosts": hosts})
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    kind = type("WatchServer", (ThreadingHTTPServer,), {"address_family": family})
    try:
        made: ThreadingHTTPServer = kind((host, port), handler)
        return made
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot serve at {host}:{port} ({error}): give another --port, or 0 for any") from error
