"""Numbers in rows: the papers' printed tables, and our own runs aggregated over seeds in the same schema."""

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from flcluster.records.columns import METRICS
from flcluster.records.reader import Key, Summary, family, key_of, number
from flcluster.records.reader import order as order

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


Groups = Mapping[Key, Sequence[Summary]]


def repeats(summaries: Iterable[Summary]) -> Groups:
    """Gather summaries that differ only in their seed, in table order."""
    groups: dict[Key, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(key_of(summary), []).append(summary)
    return {key: groups[key] for key in sorted(groups, key=order)}


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


def ratios(groups: Groups, key: Key, name: str) -> list[float]:
    """Return each repeat's total per update over CDFL's mean (else CCFL's) at the same dataset and K, or NaN."""
    bases = [groups[base] for base in ((*key[:2], "CDFL"), (*key[:2], "CCFL")) if base in groups]
    unit, _ = mean_std(per_update(summary, name) for summary in (bases[0] if bases else ()))
    return [per_update(summary, name) / unit if unit > 0 else math.nan for summary in groups[key]]


def our_rows(groups: Groups) -> list[Row]:
    """Aggregate repeats to mean and standard deviation over seeds; what no run measured is left out."""
    wanted = [(key, metric) for key in groups for metric in METRICS]
    rows = [Row(*key, metric, *mean_std(_measured(s, metric) for s in groups[key]), OURS) for key, metric in wanted]
    return [row for row in rows if math.isfinite(row.mean)]


def _measured(summary: Summary, metric: str) -> float:
    """Local has one accuracy, ``client``, as in the papers: no server's reply parts a before from an after."""
    client = metric if metric in ("client", "client_before", "client_after") else None
    if client and (client == "client") != (family(summary["algorithm"]) == "Local"):
        return math.nan
    value = number(summary, METRICS[metric])
    return number(summary, "client_acc_before") if client == "client" and math.isnan(value) else value


def cautions(groups: Groups) -> list[str]:
    """Say where the runs averaged are more than repeats of each other under different seeds."""
    said = []
    for (dataset, K, method), group in groups.items():
        unlike = [name for name in ("num_clients", "updates") if len({summary.get(name) for summary in group}) > 1]
        unlike += ["a repeated seed"] if len({summary.get("seed") for summary in group}) < len(group) else []
        said += [f"{method} on {dataset}, K={K}: not plain repeats ({', '.join(unlike)})."] if unlike else []
    return said


def plus_minus(mean: float, std: float = math.nan, digits: int = 3, finer: int = 0) -> str:
    """Return ``mean ±std`` for a table's cell, the deviation with some digits more; nothing for what is NaN."""
    spread = f" ±{std:.{digits + finer}f}" if math.isfinite(std) else ""
    return f"{mean:.{digits}f}{spread}" if math.isfinite(mean) else ""


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write rows as CSV with the columns of ``Row``; NaN becomes an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(["" if cell != cell else cell for cell in row] for row in rows)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells, the first being the head, as a Markdown table."""
    head, *body = ([cell.replace("|", "\\|") for cell in cells] for cells in rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *body])
