"""Files that are there whole or not at all, and names for them."""

import errno
import json
import math
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from flcluster.errors import UserError, writing

LAST = "last.ckpt"
PREVIOUS = "previous.ckpt"


def last_checkpoint(run: Path) -> Path:
    """Return where a run's checkpoint lies."""
    return run / "checkpoints" / LAST


def has_checkpoint(run: Path) -> bool:
    """Say whether there is one that a run can go on from."""
    return last_checkpoint(run).exists() or last_checkpoint(run).with_name(PREVIOUS).exists()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; what is written there takes its place when the block ends well."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")  # processes of two machines have the same numbers
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def reserve(path: Path, size: int) -> None:
    """Make a file at least so long, with room on the disk for all of it.

    A page of a mapped file that finds no room as it is written ends the process by a signal; so room is made before.
    Processes that share the file do it one after the other.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file, _alone(file.fileno()):
            have = os.fstat(file.fileno()).st_size
            if have < size and not _allocated(file.fileno(), have, size - have):
                for start in range(have, size, 2**20):
                    file.write(bytes(min(2**20, size - start)))


def _allocated(file: int, start: int, length: int) -> bool:
    """Ask the system for room; say whether it can do that."""
    if not hasattr(os, "posix_fallocate"):  # macOS, Windows
        return False
    try:
        os.posix_fallocate(file, start, length)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV):  # not on this file system
            return False
        raise
    return True


@contextmanager
def _alone(file: int) -> Iterator[None]:
    """Have a file's lock while the block runs, where there are such locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)  # given up as the file is closed
    except (ImportError, OSError):
        pass
    yield


def read_text(path: Path) -> str:
    """Return what a text file in UTF-8 holds, with or without a byte order mark; refuse others by name and line."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error})") from error
    try:
        text = raw.decode("utf-8-sig")
        wrong, what = text.find("\0"), "a character of value 0"
    except UnicodeDecodeError as error:
        wrong, what = error.start, f"the byte 0x{raw[error.start]:02x}"
    if wrong >= 0:
        line = 1 + raw[:wrong].count(b"\n")
        raise UserError(f"{path}, line {line}: {what} is not text in UTF-8: save the file as UTF-8, or replace it")
    return text


def slug(name: str) -> str:
    """Return a name that is safe in a path.

    >>> slug("FedYogi + FIELDING")
    'FedYogi_FIELDING'
    """
    return re.sub(r"[^\w.-]+", "_", name).strip("_")


def run_folder(name: str, seed: int | None = None) -> str:
    """Return what the directory of a run is called in a comparison.

    >>> run_folder("CDFL, gentle", 3)
    'CDFL_gentle-seed3'
    """
    return slug(name) if seed is None else f"{slug(name)}-seed{seed}"


def refuse_alike(names: Sequence[str], where: str) -> None:
    """Refuse names of which directories cannot be told apart."""
    if wrong := [name for name in names if not slug(name).strip(".") or re.search(r"-seed\d+$", slug(name))]:
        raise UserError(f"{where}: {wrong[0]!r} gives no directory name of its own; call it something else")
    folders = [slug(name).lower() for name in names]
    if alike := [name for name in names if folders.count(slug(name).lower()) > 1]:
        raise UserError(f"{where}: {', '.join(alike)} would share one directory; tell them apart in letters or digits")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all; JSON has no NaN and no infinity, so they become null."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(_finite(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """Return a tree of values with null where a number is none, or infinite."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_config(path: Path, config: dict[str, Any]) -> None:
    """Write the resolved configuration whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def between(page: str, begin: str, end: str, text: str) -> str | None:
    """Return a page with a text between two marks; None if it has no such marks.

    >>> between("a <b> old <c> d", "<b>", "<c>", "new")
    'a <b>\\nnew\\n<c> d'
    """
    before, first, rest = page.partition(begin)
    _, last, after = rest.partition(end)
    return f"{before}{begin}\n{text.strip()}\n{end}{after}" if first and last else None
