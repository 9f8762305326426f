"""The one kind of error a user is meant to read: what is wrong, where, and what to do; and the checks that raise it."""

import errno
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NoReturn

ALGORITHM = "algorithm."


class UserError(Exception):
    """A mistake in configuration, data or files; the command line prints the message alone and exits."""

    exit_code: ClassVar[int] = 2


class UnwritableError(UserError):
    """A file that the system does not let us write: the disk is full, or the folder is another's."""


def unwritable(path: object, error: OSError) -> UnwritableError:
    """Say in one line what cannot be written, why, and what to do.

    >>> print(unwritable("a/last.ckpt", OSError(errno.ENOSPC, "No space left on device")))
    a/last.ckpt cannot be written: the disk is full: make room
    """
    return UnwritableError(f"{path} cannot be written: {WHY.get(error.errno or 0, error.strerror or str(error))}")


FULL = "the disk is full: make room"
CLOSED = "you may not write to its folder: name another, or have it opened"
WHY = {
    **dict.fromkeys((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)), FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), CLOSED),
    errno.EIO: "the disk has an error",
}
"""Why the system may refuse to write, and what to do."""


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Say which file it was if what the block writes cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in WHY or not _of(path, error.filename):
            raise
        raise unwritable(path, error) from error


def _of(path: object, named: object) -> bool:
    """Say whether an error that names a file is of this one, its draft or its folders."""
    if not isinstance(named, str | bytes):
        return True
    mine, its = Path(str(path)), Path(os.fsdecode(named))
    return mine.is_relative_to(its) or its.parent == mine.parent


class BusyError(UserError):
    """What is asked for is being done, or was just begun, by another process: nobody's mistake, to be tried again."""

    exit_code: ClassVar[int] = 75  # EX_TEMPFAIL of sysexits.h


def harmless(text: str) -> str:
    """Return text that a terminal can be shown: control characters are spelled out, and no word is pages long.

    >>> harmless("a" + chr(27) + "[31m b")
    'a\\\\x1b[31m b'
    """
    short = re.sub(r"\S{400,}", lambda word: f"{word[0][:200]}…{word[0][-40:]}", text)
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda c: repr(c[0])[1:-1], short)


def brief(text: str, most: int = 60) -> str:
    """Return a text of anybody's as a message quotes it: in quotes, and not long.

    >>> brief("soon"), brief("9" * 99, 4)
    ("'soon'", "'9999…'")
    """
    return repr(text if len(text) <= most else f"{text[:most]}…")


class LostError(UserError):
    """A process of several is gone, and with it this part of the run: to be gone on with, by a scheduler too."""

    exit_code: ClassVar[int] = 69  # EX_UNAVAILABLE of sysexits.h

    def __init__(self, message: str, heard: bool = True) -> None:
        super().__init__(message)
        self.heard = heard
        """Whether this process is to say it; where several stand side by side one is enough."""


def refuse(name: str, must: str, value: object, prefix: str = ALGORITHM) -> NoReturn:
    """Refuse a setting by its key, ``prefix`` and ``name``."""
    raise UserError(f"{prefix}{name} must be {must}, got {value}")


def at_least(name: str, value: float, least: float, prefix: str = ALGORITHM) -> None:
    """Refuse a setting below its smallest value."""
    if not value >= least:
        refuse(name, f"at least {least}", value, prefix)


def above(name: str, value: float, limit: float, prefix: str = ALGORITHM) -> None:
    """Refuse a setting that is not larger than a limit, or infinite."""
    if not limit < value < math.inf:
        refuse(name, f"above {limit} and finite", value, prefix)


def file_named(name: str, path: object, prefix: str = ALGORITHM) -> None:
    """Refuse an empty name of a file, which would be that of a folder."""
    if path is not None and not str(path).strip():
        raise UserError(f"{prefix}{name} is empty: name a file")


def probability(name: str, value: float, prefix: str = ALGORITHM) -> None:
    """Refuse what is no probability."""
    if not 0 <= value <= 1:
        refuse(name, "in [0, 1]", value, prefix)
