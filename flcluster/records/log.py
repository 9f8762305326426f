"""A run's own log: what progress and warnings said, with the time, in ``run.log``."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import format_exception
from typing import TextIO

from flcluster.errors import UserError
from flcluster.records.masked import hiding


class RunLog:
    """A file that grows line by line, also when a run goes on; without a path nothing is kept, and secrets never."""

    def __init__(self, path: Path | None, secrets: Sequence[str] = ()) -> None:
        self.path = path
        self.hide = hiding(secrets)

    def write(self, text: str) -> None:
        """Append what was said."""
        if self.path is None:
            return
        with suppress(OSError), self.path.open("a", encoding="utf-8") as file:  # a full disk: others will tell
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {self.hide(text)}\n")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Keep warnings, which are shown as before, and what ended the run; what was no refusal with where it arose."""
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            self.write(f"{category.__name__}: {message}")
            shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        try:
            yield
        except BaseException as error:
            if not isinstance(error, UserError):
                self.write("".join(format_exception(error)).rstrip())
            self.write(f"ended by {type(error).__name__}: {error}")
            raise
        finally:
            warnings.showwarning = shown
