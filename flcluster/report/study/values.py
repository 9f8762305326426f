"""The numbers of a study: one per variant, seed and column, and their table over seeds."""

import csv
import math
from pathlib import Path
from typing import Literal

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from flcluster.records.columns import COUNTS, DIGITS, TITLES
from flcluster.records.reader import number
from flcluster.report.curves import final_value, label_of, own_time, points, time_to_accuracy, time_unit
from flcluster.report.study.file import Runs as Runs
from flcluster.report.study.file import Study
from flcluster.report.study.paper import notes, paper_columns
from flcluster.report.summaries import markdown_table, mean_std, plus_minus


def value(study: Study, runs: Runs, variant: str, seed: int, column: str) -> float:
    """Return a column of the table for one run: relative to its target, from its summary, or from its metrics' end."""
    if study.target is not None and column in ("tta", "speedup", "gain", "target"):
        return _relative(study, runs, variant, seed, column)
    run = runs[variant][seed]
    known = number(run.summary, column) if isinstance(run.summary.get(column), int | float) else math.nan
    if math.isfinite(known):
        return known
    if column.endswith("_last"):
        return final_value(points(run, "update", column.removesuffix("_last"))[1])
    return final_value(points(run, "update", column)[1], last=1)


def _relative(study: Study, runs: Runs, variant: str, seed: int, column: str) -> float:
    """Compare a run with its target's run of the same seed."""
    target = study.target
    assert target is not None
    baseline = target.of(variant)
    if baseline is None or seed not in runs.get(baseline, {}):
        return math.nan
    times, accuracies = points(runs[baseline][seed], target.x, target.y)
    goal = final_value(accuracies, target.last)
    own = points(runs[variant][seed], target.x, target.y)
    base = own_time(times, accuracies, goal)
    reached = base if variant == baseline else time_to_accuracy(*own, goal)
    if column in ("target", "tta"):
        return goal if column == "target" else reached
    if column == "gain":
        return 100 * (final_value(own[1], target.last) - goal)
    return base / reached if reached > 0 else math.nan


def columns_of(study: Study, runs: Runs) -> list[str]:
    """Return the table's columns that some run has a value for."""
    return [name for name in study.table if any(np.isfinite(over_seeds(study, runs, v, name)).any() for v in runs)]


def over_seeds(study: Study, runs: Runs, variant: str, column: str) -> list[float]:
    """Return a column's values of a variant's runs, by seed."""
    return [value(study, runs, variant, seed, column) for seed in sorted(runs[variant])]


def write_values(study: Study, runs: Runs, path: Path) -> None:
    """Write every number as a line of CSV: variant, seed, metric, value (empty if there is none)."""
    columns = [*study.table, *(["target"] if study.target is not None and "target" not in study.table else [])]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("variant", "seed", "metric", "value"))
        for variant in runs:
            for seed in sorted(runs[variant]):
                found = ((column, value(study, runs, variant, seed, column)) for column in columns)
                writer.writerows((variant, seed, column, "" if math.isnan(v) else repr(v)) for column, v in found)


def table_rows(study: Study, runs: Runs) -> list[list[str]]:
    """Return the table's cells, head first: mean ± standard deviation over seeds, and beside it what papers print."""
    unit, axis = _time_axis(study, runs)
    titles = {**TITLES, "tta": f"Time to target ({axis.rpartition('(')[2].rstrip(')')})"}
    columns = {"Variant": list(runs), "Seeds": [str(len(seeds)) for seeds in runs.values()]}
    for name in columns_of(study, runs):
        title = titles.get(name, name.replace("_", " "))
        columns[title] = [_cell(study, runs, variant, name, unit) for variant in runs]
        for paper, cells in paper_columns(study, runs, name).items():
            columns[f"{title} ({paper})"] = [cells.get(variant, "") for variant in runs]
    return [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]


def _time_axis(study: Study, runs: Runs) -> tuple[float, str]:
    x = study.target.x if study.target is not None else "time"
    return time_unit(run for seeds in runs.values() for run in seeds.values()) if x == "time" else (1.0, label_of(x))


def _cell(study: Study, runs: Runs, variant: str, column: str, unit: float) -> str:
    values = np.array(over_seeds(study, runs, variant, column)) / (unit if column == "tta" else 1.0)
    known = values[np.isfinite(values)]
    if not len(known):
        reachable = column == "tta" and np.isfinite(over_seeds(study, runs, variant, "target")).any()
        return "never" if reachable else ""
    whole = column in COUNTS and len(known) == 1
    text = plus_minus(*mean_std(known.tolist()), digits=0 if whole else DIGITS.get(column, 3))
    some = f" ({len(known)}/{len(values)} seeds)" if len(known) < len(values) else ""
    return text + ("×" if column == "speedup" else "") + some


def caption(study: Study, runs: Runs) -> str:
    """Say how the table's numbers came about."""
    said = ["Mean ± standard deviation over seeds." if any(len(r) > 1 for r in runs.values()) else "One seed each."]
    target = study.target
    if target is None or not {"tta", "speedup", "gain", "target"} & set(study.table):
        return said[0] + notes(study, runs)
    whose = f"{target.variant}'s" if target.variant else "its baseline's"
    if target.variant and target.baselines:
        whose += " (or its own baseline's)"
    rows = f"the mean of its last {target.last} rows" if target.last > 1 else "its last row"
    said += [f"Target: {whose} final {target.y}, {rows}, with the same seed."]
    said += [f"Time to target: the first {target.x} from which {target.y} stays at or above it; a target's own time"]
    said[-1] += " ends with its run at the latest. Speed-up: the target's own time over the variant's."
    pairs = [f"{variant}: {baseline}" for variant, baseline in target.baselines.items()]
    return " ".join(said) + (f" Baselines: {'; '.join(pairs)}." if pairs else "") + notes(study, runs)


def terminal_table(study: Study, runs: Runs) -> Table:
    """Return the study's table for the terminal."""
    head, *body = table_rows(study, runs)
    table = Table(title=study.title, box=box.SIMPLE_HEAD, caption=caption(study, runs), caption_justify="left")
    for at, title in enumerate(head):
        side: Literal["left", "right"] = "left" if at == 0 else "right"
        table.add_column(title, justify=side, no_wrap=at == 0, min_width=max(map(len, title.split())))
    for cells in body:
        table.add_row(*map(escape, cells))
    return table


def markdown(study: Study, runs: Runs) -> str:
    """Return the study's table and its caption as Markdown."""
    return f"{markdown_table(table_rows(study, runs))}\n\n{caption(study, runs)}"
