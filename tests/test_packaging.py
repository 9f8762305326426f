"""The wheel holds everything, and asks for nothing that has a known hole. What surrounds it says the same."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
LIBRARIES = ("modules", "datamodules", "algorithms")
HOLES = {
    "torch": {
        "2.5.1": "CVE-2025-32434: torch.load runs code in spite of weights_only",
        "2.9.1": "CVE-2026-24747: the same by corrupted memory",
        "2.10.0": "CVE-2026-4538: loading a .pt2 program runs code",
    },
    "lightning": {
        "2.6.2": "GHSA-w37p-236h-pfx3: a stolen release that steals credentials as it is imported",
        "2.6.3": "the same",
        "2.6.5": "CVE-2026-58659: load_from_checkpoint runs code in spite of weights_only",
    },
    "wandb": {"0.28.1": "CVE-2026-91771: a downloaded file is written anywhere"},
    "onnx": {"1.20.1": "CVE-2026-27489, CVE-2026-34445: a model reads files and overwrites attributes"},
    "scikit-learn": {"1.4.2": "CVE-2024-5206: a model keeps its training data"},
    "datasets": {"2.19.2": "runs the script of a dataset's repository unasked"},
    "setuptools": {"78.1.0": "CVE-2025-47273: a downloaded file is written anywhere"},
    "pytest": {"9.0.2": "CVE-2025-71176: a temporary directory that others can write to"},
}
"""The last version with each known hole, of what we ask for."""
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


def asked():
    """Everything that is asked for: to build, to run, and by each extra."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = told["project"]["optional-dependencies"].values()
    return [
        Requirement(line)
        for lines in (told["build-system"]["requires"], told["project"]["dependencies"], *extras)
        for line in lines
    ]


@pytest.mark.parametrize(("name", "version"), [(name, version) for name in HOLES for version in HOLES[name]])
def test_a_version_with_a_known_hole_is_excluded(name, version):
    found = [each for each in asked() if each.name == name]
    assert found, f"{name} is asked for no more: leave it out here"
    assert not any(each.specifier.contains(version) for each in found), HOLES[name][version]


def test_torchvision_is_one_that_the_oldest_torch_takes():
    """torchvision 0.N goes with torch 2.(N - 15), each release with exactly one."""
    floors = {each.name: next(iter(each.specifier)).version for each in asked() if each.specifier}
    torch, vision = (int(floors[name].split(".")[1]) for name in ("torch", "torchvision"))
    assert vision == torch + 15


def calls(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}


def test_nothing_is_unpickled():
    """Every torch.load, in code and tests, is of weights only; no other call unpickles."""
    folders = ("flcluster", "modules", "datamodules", "algorithms", "tests")
    seen = 0
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for name, words in calls(path):
            if name == "torch.load":
                seen += 1
                assert words.get("weights_only") == "True", path
            checked = name == "pickle.loads" and path.name in ("cifar.py", "bad_data.py")  # by digest; made by the test
            assert checked or name not in ("pickle.load", "pickle.loads", "joblib.load", "torch.jit.load"), path
            assert not (name.endswith("load") and words.get("allow_pickle") == "True"), path
    assert seen >= 3
