"""What a method returns is what it promised; where it is not, the method is named with its file, as it returns."""

from collections.abc import Mapping
from io import BytesIO
from types import NoneType
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor

from flcluster.engine.loops.guard import parts_of
from flcluster.errors import UserError
from flcluster.federation.jobs import Trained
from flcluster.federation.trainer.as_given import mark
from flcluster.given import described, named
from flcluster.protocol.base import Algorithm
from flcluster.protocol.outcome import Round, Served
from flcluster.protocol.uploads import Reply

S = TypeVar("S")
T = TypeVar("T")

PLAIN = (int, float, str, bool, bytes, NoneType)
"""What a checkpoint holds besides tensors, lists and dictionaries."""


def pair_of(returned: Any, second: type[T], algorithm: Algorithm[S], method: str) -> tuple[S, T]:
    """Return what a step returned, if that is a state and what belongs to it."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        refuse(algorithm, method, f"must return a state and a {second.__name__}, but returned {described(returned)}")
    state, other = returned
    return state_of(state, algorithm, method), of_kind(other, second, algorithm, method)


def state_of(state: Any, algorithm: Algorithm[S], method: str) -> S:
    """Return a state, if it is of the type that the method says."""
    kind = getattr(algorithm, "state_type", None)
    if kind is None:
        refuse(algorithm, "", "does not say what its state is: give the class in brackets, RoundAlgorithm[MyState]")
    if not isinstance(state, kind):
        refuse(algorithm, method, f"must return a state of type {kind.__name__}, but returned {described(state)}")
    return state  # type: ignore[no-any-return]


def of_kind(value: Any, kind: type[T], algorithm: Algorithm[Any], method: str) -> T:
    """Return what is of the kind that a method must return."""
    if not isinstance(value, kind):
        refuse(algorithm, method, f"must return a {kind.__name__}, but returned {described(value)}")
    return value


def row_of(value: Any, like: Tensor, what: str, algorithm: Algorithm[Any], method: str) -> Tensor:
    """Return a model, if it is a row like the others."""
    if not isinstance(value, Tensor) or value.shape != like.shape or not value.is_floating_point():
        wanted = f"a row of {len(like)} floating-point numbers"
        refuse(algorithm, method, f"must return {wanted} as {what}, but returned {described(value)}")
    return value


def check_reply(reply: Any, like: Tensor, names: tuple[str, ...], algorithm: Algorithm[Any], method: str) -> Reply:
    """Return a reply, if its models are rows and what it logs was declared."""
    found = of_kind(reply, Reply, algorithm, method)
    row_of(found.row, like, "its Reply's row", algorithm, method)
    if found.anchor is not None:
        row_of(found.anchor, like, "its Reply's anchor", algorithm, method)
    check_extra(found.extra, names, algorithm, method)
    return found


def check_round(done: Round, like: Tensor, names: tuple[str, ...], algorithm: Algorithm[Any], method: str) -> None:
    """Refuse a round whose parts do not fit each other, or that logs what was not declared."""
    results, clients = done.results, done.cohort.clients
    if not isinstance(results, list) or not all(isinstance(each, Trained) for each in results):
        refuse(
            algorithm, method, f"must return training.results as its Round's results, but returned {described(results)}"
        )
    if [each.client for each in results] != clients[: len(results)]:
        refuse(algorithm, method, "returned a Round whose results are not those of its cohort, in its order")
    which = done.cohort.places if done.which is None else done.which
    if isinstance(done.models, Tensor) and results:
        row_of(
            done.models[0] if done.models.dim() else done.models, like, "each of its Round's models", algorithm, method
        )
    if len(which) < len(results) or max([-1, *which]) >= len(done.models):
        refuse(algorithm, method, f"returned a Round with {len(done.models)} models, but says that clients use {which}")
    check_extra(done.extra, names, algorithm, method)


def check_served(served: Any, clients: int, algorithm: Algorithm[Any]) -> Served:
    """Return which model each client uses, if it says so of each."""
    found = of_kind(served, Served, algorithm, "served")
    if len(found.which) != clients:
        refuse(algorithm, "served", f"must say of {clients} clients which model each uses, but says {len(found.which)}")
    return found


def check_extra(extra: Any, names: tuple[str, ...], algorithm: Algorithm[Any], method: str) -> dict[str, float]:
    """Return what a method logs, if it declared each of the names and each is a number."""
    for name, value in of_kind(extra, dict, algorithm, method).items():
        if name not in names:
            refuse(algorithm, method, f"logs {name!r}, which is not declared: add it to extra_names")
        if not _is_number(value):
            refuse(algorithm, method, f"must log a number as {name!r}, but logs {described(value)}")
    found: dict[str, float] = extra
    return found


def check_kept(algorithm: Algorithm[S], state: S, row: Tensor, method: str) -> None:
    """Refuse a state that a checkpoint cannot hold, or that cannot be made again of what it holds."""
    packed = of_kind(algorithm.pack(state), dict, algorithm, "pack")
    if name := unsaved(packed):
        what = "tensors, numbers, text, and lists and dictionaries of them"
        refuse(algorithm, method, f"returned a state that no checkpoint can hold: {name}; a state is made of {what}")
    state_of(algorithm.unpack(packed, row), algorithm, "unpack")


def unsaved(value: Any, name: str = "state") -> str | None:
    """Name the first part of what is to be saved that could not be read again, and its type; None if all can.

    >>> unsaved({"models": torch.ones(2), "rule": {"by": max}}), unsaved({"best": [1.0, None]})
    ('by (builtin_function_or_method)', None)
    """
    if isinstance(value, Tensor) or type(value) in PLAIN:
        return None
    if isinstance(value, Mapping | list | tuple):
        return next((found for key, part in parts_of(value, name) if (found := unsaved(part, key))), None)
    return None if _loads_again(value) else f"{name} ({type(value).__name__})"


def marks(value: Any, path: tuple[str, ...] = ("state",)) -> dict[tuple[str, ...], object]:
    """Return what differs, part by part, once a state was changed in place; no tensor is copied.

    >>> state = {"sum": torch.zeros(2), "seen": [1]}
    >>> before = marks(state)
    >>> state["sum"] += 1
    >>> [path for path, value in marks(state).items() if before[path] != value]
    [('state', 'sum')]
    """
    if isinstance(value, Tensor):
        return {path: mark(value)}
    parts = parts_of(value, path[-1])
    found: dict[tuple[str, ...], object] = {path: len(parts) or (repr(value) if type(value) in PLAIN else id(value))}
    for name, part in parts:
        found |= marks(part, (*path, name))
    return found


def check_untouched(
    before: Mapping[tuple[str, ...], object], state: Any, algorithm: Algorithm[Any], method: str
) -> None:
    """Refuse a step that wrote into the state that it was given: nobody could undo it."""
    after = marks(state)
    if changed := [path[-1] for path in {**before, **after} if before.get(path) != after.get(path)]:
        advice = "return a new state instead (tensor.clone(), dict(…), dataclasses.replace), so that it can be undone"
        refuse(algorithm, method, f"changes {changed[0]} of the state that it was given, in place: {advice}")


def refuse(algorithm: Algorithm[Any], method: str, what: str) -> NoReturn:
    """Refuse what a method returned, by its class, its file and its line."""
    raise UserError(f"{named(algorithm, method)} {what}")


def _is_number(value: Any) -> bool:
    try:
        return value is not None and isinstance(float(value), float) and not isinstance(value, str)
    except (TypeError, ValueError, RuntimeError):
        return False


def _loads_again(value: Any) -> bool:
    """Say whether something can be saved, and read again without running any code."""
    file = BytesIO()
    try:
        torch.save(value, file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except Exception:  # pickle tells it in many ways
        return False
    return True
