"""The numbers of a study: one per variant, seed and column, and their table over seeds."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from flcluster.records.columns import LAST, Column
from flcluster.records.columns import column as described
from flcluster.records.reader import key_of, number
from flcluster.report.curves import final_value, own_time, points, time_to_accuracy, time_unit
from flcluster.report.printed import beside, notes, paper_rows
from flcluster.report.study.checks import RELATIVE
from flcluster.report.study.file import Runs, Study
from flcluster.report.summaries import Row, mean_std
from flcluster.report.tables import Grid, write_csv
from flcluster.score import Score, common_score, is_score, same_direction


def value(study: Study, runs: Runs, variant: str, seed: int, column: str) -> float:
    """Return a column of the table for one run: relative to its target, from its summary, or from its metrics' end."""
    if study.target is not None and column in RELATIVE:
        return _relative(study, runs, variant, seed, column)
    run = runs[variant][seed]
    known = number(run.summary, column) if isinstance(run.summary.get(column), int | float) else math.nan
    if math.isfinite(known):
        return known
    if column.endswith(LAST):
        return final_value(points(run, "update", column.removesuffix(LAST))[1])
    return final_value(points(run, "update", column)[1], last=1)


def score_of(runs: Runs) -> Score:
    """Return what all runs of a study are scored by; "score" if that differs."""
    return common_score(run.score for seeds in runs.values() for run in seeds.values())


def _relative(study: Study, runs: Runs, variant: str, seed: int, column: str) -> float:
    """Compare a run with its target's run of the same seed."""
    target = study.target
    assert target is not None
    baseline = target.of(variant)
    if baseline is None or seed not in runs.get(baseline, {}):
        return math.nan
    theirs, mine = runs[baseline][seed], runs[variant][seed]
    score = same_direction((theirs.score, mine.score), f"study {study.path}: target {baseline} of {variant}")
    higher = score.better(target.y)
    times, accuracies = points(theirs, target.x, target.y)
    goal = final_value(accuracies, target.last)
    own = points(mine, target.x, target.y)
    base = own_time(times, accuracies, goal, higher)
    reached = base if variant == baseline else time_to_accuracy(*own, goal, higher)
    if column in ("target", "tta"):
        return goal if column == "target" else reached
    if column == "gain":
        points_up = 100 if score.is_accuracy or not is_score(target.y) else 1
        return points_up * (final_value(own[1], target.last) - goal) * (1 if higher else -1)
    return base / reached if reached > 0 else math.nan


def columns_of(study: Study, runs: Runs) -> list[str]:
    """Return the table's columns that some run has a value for."""
    return [name for name in study.table if any(np.isfinite(over_seeds(study, runs, v, name)).any() for v in runs)]


def over_seeds(study: Study, runs: Runs, variant: str, column: str) -> list[float]:
    """Return a column's values of a variant's runs, by seed."""
    return [value(study, runs, variant, seed, column) for seed in sorted(runs[variant])]


def known_means(study: Study, runs: Runs, column: str) -> dict[str, tuple[float, float]]:
    """Return a column's mean and standard deviation over seeds, for the variants that have one."""
    found = {name: mean_std(over_seeds(study, runs, name, column)) for name in runs}
    return {name: pair for name, pair in found.items() if math.isfinite(pair[0])}


def printed_rows(study: Study, runs: Runs, variant: str) -> list[Row]:
    """Return what the tables that a study names print for the setting of a variant's runs."""
    summary = runs[variant][min(runs[variant])].summary
    return paper_rows(*key_of(summary), summary, study.paper) if study.paper else []


def write_values(study: Study, runs: Runs, path: Path) -> None:
    """Write every number as a line of CSV: variant, seed, metric, value (empty if there is none)."""
    columns = [*study.table, *(["target"] if study.target is not None and "target" not in study.table else [])]
    wanted = [(variant, seed, column) for variant in runs for seed in sorted(runs[variant]) for column in columns]
    lines = [(*which, value(study, runs, *which)) for which in wanted]
    write_csv(path, ("variant", "seed", "metric", "value"), lines)


def grid(study: Study, runs: Runs) -> Grid:
    """Return the study's table: mean ± standard deviation over seeds, and beside it what papers print."""
    unit, axis = _time_axis(study, runs)
    score = score_of(runs)
    tta = f"{described('tta').title} ({axis.rpartition('(')[2].rstrip(')')})"
    columns = [replace(described(name), title=tta) if name == "tta" else described(name, score) for name in study.table]
    ours = {column: [_cell(study, runs, variant, column, unit) for variant in runs] for column in columns}
    asked = {column.name for column in columns}
    printed = [[row for row in printed_rows(study, runs, name) if row.metric in asked] for name in runs]
    leads = [{"Variant": name, "Seeds": str(len(seeds))} for name, seeds in runs.items()]
    lines = beside(ours, printed) or [{} for _ in leads]
    rows = [{**lead, **line} for lead, line in zip(leads, lines, strict=True)]
    return Grid(study.title, rows, caption(study, runs) + notes(row for rows in printed for row in rows))


def _time_axis(study: Study, runs: Runs) -> tuple[float, str]:
    x = study.target.x if study.target is not None else "time"
    return (
        time_unit(run for seeds in runs.values() for run in seeds.values())
        if x == "time"
        else (1.0, described(x).label)
    )


def _cell(study: Study, runs: Runs, variant: str, column: Column, unit: float) -> str:
    values = np.array(over_seeds(study, runs, variant, column.name)) / (unit if column.name == "tta" else 1.0)
    known = values[np.isfinite(values)]
    if not len(known):
        reachable = column.name == "tta" and np.isfinite(over_seeds(study, runs, variant, "target")).any()
        return "never" if reachable else ""
    some = f" ({len(known)}/{len(values)} seeds)" if len(known) < len(values) else ""
    return column.text(*mean_std(known.tolist()), runs=len(known)) + some


def caption(study: Study, runs: Runs) -> str:
    """Say how the table's numbers came about."""
    said = ["Mean ± standard deviation over seeds." if any(len(r) > 1 for r in runs.values()) else "One seed each."]
    target, score = study.target, score_of(runs)
    said += [] if score.plain else [f"Score: {score.text}."]
    if target is None or not set(RELATIVE) & set(study.table):
        return " ".join(said)
    whose = f"{target.variant}'s" if target.variant else "its baseline's"
    if target.variant and target.baselines:
        whose += " (or its own baseline's)"
    rows = f"the mean of its last {target.last} rows" if target.last > 1 else "its last row"
    above = "above" if score.better(target.y) else "below"
    said += [f"Target: {whose} final {target.y}, {rows}, with the same seed."]
    said += [f"Time to target: the first {target.x} from which {target.y} stays at or {above} it; a target's own time"]
    said[-1] += " ends with its run at the latest. Speed-up: the target's own time over the variant's."
    pairs = [f"{variant}: {baseline}" for variant, baseline in target.baselines.items()]
    return " ".join(said) + (f" Baselines: {'; '.join(pairs)}." if pairs else "")
