"""No version with a known hole fits what pyproject.toml asks for, and nothing that is loaded can run code."""

import ast
from pathlib import Path

import pytest
from packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
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
            assert name not in ("pickle.load", "pickle.loads", "joblib.load", "torch.jit.load"), path
            assert not (name.endswith("load") and words.get("allow_pickle") == "True"), path
    assert seen >= 3
