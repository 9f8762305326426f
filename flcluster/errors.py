"""The one kind of error a user is meant to read: what is wrong, where, and what to do; and the checks that raise it."""

import math
import re
from typing import ClassVar, NoReturn

ALGORITHM = "algorithm."


class UserError(Exception):
    """A mistake in configuration, data or files; the command line prints the message alone and exits."""

    exit_code: ClassVar[int] = 2


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


def probability(name: str, value: float, prefix: str = ALGORITHM) -> None:
    """Refuse what is no probability."""
    if not 0 <= value <= 1:
        refuse(name, "in [0, 1]", value, prefix)
