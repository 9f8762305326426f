"""Looks for the first mistake in given settings: asked once the parser refused them, as it says so in its own terms."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsonargparse import ArgumentParser

from flcluster.engine.messages.classes import (
    accepts,
    actions,
    bases,
    classes_in,
    from_yaml,
    imported,
    known,
    parameters,
    settings_of,
)
from flcluster.engine.messages.given import Given
from flcluster.engine.messages.words import did_you_mean, in_words, listed

LISTS = {"algorithm": "flcluster methods", "data": "flcluster data --list"}
"""Commands that list the classes of a part."""
KINDS = {"algorithm": "method", "data": "datamodule", "model": "model", "logger": "logger", "callbacks": "callback"}


@dataclass
class Looking:
    """Goes through given settings in their order and knows which class each part is by then."""

    parser: ArgumentParser
    chosen: dict[str, type] = field(default_factory=dict)
    """Key of a part -> the class it is."""

    def first(self, given: Iterable[Given]) -> str | None:
        """Return what is wrong with the first setting that is wrong, or None if nothing is found."""
        roots = actions(self.parser)
        for each in given:
            key = each.key.removesuffix(".help")
            for wrong in self._key(key.split("."), each.value, roots, "", each.flag):
                return f"{each.where}: {wrong}" if each.where else wrong
        return None

    def _key(self, path: Sequence[str], value: Any, keys: Mapping[str, Any], above: str, flag: bool) -> Iterator[str]:
        """Look at one key of those that a part (or the command, if ``above`` is empty) knows."""
        name, rest = path[0], [part for part in path[1:] if part not in ("init_args", "class_path")]
        here = f"{above}.{name}" if above else name
        group = {key[len(name) + 1 :]: hint for key, hint in keys.items() if key.startswith(f"{name}.")}
        if group and rest:
            yield from self._key(rest, value, group, here, flag)
        elif group:
            for key, own in value.items() if isinstance(value, Mapping) else ():
                yield from self._key(key.split("."), own, group, here, flag)
        elif name not in keys:
            yield self._unknown(name, keys, above)
        elif not rest:
            yield from self._value(here, value, keys[name], flag)
        elif (kind := self._class_at(here, keys[name])) is not None:
            yield from self._key(rest, value, parameters(kind), here, flag)

    def _class_at(self, here: str, hint: Any) -> type | None:
        """Return the class of a part: as chosen, or the only one it can be."""
        kinds = bases(hint)
        return self.chosen.get(here) or (kinds[0] if len(kinds) == 1 and len(known(kinds)) == 1 else None)

    def _unknown(self, name: str, keys: Iterable[str], above: str) -> str:
        """Say that a key is none, and which is near."""
        keys = list(dict.fromkeys(key.partition(".")[0] for key in keys))
        kind = self.chosen.get(above)
        says = f"{above}.{name}: {kind.__name__} has no such setting;" if kind else f"there is no key {name};"
        if above and not kind:
            says = f"there is no key {above}.{name};"
        near = did_you_mean(name, keys)
        return f"{says}{near} {self._all(keys, above, kind)}"

    def _all(self, keys: Iterable[str], above: str, kind: type | None) -> str:
        """Say where all keys are listed."""
        if kind and "." not in above:
            return f"{self.parser.prog} --{above}.help {kind.__name__} lists them"
        known_to_help = not kind and getattr(self.parser, "whole", False)
        return f"{self.parser.prog} --help lists them" if known_to_help else f"it has {listed(keys)}"

    def _value(self, here: str, value: Any, hint: Any, flag: bool) -> Iterator[str]:
        """Look at a value: a class and its settings, a list of such, or something plain."""
        kinds = bases(hint)
        if flag and kinds and isinstance(value, str) and value[:1] in ("[", "{"):
            value, flag = from_yaml(value), False
        if not kinds or value is None:
            yield from self._plain(here, value, hint, flag)
        elif isinstance(value, list):
            for at, each in enumerate(value):
                yield from self._value(f"{here}[{at}]", each, hint, False)
            if not any(isinstance(each, Mapping | str) for each in value):
                yield from self._plain(here, value, hint, flag)
        elif (told := settings_of(value)) is not None:
            name, settings = told
            if name is not None:
                if flag and name in ("null", ""):
                    return
                found = self._class(here, name, kinds)
                if isinstance(found, str):
                    yield from () if accepts(hint, value, flag) else (found,)
                    return
                self.chosen[here] = found
            kind = self._class_at(here, hint)
            if kind is not None:
                for key, own in settings.items():
                    yield from self._key(key.split("."), own, parameters(kind), here, flag=False)

    def _class(self, here: str, name: str, kinds: list[type]) -> type | str:
        """Return the class of a name, or what is wrong with it."""
        part = here.partition(".")[0].partition("[")[0]
        choice = known(kinds)
        what = KINDS.get(part, "class") if here.partition("[")[0] == part else f"{kinds[0].__name__}"
        if "." not in name:
            if name in choice:
                return choice[name]
            hint = LISTS.get(here)
            shown = [each for each, kind in choice.items() if part != here or kind not in kinds]
            where = f"{hint} lists them" if hint else f"there are {listed(shown)}"
            return f"{here}: there is no {what} {name};{did_you_mean(name, choice)} {where}"
        try:
            found = imported(name)
        except AttributeError:
            module, _, bare = name.rpartition(".")
            return f"{here}: {module} has no {bare};{did_you_mean(bare, classes_in(module))}"
        except ImportError as error:
            return f"{here}: {name} cannot be imported ({error}); PYTHONPATH=. finds a file of this folder"
        if isinstance(found, type) and not issubclass(found, tuple(kinds)):
            return f"{here}: {name} is no {what}; {LISTS.get(here) or f'{self.parser.prog} --help'} lists them"
        return found if isinstance(found, type) else f"{here}: {name} is no class"

    def _plain(self, here: str, value: Any, hint: Any, flag: bool) -> Iterator[str]:
        """Look at a value that is no object."""
        if not accepts(hint, value, flag):
            options = [word for word in in_words(hint).split(" or ") if " " not in word]
            near = did_you_mean(value, options) if isinstance(value, str) else ""
            yield f"{here} must be {in_words(hint)}, got {value!r}{';' + near if near else ''}"
