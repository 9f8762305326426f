"""What an object was made with, so that a run's configuration can tell it."""

import inspect
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
