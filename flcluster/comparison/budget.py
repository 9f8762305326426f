"""The same budget for all that are compared: as many samples of local training, told before the first run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flcluster.data import FederatedDataModule
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.protocol.budget import length_for, length_of

TOLERANCE = 0.05
"""Share by which budgets may differ, besides half a round: rounds are whole, and who trains may be drawn."""


Length = tuple[str, float]
"""What a length is called, rounds or cycles, and its value."""

MOST = 1e12
"""More samples than anyone trains on: lengths are looked for by trying."""


@dataclass(frozen=True)
class Built:
    """A variant as it would run; none of its parts has begun."""

    method: Algorithm[Any]
    data: FederatedDataModule
    seed: int
    source: str
    """The settings of its data; variants with the same ones are compared."""


@dataclass(frozen=True)
class Words:
    """How to tell what to change."""

    remedy: str
    """How to give a variant another length, with {name}, {unit} and {length}."""
    argument: str = "--budget"
    """What the budget is called."""
    given: str = "--budget {}"
    """How it is given."""
    quote: str = ""
    """What is around words."""

    @property
    def ways(self) -> str:
        """Say what may be given instead."""
        equal, own = (self.given.format(f"{self.quote}{word}{self.quote}") for word in ("equal", "own"))
        return f"{equal} (all as the first), {self.given.format('SAMPLES')} (all so many), {own} (as they are)"


@dataclass(frozen=True)
class Planned:
    """What a variant will train on."""

    name: str
    method: Algorithm[Any]
    data: FederatedDataModule
    seed: int
    samples: float

    @property
    def length(self) -> Length:
        """What its length is called, and its value."""
        return length_of(self.method)

    def is_like(self, goal: float) -> bool:
        """Say whether the budget is the goal, as nearly as may be asked for."""
        unit, length = self.length
        step = self.samples / length / 2 if unit == "rounds" else 0.0
        return abs(self.samples - goal) <= max(TOLERANCE * goal, step)

    def length_to(self, goal: float) -> Length:
        """Return the length that makes the budget the goal."""
        return self.length[0], length_for(self.method, self.data, self.seed, goal)


def budgets(built: Mapping[str, Built], wanted: str, words: Words) -> dict[str, Length]:
    """Compare budgets of variants on the same data; return the lengths that give variants the one they are to have.

    Args:
        built: What the variants consist of, by name.
        wanted: same: refuse other budgets than the first one's; equal: give all that of the first; a number of samples:
            give all that one; own: leave them as they are.
        words: How to tell what to change.
    """
    goal = _goal(wanted, words)
    if wanted == "own":
        return {}
    lengths: dict[str, Length] = {}
    for group in _planned(built):
        aim = group[0].samples if goal is None else goal
        unlike = [each for each in group if not each.is_like(aim)]
        if unlike and wanted == "same":
            raise UserError(_refusal(group, aim, words))
        try:
            lengths |= {each.name: each.length_to(aim) for each in unlike}
        except ZeroDivisionError:
            raise UserError(f"{words.argument} is {wanted}: that is less than one upload trains on") from None
    return lengths


def _goal(wanted: str, words: Words) -> float | None:
    if wanted in ("same", "equal", "own"):
        return None
    try:
        goal = float(wanted.replace("_", "").replace(",", ""))
    except ValueError:
        goal = 0.0
    if not 0 < goal <= MOST:
        what = f"a number of samples of local training, at most {MOST:g}"
        raise UserError(f"{words.argument} is {wanted!r}: give equal, own, or {what}")
    return goal


def _planned(built: Mapping[str, Built]) -> list[list[Planned]]:
    """Return what variants will train on, those on the same data together, which are set up once."""
    groups: dict[str, list[Planned]] = {}
    for name, variant in built.items():
        group = groups.setdefault(variant.source, [])
        data = group[0].data if group else variant.data
        if not group:
            data.prepare_data()
            data.setup("fit")
        samples = variant.method.samples_planned(data, variant.seed)
        group.append(Planned(name, variant.method, data, variant.seed, samples))
    return list(groups.values())


def _refusal(group: list[Planned], goal: float, words: Words) -> str:
    def line(each: Planned) -> str:
        unit, length = each.length
        told = f"  {each.name}: {each.samples:,.0f} samples ({unit} {length:g})"
        if each.is_like(goal):
            return told
        remedy = words.remedy.format(name=each.name, unit=unit, length=f"{each.length_to(goal)[1]:g}")
        return f"{told}; {remedy} makes them like the first"

    return "\n".join(
        [
            "these would train on unlike numbers of samples of the same data, which is no comparison of methods:",
            *map(line, group),
            f"or give {words.ways}",
        ]
    )
