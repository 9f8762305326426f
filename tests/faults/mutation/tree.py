"""The code as it is imported, and a fault in it: in a file, and in what is imported already."""

import sys
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from mutants import ROOT, Mutant

PLACES = {"flcluster": "flcluster", **{name: f"flcluster/{name}" for name in ("modules", "datamodules", "algorithms")}}
"""Where the folders of the repository are, as they are imported."""


class Tree:
    """The repository's folders as they are imported, with links to its files; one of them may have a fault."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for folder, name in PLACES.items():
            for path in (ROOT / folder).rglob("*"):
                if path.is_file() and path.suffix != ".pyc":
                    link = place / name / path.relative_to(ROOT / folder)
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(path)

    def imported(self, path: str) -> Path:
        """Return where a file of the repository is in the tree."""
        folder, _, rest = path.partition("/")
        return self.place / PLACES[folder] / rest

    def original(self, file: str) -> str | None:
        """Return the path in the repository of a file of the tree; none if it is another file."""
        parts = Path(file).relative_to(self.place).parts
        path = "/".join(parts[1:] if parts[1] in PLACES else parts)
        return path if (ROOT / path).exists() else None

    def put(self, path: str, text: str | None) -> None:
        """Write a text in the place of a file, or put the file back."""
        at = self.imported(path)
        for old in (at, *(at.parent / "__pycache__").glob(f"{at.stem}.*")):
            old.unlink(missing_ok=True)
        if text is None:
            at.symlink_to(ROOT / path)
        else:
            at.write_text(text)


def module_of(path: str) -> str:
    """Return the name that a file of the repository is imported by.

    >>> module_of("algorithms/uploads/__init__.py"), module_of("flcluster/seeds.py")
    ('flcluster.algorithms.uploads', 'flcluster.seeds')
    """
    folder, _, rest = path.partition("/")
    return f"{PLACES[folder]}/{rest}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def exchanged(mutant: Mutant, source: str) -> bool:
    """Give a function that is imported already the fault; False if the fault is not in one, or all must be anew."""
    if not mutant.function:
        return False
    try:
        function = _function(sys.modules[module_of(mutant.path)], mutant.function)
        whole = compile(mutant.applied(source), function.__code__.co_filename, "exec")
        function.__code__ = _code(whole, mutant.function)
    except (AttributeError, KeyError, StopIteration, TypeError, ValueError):  # it sees other names than before, say
        return False
    return True


def _function(module: ModuleType, name: str) -> Any:
    owner: Any = module
    for part in name.split("."):
        owner = vars(owner)[part]
    while not isinstance(owner, FunctionType) or hasattr(owner, "__wrapped__"):
        names = ("fget", "func", "__func__", "__wrapped__")  # a property, cached or not, a static method, a wrapper
        owner = next(getattr(owner, each) for each in names if getattr(owner, each, None) is not None)
    return owner


def _code(whole: CodeType, name: str) -> CodeType:
    for part in name.split("."):
        whole = next(each for each in whole.co_consts if isinstance(each, CodeType) and each.co_name == part)
    return whole


def forget(folders: tuple[Path, ...]) -> None:
    """Forget the modules of some folders, so that they are imported anew."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(tuple(map(str, folders))):
            del sys.modules[name]
