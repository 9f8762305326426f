"""The page itself: one file with everything in it, which neither asks a network for anything nor runs anything else."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from flcluster.errors import UserError, harmless
from flcluster.files import replacing
from flcluster.records.reader import Run
from flcluster.report.html.content import content
from flcluster.report.style import ON_DARK

SCRIPTS = ("plotly-basic.min.js", "dom.js", "theme.js", "plots.js", "blocks.js", "main.js")
"""In the order in which they are read."""


def write_page(runs: Sequence[Run], path: str | Path) -> Path:
    """Write runs as one self-contained page and return where."""
    if not runs:
        raise UserError("There is no run to report on: give at least one finished run's directory.")
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of the file to write, e.g. {path / 'report.html'}")
    with replacing(path) as temporary:
        temporary.write_text(page(content(runs)), encoding="utf-8")
    return path


def page(told: dict[str, Any], live: bool = False) -> str:
    """Return the page that shows what ``content`` returned; a live one asks its server for more."""
    scripts = [asset(name) for name in SCRIPTS]
    parts = {
        "POLICY": policy(scripts, live),
        "TITLE": html.escape(harmless(told["title"])),
        "STYLE": asset("page.css"),
        "DATA": as_script({**told, "live": live, "dark": ON_DARK}),
        "SCRIPTS": "\n".join(f"<script>{text}</script>" for text in scripts),
    }
    text = asset("page.html")
    pieces = text.split("@@")
    return "".join(parts[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def policy(scripts: Sequence[str], live: bool) -> str:
    """Return what the page may do: run its own scripts, known by their hashes, and show pictures that it holds."""
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in scripts)
    asks = " connect-src 'self';" if live else ""
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:;{asks} "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """Return a file that pages are made of."""
    return resources.files("flcluster.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def as_script(told: Any) -> str:
    """Return data as JSON that no browser reads as mark-up, whatever names are in it."""
    text = json.dumps(told, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
