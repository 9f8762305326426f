"""A process that ends at once when it is done."""

import atexit
import logging
import os
import sys
from collections.abc import Callable


def end_quickly() -> Callable[[int], None]:
    """Return what takes this process's exit code; with one, Python leaves at its end what is in memory as it is.

    To take libraries apart once more takes seconds. What was registered after this call to be done at the end is done;
    without an exit code all is as ever.
    """
    codes: list[int] = []

    def leave() -> None:
        if codes:
            logging.shutdown()
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(codes[-1])

    atexit.register(leave)
    return codes.append
