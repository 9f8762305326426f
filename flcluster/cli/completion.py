"""``flcluster completion``: a script with which a shell completes commands, keys and the names of classes."""

import argparse
import io
import os
import re
from contextlib import redirect_stdout, suppress
from unittest.mock import patch

from flcluster.cli import COMMANDS, command
from flcluster.cli.arguments import loading, parser_of
from flcluster.errors import UserError

SHELLS = ("bash", "zsh", "tcsh")
RUNNING = ("fit", "compare", "study", "data", "drift")
"""Commands that take what fit takes."""
FILES = ("--config", "--base", "--output", "--run_dir", "--ckpt_path", "--model_start")


def completion(argv: list[str]) -> int:
    """Print the script; a shell reads it when it starts."""
    parser = parser_of("completion")
    parser.add_argument("shell", type=str, help=f"One of {', '.join(SHELLS)}.")
    given = parser.parse_args(argv)
    if given.shell not in SHELLS:
        raise UserError(f"there is no completion for {given.shell}: choose one of {', '.join(SHELLS)}")
    try:
        import shtab
    except ImportError:
        raise UserError("completion needs the package shtab: pip install 'flcluster[completion]'") from None
    loading("completion", argv)
    print(shtab.complete(everything(), given.shell))
    return 0


def everything() -> argparse.ArgumentParser:
    """Return a parser that knows all commands, keys and names: nothing is parsed with it."""
    import shtab

    parser = argparse.ArgumentParser(prog="flcluster", add_help=False)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--help", action="store_true")
    subparsers = parser.add_subparsers()
    names, keys = names_of_parts(), keys_of_parts()
    for name, told in COMMANDS.items():
        each = subparsers.add_parser(name, help=told.replace("%", "%%"), add_help=False)
        own = [option for option in options_of(name) if not option.endswith(".KEY")]
        for option in dict.fromkeys([*own, *(keys if name in RUNNING else [])]):
            action = each.add_argument(option, choices=names.get(option.removesuffix(".help")))
            if option in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        each.add_argument("files", nargs="*").complete = shtab.FILE  # type: ignore[attr-defined]
    return parser


def options_of(name: str) -> list[str]:
    """Return the options that a command's ``--help`` names, those of fit with them where it takes these."""
    said = io.StringIO()
    with patch.dict(os.environ, {"COLUMNS": "500"}), redirect_stdout(said), suppress(SystemExit):
        command(name)(["--help"])
    lines = re.findall(r"^  (-.*?)(?:  |$)", said.getvalue(), re.MULTILINE)
    own = [option for line in lines for option in re.findall(OPTION, line)]
    return own + (options_of("fit") if name in RUNNING and name != "fit" else [])


OPTION = r"--[A-Za-z_][\w.]*"


def names_of_parts() -> dict[str, list[str]]:
    """Return the classes that can be named, by option."""
    from flcluster.engine.config import fit_parser
    from flcluster.engine.messages.classes import actions, bases, known

    hints = actions(fit_parser())
    found = {f"--{part}": known(bases(hints[part])) for part in ("data", "model", "algorithm", "logger")}
    return {option: sorted(names) for option, names in found.items()}


def keys_of_parts() -> list[str]:
    """Return the settings of all methods, datamodules and models as options, each once."""
    from flcluster.engine.config import fit_parser
    from flcluster.engine.messages.classes import actions, bases, known, parameters

    hints, found = actions(fit_parser()), list[str]()
    for part in ("data", "model", "algorithm"):
        ours = [kind for kind in known(bases(hints[part])).values() if kind.__module__.startswith("flcluster.")]
        keys = dict.fromkeys(key for kind in ours for key in parameters(kind) if "." not in key)
        found += [f"--{part}.{key}" for key in sorted(keys)]
    return found
