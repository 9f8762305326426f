"""Claims of papers as a file tells them, and what the gathered runs make of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from jsonargparse import ArgumentParser

from flcluster.errors import UserError
from flcluster.records.columns import LAST, column
from flcluster.report.claims.verdict import Found, Rule, differences, judged
from flcluster.report.gathered.studies import Gathered, Series, mean_and_deviation
from flcluster.score import is_score


@dataclass(frozen=True)
class Side:
    """A number of some runs: of a variant of the claim's study, or of another one."""

    of: str
    """The variant."""
    column: str = ""
    """Another column than the claim's."""
    study: str = ""
    """Another study than the claim's."""


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, in our words, as an order of two numbers or a distance between them."""

    says: str
    """The sentence."""
    source: str
    """Where the paper has it."""
    setting: str
    """On what data it is tried here."""
    study: str = ""
    """The file of gathered runs, results/STUDY.csv; none where it was not tried."""
    column: str = "client_acc"
    """What is compared."""
    first: Side | None = None
    """What is above, below or near the other."""
    second: Side | None = None
    """What it is compared with."""
    number: float | None = None
    """A number that it is compared with, instead."""
    rule: Rule = "above"
    """What is claimed of the first."""
    margin: float = 0.0
    """How near is near; how far above at least."""
    paper: str = ""
    """What the paper prints."""
    why: str = ""
    """Why it does not hold, with the experiment that shows it; "reason unknown" by default."""
    cost: str = ""
    """What it would take to try it, where it was not."""

    @property
    def sentence(self) -> str:
        """The sentence with how near is near."""
        unit = f"{100 * self.margin:g} points" if is_score(self.column.removesuffix(LAST)) else f"{self.margin:g}"
        near = f" (within {unit})".replace(" 1 points", " 1 point") if self.rule == "near" else ""
        return self.says + near


@dataclass(frozen=True)
class Judged:
    """A claim and what was found."""

    claim: Claim
    found: Found
    ours: str
    """The two numbers."""


def read_claims(path: Path) -> tuple[str, list[Claim]]:
    """Read a file of claims: the paper, and what it says; whatever is wrong is one message with file and number."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict) or set(tree) != {"paper", "claims"} or not isinstance(tree["claims"], list):
        raise UserError(f"{path} must have two keys: paper, and claims, a list")
    parser = ArgumentParser(exit_on_error=False, allow_abbrev=False)
    parser.add_class_arguments(Claim)
    return str(tree["paper"]), [_claim(parser, path, at, told) for at, told in enumerate(tree["claims"], start=1)]


def _claim(parser: ArgumentParser, path: Path, at: int, told: object) -> Claim:
    try:
        if not isinstance(told, dict):
            raise UserError(f"must be a mapping, got {told!r}")
        claim = Claim(**vars(parser.instantiate(parser.parse_object(_in_full(told)))))
        if claim.study and (claim.first is None or (claim.second is None) == (claim.number is None)):
            raise UserError("one that was tried has first, and second or number")
        if not claim.study and not claim.cost:
            raise UserError("one that was not tried has cost")
        if claim.rule == "near" and claim.margin <= 0:
            raise UserError("near has a margin above 0")
    except Exception as error:  # jsonargparse raises several kinds
        raise UserError(f"{path}, claim {at}: {' '.join(str(error).split())}") from error
    return claim


def _in_full(told: dict[str, object]) -> dict[str, object]:
    """Let a variant's name stand for the mapping that has it alone."""
    sides = {name: {"of": told[name]} for name in ("first", "second") if isinstance(told.get(name), str)}
    return {**told, **sides}


def judge(claim: Claim, find: Callable[[str], Gathered | None]) -> Judged:
    """Hold a claim against gathered runs, which are found by the name of their study."""
    if claim.first is None:
        return Judged(claim, judged(differences({}, {}), claim.rule), "")
    first = _values(claim, claim.first, find)
    if claim.second is None:
        assert claim.number is not None
        second: Series = dict.fromkeys(first, claim.number)
    else:
        second = _values(claim, claim.second, find)
    shared = sorted(set(first) & set(second))
    found = judged(differences(first, second), claim.rule, claim.margin)
    both = [_text(claim, side, {seed: v[seed] for seed in shared}) for side, v in _told(claim, first, second)]
    return Judged(claim, found, " / ".join(both) if shared else "")


def _told(claim: Claim, first: Series, second: Series) -> Sequence[tuple[Side, Series]]:
    assert claim.first is not None
    return [(claim.first, first), *([(claim.second, second)] if claim.second is not None else [])]


def _values(claim: Claim, side: Side, find: Callable[[str], Gathered | None]) -> Series:
    told = find(side.study or claim.study)
    return told.values(side.of, side.column or claim.column) if told and side.of in told.variants else {}


def _text(claim: Claim, side: Side, values: Series) -> str:
    return column(side.column or claim.column).text(*mean_and_deviation(values), runs=len(values))
