"""Our runs gathered into repeats, and their numbers in rows of the same form as the papers'."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flcluster.records.configuration import configuration_key, differences
from flcluster.records.reader import Key, Run, Summary, key_of, number, plain_name, results
from flcluster.score import Score, common_score

OURS = "ours"


class Row(NamedTuple):
    """One number: what was measured, where, by which method, and who says so (``ours`` or a paper's name)."""

    dataset: str
    K: int
    method: str
    metric: str
    mean: float
    std: float
    source: str


Groups = Mapping[Key, Sequence[Run]]
"""What a table calls runs -> those runs, repeats of each other."""


def repeats(runs: Iterable[Run]) -> Groups:
    """Gather runs whose configurations differ only in their seed, by dataset and K, else in order of appearance.

    Others of the same name are no repeats: what sets them apart follows their method's name.
    """
    named: dict[Key, dict[str, list[Run]]] = {}
    for run in runs:
        named.setdefault(key_of(run.summary), {}).setdefault(configuration_key(run), []).append(run)
    groups: dict[Key, list[Run]] = {}
    for (dataset, K, method), alike in sorted(named.items(), key=lambda item: item[0][:2]):
        apart = differences([group[0] for group in alike.values()]) if len(alike) > 1 else [""]
        for said, group in zip(apart, alike.values(), strict=True):
            groups[dataset, K, f"{method} ({said})" if said else method] = group
    return groups


def score_of(groups: Groups) -> Score:
    """Return what all runs are scored by; "score" if that differs."""
    return common_score(run.score for group in groups.values() for run in group)


def said_of_scores(groups: Groups) -> str:
    """Say what runs are scored by where it is not accuracy alone, as a sentence to follow others."""
    methods: dict[str, dict[str, None]] = {}
    for key, group in groups.items():
        for run in group:
            methods.setdefault(run.score.text, {})[key[2]] = None
    if set(methods) <= {Score().text}:
        return ""
    if len(methods) == 1:
        return f" Score: {next(iter(methods))}."
    return " Scores: " + "; ".join(f"{name} of {', '.join(of)}" for name, of in methods.items()) + "."


def per_update(summary: Summary, name: str) -> float:
    """Return a summary's total divided by its updates, NaN where either is unknown."""
    updates = number(summary, "updates")
    return number(summary, name) / updates if updates > 0 else math.nan


def mean_std(values: Iterable[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation of the finite values; NaN where there are too few.

    >>> mean_std([1.0, 3.0, math.nan])
    (2.0, 1.4142135623730951)
    """
    finite = [value for value in values if math.isfinite(value)]
    mean = statistics.fmean(finite) if finite else math.nan
    return mean, statistics.stdev(finite) if len(finite) > 1 else math.nan


def unit_of(groups: Groups, key: Key, methods: Sequence[str]) -> Key | None:
    """Return the key at the same dataset and K of the first of some methods that ran there, if need be a variant."""
    here = [other for other in groups if other[:2] == key[:2]]
    for method in methods:
        if found := [other for other in here if plain_name(other[2]) == plain_name(method)]:
            return min(found, key=lambda other: other[2] != method)
    return None


def ratios(groups: Groups, key: Key, name: str, methods: Sequence[str]) -> list[float]:
    """Return each repeat's total per update over the mean of the first of some methods that ran there, or NaN."""
    base = unit_of(groups, key, methods)
    unit, _ = mean_std(per_update(run.summary, name) for run in (groups[base] if base else ()))
    return [per_update(run.summary, name) / unit if unit > 0 else math.nan for run in groups[key]]


def our_rows(groups: Groups) -> list[Row]:
    """Aggregate repeats to mean and standard deviation over seeds, for all that their summaries tell."""
    rows = []
    for key, group in groups.items():
        found = [results(run.summary) for run in group]
        for name in dict.fromkeys(name for each in found for name in each):
            rows.append(Row(*key, name, *mean_std(each[name] for each in found if name in each), OURS))
    return rows


def cautions(groups: Groups) -> list[str]:
    """Say where the runs averaged are more than repeats of each other under different seeds."""
    said = []
    for (dataset, K, method), group in groups.items():
        told = [run.summary for run in group]
        unlike = [name for name in ("num_clients", "updates") if len({summary.get(name) for summary in told}) > 1]
        unlike += ["a repeated seed"] if len({summary.get("seed") for summary in told}) < len(told) else []
        said += [f"{method} on {dataset}, K={K}: not plain repeats ({', '.join(unlike)})."] if unlike else []
    return said
