"""Docstrings: their examples run, and every name that an author may import has one."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = {"flcluster": "flcluster", **{f"flcluster.{name}": name for name in ("modules", "datamodules", "algorithms")}}
LIBRARIES = tuple(PLACES.values())[1:]


def module_of(package: str, path: Path) -> str:
    parts = path.relative_to(ROOT / PLACES[package]).with_suffix("").parts
    return ".".join((package, *parts)).removesuffix(".__init__")


SOURCES = {
    module_of(package, path): path.read_text()
    for package, place in PLACES.items()
    for path in sorted((ROOT / place).rglob("*.py"))
    if package != "flcluster" or path.relative_to(ROOT / place).parts[0] not in LIBRARIES
}
EXPORTING = [name for name, text in SOURCES.items() if "\n__all__ = " in text]
PUBLIC = ("protocol", "data", "clustering", "topology", "devices", "records", "modules", "datamodules", "algorithms")
"""What an author imports from; each lists its names."""


@pytest.mark.parametrize("name", [name for name, text in SOURCES.items() if ">>> " in text])
def test_examples_in_docstrings_run(name):
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted and not failed


def test_there_are_examples_and_public_names():
    assert sum(">>> " in text for text in SOURCES.values()) > 20
    assert {"flcluster", *(f"flcluster.{part}" for part in PUBLIC)} <= set(EXPORTING)


@pytest.mark.parametrize("name", EXPORTING)
def test_public_names_exist_and_are_documented(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            written = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
            assert written and not written.startswith(f"{public}("), f"{name}.{public} has no docstring"


@pytest.mark.parametrize("part", PUBLIC)
def test_public_packages_tell_what_they_are(part):
    assert importlib.import_module(f"flcluster.{part}").__doc__
