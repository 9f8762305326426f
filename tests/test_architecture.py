"""The folders are the architecture: every one is a listed package, and imports go one way."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARIES = ("modules", "datamodules", "algorithms")
LAYERS = [
    {"errors", "seeds", "files", "given", "score"},
    {"data"},
    {"clustering", "topology", "devices"},
    {"federation"},
    {"records"},
    {"protocol"},
    {"engine"},
    {"report"},
    {"comparison"},
    {"cli", "script"},
]
"""From low to high: what stands lower is imported by what stands higher, never the other way round."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ENGINE = sorted(p for name in RANK for p in ROOT.glob(f"flcluster/{name}/**/*.py"))
ENGINE += sorted((ROOT / "flcluster").glob("[a-z]*.py"))
EXTENSION_POINTS = ("flcluster.engine.callbacks", "flcluster.engine.measures")
"""What methods may use of a run: the hooks they can offer, and how clients are measured."""


def imported(path):
    """Every module of ours that a file imports, and whether it does so as it is loaded."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from ((name, node.col_offset == 0) for name in names if name.startswith("flcluster."))


def test_every_part_of_the_engine_has_its_layer():
    parts = (path for path in (ROOT / "flcluster").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())
    assert {path.stem for path in parts} - {"__init__", "__main__", *LIBRARIES} == set(RANK)


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_imports_downwards(path):
    mine = RANK[path.relative_to(ROOT / "flcluster").parts[0].removesuffix(".py")]
    for module, at_once in imported(path):
        part = module.split(".")[1]
        if part in LIBRARIES:
            assert not at_once, f"{path} imports {module} as it is loaded"
        elif part in RANK:
            assert RANK[part] <= mine, f"{path} imports {module}, which stands above it"


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_import_what_they_may_see(library):
    """Of the engine no running and no commands, of each other nothing, except that methods use modules."""
    others = set(LIBRARIES) - {library} - ({"modules"} if library == "algorithms" else set())
    for path in (ROOT / library).rglob("*.py"):
        for module, at_once in imported(path):
            closed = module.split(".")[1] in {"engine", "cli", *others} and module not in EXTENSION_POINTS
            assert not (at_once and closed), f"{path} imports {module}"


def test_every_folder_is_a_listed_package():
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.findall(r'"([\w.]+)"', re.search(r"^packages = \[(.*?)\]", text, re.M | re.S)[1])
    places = {"flcluster": "flcluster", **{f"flcluster.{name}": name for name in LIBRARIES}}
    found = {
        ".".join((name, *init.parent.relative_to(ROOT / place).parts))
        for name, place in places.items()
        for init in (ROOT / place).rglob("__init__.py")
    }
    assert found == set(listed) and len(listed) == len(set(listed))
    holding = {path.parent for place in places.values() for path in (ROOT / place).rglob("*.py")}
    assert all((folder / "__init__.py").exists() for folder in holding)


@pytest.mark.parametrize("root", ["flcluster", *LIBRARIES, "tests"])
def test_no_folder_has_more_than_a_listing_shows(root):
    for folder in [ROOT / root, *(path for path in (ROOT / root).rglob("*") if path.is_dir())]:
        names = [path for path in folder.iterdir() if path.name != "__pycache__" and not path.is_symlink()]
        assert len(names) <= 20, f"{folder} has {len(names)} entries"
