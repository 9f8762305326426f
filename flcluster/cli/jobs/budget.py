"""The same budget for all that are compared: as many samples of local training, told before the first run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flcluster.cli.jobs.variants import Built
from flcluster.data import FederatedDataModule
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.protocol.budget import length_for, length_of

TOLERANCE = 0.05
"""Share by which budgets may differ, besides half a round: rounds are whole, and who trains may be drawn."""


@dataclass(frozen=True)
class Planned:
    """What a variant will train on."""

    name: str
    method: Algorithm[Any]
    data: FederatedDataModule
    seed: int
    samples: float

    @property
    def length(self) -> tuple[str, float]:
        """What its length is called, and its value."""
        return length_of(self.method)

    def is_like(self, goal: float) -> bool:
        """Say whether the budget is the goal, as nearly as may be asked for."""
        unit, length = self.length
        step = self.samples / length / 2 if unit == "rounds" else 0.0
        return abs(self.samples - goal) <= max(TOLERANCE * goal, step)

    def flag(self, goal: float) -> list[str]:
        """Return the argument that makes the budget the goal."""
        unit, _ = self.length
        return [f"--algorithm.{unit}", f"{length_for(self.method, self.data, self.seed, goal):g}"]


def budgets(built: Mapping[str, Built], wanted: str, remedy: str) -> dict[str, list[str]]:
    """Compare budgets of variants on the same data; return the arguments that give variants the one they are to have.

    Args:
        built: What the variants consist of, by name.
        wanted: same: refuse other budgets than the first one's; equal: give all that of the first; a number of samples:
            give all that one; own: leave them as they are.
        remedy: How to give a variant another length, with {name}, {unit} and {length}.
    """
    goal = _goal(wanted)
    if wanted == "own":
        return {}
    flags: dict[str, list[str]] = {}
    for group in _planned(built):
        aim = group[0].samples if goal is None else goal
        unlike = [each for each in group if not each.is_like(aim)]
        if unlike and wanted == "same":
            raise UserError(_refusal(group, aim, remedy))
        flags |= {each.name: each.flag(aim) for each in unlike}
    return flags


def _goal(wanted: str) -> float | None:
    if wanted in ("same", "equal", "own"):
        return None
    try:
        goal = float(wanted.replace("_", "").replace(",", ""))
    except ValueError:
        goal = 0.0
    if not goal > 0:
        raise UserError(f"--budget is {wanted!r}: give equal, own, or a number of samples of local training")
    return goal


def _planned(built: Mapping[str, Built]) -> list[list[Planned]]:
    """Return what variants will train on, those on the same data together, which are set up once."""
    groups: dict[str, list[Planned]] = {}
    for name, variant in built.items():
        group, made = groups.setdefault(variant.data, []), variant.made
        data = group[0].data if group else made.data
        if not group:
            data.prepare_data()
            data.setup("fit")
        seed = made.seed_everything
        group.append(Planned(name, made.algorithm, data, seed, made.algorithm.samples_planned(data, seed)))
    return list(groups.values())


def _refusal(group: list[Planned], goal: float, remedy: str) -> str:
    def line(each: Planned) -> str:
        unit, length = each.length
        told = f"  {each.name}: {each.samples:,.0f} samples ({unit} {length:g})"
        if each.is_like(goal):
            return told
        return (
            f"{told}; {remedy.format(name=each.name, unit=unit, length=each.flag(goal)[1])} makes them like the first"
        )

    return "\n".join(
        [
            "these would train on unlike numbers of samples of the same data, which is no comparison of methods:",
            *map(line, group),
            "or give --budget equal (all as the first), --budget SAMPLES (all so many), --budget own (as they are)",
        ]
    )
