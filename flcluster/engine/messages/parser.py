"""The parser of a run's settings: jsonargparse's, but what it refuses is one line that one can act on."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

from flcluster.engine.messages.given import Given, given_by
from flcluster.engine.messages.linked import refuse_linked
from flcluster.engine.messages.mistakes import LISTS, Looking
from flcluster.engine.messages.names import in_own_names, tree_in_own_names
from flcluster.errors import UserError

Source = Sequence[str] | Mapping[str, Any]
"""A command line or a tree of settings."""


class RunParser(ArgumentParser):
    """Takes methods by their printed names; raises ``UserError`` instead of printing the parser's insides."""

    whole = False
    """Whether this is a run's parser, not one that is made on the way for a single class."""
    given: Source | None = None
    """What is being parsed."""

    @contextmanager
    def _parsing(self, given: Source) -> Iterator[None]:
        before, self.given = self.given, given if self.given is None else self.given
        try:
            yield
        finally:
            self.given = before

    def parse_args(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Namespace:  # type: ignore[override]
        """Parse a command line."""
        if not self.whole or args is None:
            settings: Namespace = super().parse_args(args, *rest, **named)
            return settings
        own = in_own_names(args)
        with self._parsing(own):
            settings = super().parse_args(own, *rest, **named)
        refuse_linked(given_by(own))
        return settings

    def parse_object(self, cfg_obj: Any, *rest: Any, **named: Any) -> Namespace:
        """Parse a tree of settings and objects."""
        if not self.whole:
            settings: Namespace = super().parse_object(cfg_obj, *rest, **named)
            return settings
        own = tree_in_own_names(cfg_obj)
        with self._parsing(own):
            settings = super().parse_object(own, *rest, **named)
        return settings

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Say what is wrong."""
        if not self.whole or self.given is None:
            super().error(message, ex)
        given = list(given_by(self.given))
        raise UserError(Looking(self).first(given) or absent(given) or _with_file(plainer(message), given)) from ex


def absent(given: Iterable[Given]) -> str | None:
    """Say which parts of a run are named nowhere, and where they are listed; None if all are."""
    there = {each.key.partition(".")[0] for each in given}
    names = [name for name in ("data", "model", "algorithm") if name not in there]
    flags = " ".join(f"--{name} CLASS" for name in names)
    lists = " and ".join(LISTS[name] for name in names if name in LISTS)
    told = f" ({lists} list them)" if lists else ""
    return f"{', '.join(names)} not given: add a --config that names them, or {flags}{told}" if names else None


def _with_file(told: str, given: Iterable[Given]) -> str:
    """Add the file that gives a part, the last one, to what the parser says of it."""
    part = re.match(r"\w*", told)[0]  # type: ignore[index]
    where = [each.where for each in given if each.key.partition(".")[0] == part and each.where]
    return f"{where[-1]}: {told}" if where else told


KEY, KIND = r'Parser key "([^"]+)":', r"Problem with given class_path '([^']+)':"
"""What a parser says before what is wrong, once for each level: a key, and the class whose settings come next."""


def plainer(message: str) -> str:
    """Return what a parser says in one line, by the whole key and without the types and values that it tried.

    >>> plainer('Parser key "x":\\n  Does not validate against any of the Union subtypes\\n  Errors:\\n    - no x')
    'x: no x'
    """
    dull = ("Does not validate", "Subtypes:", "Errors:", "Expected a <class 'NoneType'>", "Import path", "Note that")
    lines = [line.strip(" -") for line in message.splitlines()]
    whole = " ".join(line for line in lines if line and not line.startswith(dull)).partition("Given value")[0].strip()
    keys, kinds = re.findall(KEY, whole), re.findall(KIND, whole)
    rest = re.sub(f"^.*(?:{KEY}|{KIND})", "", whole).strip()
    if kinds and (absent := re.fullmatch(r"the following arguments are required: (\w+).*", rest)):
        keys, rest = [*keys, absent[1]], f"{kinds[-1].rpartition('.')[2]} needs a value there"
    return f"{'.'.join(keys)}: {rest}" if keys else whole
