"""How soon a command says something: told by what it has loaded until then, not by seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from flcluster.cli import COMMANDS
from flcluster.cli.arguments import loading
from flcluster.engine.arguments import PARTS, help_parser
from flcluster.engine.config import fit_parser

HEAVY = {"torch", "torchvision", "torchmetrics", "lightning", "scipy", "sklearn", "matplotlib", "networkx", "wandb"}
ASK = """
import sys
from flcluster.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code
print("loaded:", *sorted(sys.modules))
"""


def loaded_after(*argv: str) -> tuple[str, set[str]]:
    """What a command prints in a process of its own, and which modules that has loaded then."""
    done = subprocess.run([sys.executable, "-c", ASK, *argv], capture_output=True, text=True, check=True)
    said, _, modules = done.stdout.rpartition("loaded: ")
    return said, set(modules.split())


@pytest.mark.parametrize("argv", [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_loads_no_library(argv):
    said, modules = loaded_after(*argv)
    assert said.startswith(("flcluster 0.", "usage: flcluster"))
    assert modules & HEAVY == set()
    assert len(argv) > 1 or "jsonargparse" not in modules


def test_fit_speaks_before_it_loads():
    """The first line is there while PyTorch is not: the process is asked at the moment of its first line."""
    watch = (
        "import sys\n"
        "class Watch:\n"
        "    def write(self, text):\n"
        "        sys.stdout.write(text + ' '.join(sys.modules)); sys.stdout.flush(); sys.exit(0)\n"
        "    def flush(self): pass\n"
        "sys.stderr = Watch()\n"
        "from flcluster.cli import main\n"
        "main(['fit', '--config', 'none.yaml'])\n"
    )
    said = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True).stdout
    first, _, modules = said.partition("…")
    assert first.startswith("flcluster fit: loading")
    assert "flcluster.cli" in modules and set(modules.split()) & HEAVY == set()


def test_it_says_so_once_and_only_if_asked_to_speak(monkeypatch, capsys):
    loading("fit", [])
    assert capsys.readouterr().err == "", "everything is loaded here"
    monkeypatch.delitem(sys.modules, "lightning")
    loading("fit", ["--engine.progress", "false"])
    loading("fit", ["--engine.progress=false"])
    monkeypatch.setenv("RANK", "1")
    loading("fit", [])
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("RANK")
    loading("fit", ["--engine.progress", "true"])
    assert "loading" in capsys.readouterr().err


def test_the_quick_help_names_every_option_of_the_real_parser():
    def options(parser):
        return {text for action in parser._actions for text in action.option_strings}

    quick, real = options(help_parser("x")), options(fit_parser("x"))
    assert {option for option in real if not option.endswith("+")} - quick == set()
    assert quick - real == {f"--{part}.KEY" for part in PARTS}


def test_every_command_is_a_file_with_a_function_of_its_name():
    for name in COMMANDS:
        path = Path(__file__).parents[3] / "flcluster" / "cli" / f"{name}.py"
        assert f"def {name}(argv: list[str]) -> int:" in path.read_text()
