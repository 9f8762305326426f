"""The wheel holds everything: built, installed apart, imported from there. What surrounds it says the same."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
LIBRARIES = ("modules", "datamodules", "algorithms")
PROBE = """
import importlib, pkgutil
import flcluster, flcluster.modules, flcluster.datamodules, flcluster.algorithms
from flcluster.cli import main
from flcluster.algorithms import ShippedNames
from flcluster.report.paper_tables import list_tables
from importlib.resources import files
for module in (flcluster, flcluster.modules, flcluster.datamodules, flcluster.algorithms):
    assert module.__file__.startswith({target!r}), module.__file__
every = [found.name for found in pkgutil.walk_packages(flcluster.__path__, "flcluster.")]
assert len(every) == {modules}, len(every)
for name in every:
    if not name.endswith("__main__"):
        importlib.import_module(name)
assert flcluster.__version__.startswith("0."), flcluster.__version__
assert len(list_tables()) == 15
assert ShippedNames().vectors(["cat", "dog"]).shape == (2, 384)
assert (files("flcluster") / "py.typed").is_file()
from flcluster.report.html.page import SCRIPTS, asset
assert all(asset(name) for name in (*SCRIPTS, "page.html", "page.css", "plotly-LICENSE.txt"))
assert main(["--version"]) == 0
"""


def test_wheel(tmp_path):
    source = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    target = tmp_path / "target"
    wheel = str(next(tmp_path.glob("*.whl")))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), wheel]
    subprocess.run(pip, check=True)
    assert sorted(p.name for p in target.iterdir() if p.suffix != ".dist-info") in (["bin", "flcluster"], ["flcluster"])
    files = [path for name in ("flcluster", *LIBRARIES) for path in (source / name).rglob("*.py")]
    count = len(files) - 1  # all but the package itself
    probe = [
        "-c",
        f"import sys; sys.path.insert(0, {str(target)!r})\n" + PROBE.format(target=str(target), modules=count),
    ]
    subprocess.run([sys.executable, *probe], check=True, cwd=tmp_path)


def test_the_forge_runs_the_test_command_on_the_oldest_python():
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]
    (oldest,) = re.findall(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert job["strategy"]["matrix"]["python"][0] == oldest
    assert job["steps"][-1]["run"] == (ROOT / ".ci" / "run").read_text().splitlines()[-1]


def test_hooks_run_tools_that_the_tests_install():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    tools = {hook["entry"].split()[0] for hook in hooks}
    assert tools == {".venv/bin/ruff", ".venv/bin/python"}
    named = [word for hook in hooks for word in hook["entry"].split()[1:] if word.endswith(".py")]
    assert named and all((ROOT / name).exists() for name in named)


def test_the_citation_is_of_this_version():
    (version,) = re.findall(r'^version = "([\d.]+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
