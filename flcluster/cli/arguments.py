"""What commands have in common before they load anything: their parsers, ``--help``, and the first line they say."""

import sys
from collections.abc import Callable, Sequence

from jsonargparse import ArgumentParser

from flcluster.cli import COMMANDS
from flcluster.engine.arguments import help_parser, option
from flcluster.engine.process import is_main_process

Extra = Callable[[ArgumentParser], None]
"""Adds what a command takes beside a run's settings."""


def parser_of(command: str, told: str | None = None) -> ArgumentParser:
    """Return a parser that is called like a command and says what that does."""
    return ArgumentParser(prog=f"flcluster {command}", description=told or COMMANDS[command], allow_abbrev=False)


def answered(command: str, argv: Sequence[str], extra: Extra | None = None) -> bool:
    """Answer ``--help`` of a command that takes a run's settings; otherwise say that its libraries are loaded now."""
    if "--help" in argv or "-h" in argv:
        parser = help_parser(f"flcluster {command}", COMMANDS[command])
        if extra is not None:
            extra(parser)
        parser.print_help()
        return True
    loading(command, argv)
    return False


def loading(command: str, argv: Sequence[str]) -> None:
    """Say that a command has begun: PyTorch and Lightning take seconds to load, in which nothing else is said."""
    quiet = option(list(argv), "engine.progress")[-1:] == ["false"]
    if "lightning" not in sys.modules and is_main_process() and not quiet:
        print(f"flcluster {command}: loading PyTorch and Lightning …", file=sys.stderr, flush=True)
