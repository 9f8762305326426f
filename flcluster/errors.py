"""The one kind of error a user is meant to read: what is wrong, where, and what to do; and the checks that raise it."""

import math
from typing import ClassVar, NoReturn

ALGORITHM = "algorithm."


class UserError(Exception):
    """A mistake in configuration, data or files; the command line prints the message alone and exits."""

    exit_code: ClassVar[int] = 2


class BusyError(UserError):
    """What is asked for is being done, or was just begun, by another process: nobody's mistake, to be tried again."""

    exit_code: ClassVar[int] = 75  # EX_TEMPFAIL of sysexits.h


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
