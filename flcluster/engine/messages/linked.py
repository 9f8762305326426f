"""Settings that follow from others: to give them is refused, as the value would be passed over without a word."""

from collections.abc import Iterable

from flcluster.engine.messages.given import Given
from flcluster.errors import UserError

SHAPES = ("num_classes", "input_shape")
LINKED = {
    "data.seed": "the data are drawn with the run's seed: set seed_everything instead",
    **{
        f"model.{name}": f"the model is made with the data's {name}: leave it out, or set data.{name}"
        for name in SHAPES
    },
}
"""What cannot be given, and what can be done."""


def refuse_linked(given: Iterable[Given]) -> None:
    """Refuse a setting whose value comes from another one."""
    for each in given:
        for key in _keys(each):
            if key in LINKED:
                raise UserError(f"{each.where}: " * bool(each.where) + f"{key} cannot be set: {LINKED[key]}")


def _keys(given: Given) -> Iterable[str]:
    """Return a setting's key, or those of a part's settings, without ``init_args``."""
    settings = given.value.get("init_args", given.value) if isinstance(given.value, dict) else None
    own = settings if isinstance(settings, dict) else {}
    return [given.key.replace(".init_args.", "."), *(f"{given.key.removesuffix('.init_args')}.{name}" for name in own)]
