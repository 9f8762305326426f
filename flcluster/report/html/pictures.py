"""Pictures that runs left behind and that the page does not draw itself: who holds what, synthetic samples."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from flcluster.report.html.blocks import Block, notes, section
from flcluster.report.html.group import Group

DRAWN = {"accuracy", "mixtures", "drift", "network"}
"""Pictures whose numbers the page draws."""


TITLES = {"data": "who holds what", "synthetic": "synthetic samples", "interpolation": "friends and own models mixed"}


LARGEST, TOGETHER = 800_000, 2_000_000
"""Bytes of a picture, and of all of a page."""


def pictures_section(groups: Sequence[Group]) -> Block | None:
    """Return the pictures of each group's first run, each once; those that are too large are named."""
    images, left, seen, room = [], [], set(), TOGETHER
    for group in groups:
        for path in found(group.first.path):
            content = path.read_bytes()
            digest = hashlib.sha256(content).digest()
            if digest in seen:
                continue
            seen.add(digest)
            if len(content) > min(LARGEST, room):
                left.append(f"{path} is left out: it has {len(content) / 1e6:.1f} MB.")
                continue
            room -= len(content)
            images.append({"title": f"{group.name}: {TITLES.get(path.stem, path.stem)}", "src": as_data(content)})
    block = {"kind": "pictures", "images": images} if images else None
    return section("pictures", "Data and samples", [block, notes(left)])


def found(folder: Path) -> list[Path]:
    """Return the PNG files of a run's directory that the page has nothing of, the data first."""
    names = sorted(path for path in folder.glob("*.png") if path.stem not in DRAWN and path.is_file())
    return sorted(names, key=lambda path: path.stem != "data")


def as_data(content: bytes) -> str:
    """Return a PNG as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(content).decode()
