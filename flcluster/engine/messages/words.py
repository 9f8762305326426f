"""How a message says things: the nearest names, and types in words."""

from collections.abc import Iterable
from difflib import get_close_matches
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from flcluster.engine.messages.classes import leaves

WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    NoneType: "null",
}


def nearest(name: str, names: Iterable[str], count: int = 2) -> list[str]:
    """Return the names that come nearest to one that is wrong, whatever its capitals; a beginning is near its name.

    >>> nearest("rh", ["rho", "beta0", "a"]), nearest("CDLF", ["CDFL", "CCFL", "Local"], 1)
    (['rho'], ['CDFL'])
    """
    names = list(names)
    low = {each.lower(): each for each in names}
    found = get_close_matches(name.lower(), low, n=count, cutoff=0.6)
    found += [each for each in low if each.startswith(name.lower()) and len(name) > 1 and each not in found]
    return [low[each] for each in found][:count]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the question, or nothing.

    >>> did_you_mean("roh", ["rho", "beta0"])
    ' did you mean rho?'
    """
    found = nearest(name, names)
    return f" did you mean {' or '.join(found)}?" if found else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return names in one line, as many as one reads.

    >>> listed("abcd", most=2)
    'a, b, …'
    """
    names = list(names)
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def in_words(hint: Any) -> str:
    """Say what a type takes.

    >>> in_words(int | None), in_words(Literal["min", "max"]), in_words(list[int])
    ('a whole number or null', 'min or max', 'a list ([…] of a whole number)')
    """
    if get_origin(hint) in (list, tuple, set):
        return f"a list ([…] of {' or '.join(dict.fromkeys(_word(leaf) for leaf in leaves(hint) if leaf is not ...))})"
    options = get_args(hint) if type(None) in get_args(hint) else (hint,)
    if any(get_origin(option) in (list, tuple, set) for option in options):
        return " or ".join(in_words(option) for option in options)
    return " or ".join(dict.fromkeys(_word(leaf) for leaf in leaves(hint)))


def _word(leaf: Any) -> str:
    if get_origin(leaf) is Literal:
        return " or ".join(str(each) for each in get_args(leaf))
    return WORDS.get(leaf) or f"a {getattr(leaf, '__name__', leaf)}"
