"""What a user gives: the arguments of an object, so that a run's configuration can tell them; and code of their own."""

import inspect
import sys
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

from typing_extensions import Self


class Recorded:
    """Objects of subclasses remember the arguments of their constructor."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the object and keep what it is made with."""
        made = super().__new__(cls)
        made._made_with = args, kwargs
        return made

    @property
    def made_with(self) -> dict[str, Any]:
        """The constructor's arguments by name, without those that were left to their defaults."""
        args, kwargs = self._made_with
        bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
        kinds = {name: parameter.kind for name, parameter in bound.signature.parameters.items()}
        named: dict[str, Any] = {}
        for name, value in list(bound.arguments.items())[1:]:
            if kinds[name] is inspect.Parameter.VAR_KEYWORD:
                named |= value
            else:
                named[name] = value
        return named


# whose code it is ---------------------------------------------------------------------------------------------------

OURS = ("flcluster", "lightning", "pytorch_lightning", "torch", "builtins")
"""Packages whose classes are not a user's own."""

INSTALLED = ("site-packages", "dist-packages")
"""Folders of code that nobody is expected to mend."""


def is_own(kind: type) -> bool:
    """Say whether a class is a user's own: neither of flcluster's nor of what it is built on.

    >>> is_own(Recorded), is_own(type("Mine", (), {"__module__": "mine"}))
    (False, True)
    """
    return kind.__module__.partition(".")[0] not in OURS


def named(thing: object, method: str = "") -> str:
    """Name the class of an object, or a method of it; what is a user's own with its file, and the line if it is known.

    >>> named(1)
    'int'
    """
    kind = type(thing)
    function = inspect.unwrap(getattr(kind, method)) if method else None
    code = getattr(function, "__code__", None)
    name = f"{kind.__name__}.{method}" if method else kind.__name__
    if not is_own(kind):
        return name
    if code is not None and getattr(function, "__module__", "").partition(".")[0] not in OURS:
        return f"{name} ({_short(code.co_filename)}, line {code.co_firstlineno})"
    return f"{name} ({_short(getattr(sys.modules.get(kind.__module__), '__file__', None) or kind.__module__)})"


def described(value: object) -> str:
    """Say in a few words what a value is that should have been another.

    >>> described(None), described((1, 2, 3)), described({})
    ('None', 'a tuple of 3', 'a dict')
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"a {type(value).__name__} {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


def blamed(error: BaseException) -> str | None:
    """Say in one line where in a user's own code an error arose, and what it was; None if it arose in no such code.

    The innermost place counts; where none of the files that were gone through is a user's, an object of theirs does
    whose inherited methods were.
    """
    passed = [(frame, line) for frame, line in walk_tb(error.__traceback__)]
    own = [(frame, line) for frame, line in passed if _is_own(frame)]
    told = f"{type(error).__name__}: {' '.join(str(error).split())[:MOST]}"
    if isinstance(error, SyntaxError) and error.filename and not _is_installed(error.filename):
        return f"{_short(error.filename)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    if own:
        frame, line = next((each for each in reversed(own) if not each[0].f_code.co_name.startswith("<")), own[-1])
        name, me = frame.f_code.co_name, frame.f_locals.get("self")
        called = "" if name == "<module>" else f"{type(me).__name__}.{name} " if me is not None else f"{name} "
        place = f"{_short(frame.f_code.co_filename)}, line {line}"
        return f"{called}({place}): {told}" if called else f"{place}: {told}"
    theirs = [me for frame, _ in passed if (me := frame.f_locals.get("self")) is not None and is_own(type(me))]
    theirs = [me for me in theirs if _is_ours_below(type(me))]
    return f"{named(theirs[-1])}: {told}" if theirs else None


MOST = 400
"""Characters of an error's own words that are told."""


def _is_own(frame: FrameType) -> bool:
    name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
    return name.partition(".")[0] not in OURS and not _is_installed(file)


def _is_installed(file: str) -> bool:
    """Say whether a file is Python's, an installed package's, or none at all."""
    if file.startswith("<"):
        return not file.startswith(("<ipython", "<stdin"))
    return any(part in INSTALLED for part in Path(file).parts) or Path(file).is_relative_to(STANDARD)


STANDARD = Path(inspect.__file__).parent
"""Python's own library."""


def _is_ours_below(kind: type) -> bool:
    """Say whether a class of somebody else's is built on one of flcluster's or Lightning's."""
    return any(base.__module__.partition(".")[0] in OURS[:3] for base in kind.__mro__)


def _short(file: str) -> str:
    """Return a file's name as it is seen from the working directory."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
