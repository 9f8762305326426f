"""docs/ says what the code does: its walks, layers and keys are those of the code."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import flcluster as fl
from flcluster import algorithms
from flcluster.cli import main
from flcluster.engine.arguments import EngineConfig
from flcluster.files import write_json
from flcluster.protocol import Algorithm

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PLACE = r"`([\w/]+\.py):([\w.]+)`"


def section(title: str) -> str:
    return ARCHITECTURE.split(f"## {title}\n")[1].split("\n## ")[0]


def functions(path: Path) -> set[str]:
    """Every function of a file, methods with their class."""
    tree = ast.parse(path.read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return found | {f"{c.name}.{n.name}" for c in classes for n in c.body if isinstance(n, ast.FunctionDef)}


def test_every_place_in_the_code_exists():
    places = re.findall(PLACE, ARCHITECTURE)
    assert len(places) > 20
    missing = [f"{file}:{name}" for file, name in places if name not in functions(ROOT / file)]
    assert missing == []


WALKS = {
    "One upload": "--engine.max_updates 6 --engine.pictures true --engine.together 1",
    "One round": "--data StreamDigits --data.num_clients 12 --algorithm Fielding --algorithm.rounds 14 "
    "--engine.together 1",
    "One gossip round": "--algorithm DFCA --algorithm.num_clusters 2 --algorithm.rounds 2",
    "One run of AP-FL": "--data SkewedDigits --data.num_clients 6 --model.lr 0.1 --engine.session 2 "
    "--algorithm APFL --algorithm.rounds 2 --algorithm.generator_steps 2",
}


@pytest.mark.parametrize("title", WALKS)
def test_walks_are_told_in_the_order_in_which_things_happen(title):
    told = [(file, name.rpartition(".")[2]) for file, name in re.findall(PLACE, section(title))]
    calls: list[tuple[str, str]] = []
    of_file: dict[str, str | None] = {}

    def note(frame, event, argument):
        name = frame.f_code.co_filename
        if name not in of_file:
            path = Path(name).resolve()
            inside = path.is_relative_to(ROOT) and ".venv" not in path.relative_to(ROOT).parts
            of_file[name] = path.relative_to(ROOT).as_posix() if inside else None
        if event == "call" and of_file[name]:
            calls.append((of_file[name], frame.f_code.co_name))

    argv = ["fit", "--config", str(ROOT / "tests" / "tiny.yaml"), "--run_dir", "run", *WALKS[title].split()]
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        code = main(argv)
    finally:
        sys.setprofile(before)
    assert code == 0
    following = iter(calls)
    late = next((place for place in told if place not in following), None)
    assert late is None, f"{late} is told too early, or is not called at all"


def test_the_layers_are_those_that_are_tested():
    layers = runpy.run_path(str(ROOT / "tests" / "test_architecture.py"))["LAYERS"]
    rows = re.findall(r"^\| (\d+) \| ([^|]*) \|", section("Folders"), re.M)
    assert [int(number) for number, _ in rows] == list(range(1, len(layers) + 1))
    assert [set(re.findall(r"`(\w+)`", names)) for _, names in rows] == layers


def test_every_method_is_told_of():
    methods = {name for name in algorithms.__all__ if issubclass(getattr(algorithms, name), Algorithm)}
    page = (ROOT / "docs" / "methods" / "index.md").read_text()
    assert "FedAvg" in methods
    assert methods - set(re.findall(r"`(\w+)`", page)) == set()


@pytest.mark.parametrize("key", [field.name for field in fields(EngineConfig)])
def test_every_engine_key_is_told(key):
    table = (ROOT / "docs" / "running.md").read_text().split("| `engine.` |")[1].split("\n\n")[0]
    assert f"`{key}`" in table


@pytest.mark.parametrize("package", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda page: page.stem)
def test_every_page_of_the_reference_tells_what_its_package_exports(package):
    (first, *_) = re.findall(r"^::: ([\w.]+)$", package.read_text(), re.M)
    exported = import_module(first).__all__
    assert exported and all(getattr(import_module(first), name).__doc__ for name in exported)


def test_every_name_of_the_package_has_a_page():
    pages = {page.stem for page in (ROOT / "docs" / "api").glob("*.md")}
    told = " ".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    packages = {name for name in fl.__all__ if name.islower() and hasattr(getattr(fl, name), "__path__")}
    assert packages <= pages and {"data", "script"} <= pages
    homes = {name: getattr(fl, name).__module__ for name in fl.__all__ if name[0] != "_" and name not in packages}
    assert [name for name, home in homes.items() if home.rpartition(".")[0] not in told and home not in told] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("code", "status", "restarts", "again"),
    [
        (0, "stopped: SIGUSR1", 0, True),
        (69, None, 3, True),
        (69, None, 50, False),
        (0, "finished", 0, False),
        (2, None, 0, False),
        (1, None, 0, False),
    ],
)
def test_the_job_of_slurm_is_queued_again_until_the_run_is_finished(code, status, restarts, again, tmp_path):
    """The script of docs/running.md, with commands that only say what they were asked for."""
    (script,) = re.findall(r"```\n(#!/bin/bash\n#SBATCH.*?)```", (ROOT / "docs" / "running.md").read_text(), re.DOTALL)
    for name, does in {"srun": f"exit {code}", "scontrol": 'echo "$@" >> asked'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    if status:
        write_json(tmp_path / "runs" / "shared" / "summary.json", {"status": status})
    known = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(restarts), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env={**os.environ, **known}, check=True)
    assert (tmp_path / "asked").exists() is again
