"""Processes of compare and study find flcluster from any folder, also from one with a folder of that name in it."""

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from flcluster.cli.program import program

TINY = str(Path(__file__).parents[2] / "tiny.yaml")


def test_a_folder_of_that_name_is_not_taken_for_it():
    Path("flcluster").mkdir()  # as the parent of a clone has it
    done = subprocess.run([*program(), "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("flcluster 0.")
    broken = subprocess.run([sys.executable, "-m", "flcluster", "--version"], capture_output=True)
    assert program()[1:] != ["-m", "flcluster"] and isinstance(broken.returncode, int)


def test_modules_of_the_package_do_not_shadow_others(monkeypatch):
    """Run by its path, Python puts the file's folder first: there files.py, errors.py and data/ would be in the way."""
    file = program()[1]
    monkeypatch.setattr(sys, "path", [str(Path(file).parent), *sys.path])
    monkeypatch.setattr(sys, "argv", [file, "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(file, run_name="__main__")
    assert end.value.code == 0 and str(Path(file).parent) not in sys.path


def test_who_began_with_m_goes_on_so(monkeypatch):
    """A module of the working directory is found then, as it was before."""
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name="flcluster.__main__")))
    assert program() == [sys.executable, "-m", "flcluster"]


@pytest.mark.parametrize("command", [["compare", "--methods", "Local"], ["study", "s.yaml"]], ids=["compare", "study"])
def test_from_the_parent_of_a_clone(command):
    Path("flcluster").mkdir()
    Path("s.yaml").write_text(f"base: {TINY}\nvariants: {{Local: {{algorithm: Local}}}}")
    config = ["--config", TINY] if command[0] == "compare" else []
    flags = ["--output", "out", "--algorithm.cycles=1", "--engine.pictures=false"]
    done = subprocess.run([*program(), *command, *config, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path("out/Local/summary.json").exists()
