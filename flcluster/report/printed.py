"""What the papers print for a run: found in their tables by its dataset, clusters, method and who holds what.

``papers/*.csv`` has the tables: a line with a ``metric`` (a column of ours) is about the runs that fit all its other
columns. ``sources.csv`` says which tables are compared with, whose they are and what must be known of them, and
``units.csv`` what a quantity is printed relative to.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache

from flcluster.records.columns import Column
from flcluster.records.reader import Summary, plain_name
from flcluster.report.paper_tables import read_csv, read_table
from flcluster.report.summaries import Row
from flcluster.report.tables import Cells
from flcluster.score import Score, is_score

Line = Mapping[str, str]


@cache
def sources() -> list[dict[str, str]]:
    """Return the tables that runs are compared with, with their papers' names."""
    return read_csv("flcluster.report", "sources")


def units(quantity: str) -> list[str]:
    """Return the methods that papers count as 1 for a quantity, the first of those that ran being the unit."""
    return [line["method"] for line in read_csv("flcluster.report", "units") if line["quantity"] == quantity]


def paper_rows(
    dataset: str, K: int, method: str, summary: Summary | None = None, names: Collection[str] | None = None
) -> list[Row]:
    """Return what the papers print for a run, under the name that it has in our tables.

    Args:
        dataset: Of the key of a run, like K and method.
        K: Number of clusters.
        method: Name of the method.
        summary: That of the run, which tells all that tables may ask; without it, only the key is known.
        names: The tables to look in; all if not given.
    """
    told = summary or {"dataset": dataset, "num_clusters": K, "algorithm": method}
    if re.search(r"\((control|fallback)\)", str(told["algorithm"])):
        return []
    accuracy = Score.of(told).is_accuracy
    tables = [source for source in sources() if names is None or source["table"] in names]
    found = [(line, source) for source in tables for line in _lines(source["table"]) if _is_about(line, told)]
    found = [(line, source) for line, source in found if accuracy or not is_score(line["metric"])]
    return [Row(dataset, K, method, line["metric"], *_numbers(line), source["paper"]) for line, source in found]


@cache
def _lines(table: str) -> list[dict[str, str]]:
    return read_table(table)


def _is_about(line: Line, told: Summary) -> bool:
    """Say whether a line of a table fits a run; what a table does not ask may be anything, but for the partition."""
    K = line.get("K") or line.get("k")
    words = set(re.split(r"[\W_]+", str(told.get("semantics")).lower().rpartition("/")[2]))
    return (
        plain_name(line["dataset"]) == plain_name(str(told["dataset"]))
        and plain_name(line["method"]) == plain_name(str(told["algorithm"]))
        and (not K or int(K) == told["num_clusters"])
        and line.get("clients") in (None, "", str(told.get("num_clients")))
        and fnmatchcase(str(told.get("partition") or ""), line.get("partition") or "")
        and (not line.get("semantics") or bool(words & set(line["semantics"].split())))
    )


def _numbers(line: Line) -> tuple[float, float]:
    """Return mean and deviation as shares; NaN for a deviation that is not printed."""
    if "mean" in line:
        return float(line["mean"]), float(line["std"])
    return round(float(line["mean_pct"]) / 100, 6), round(float(line.get("std_pct", math.nan)) / 100, 6)


def finer_digits(paper: str) -> int:
    """Return how many digits more of a paper's deviations are shown than of its means."""
    return max((int(source["finer"]) for source in sources() if source["paper"] == paper), default=0)


def notes(rows: Iterable[Row]) -> str:
    """Return what must be known of the papers that some rows are from, as sentences to follow others."""
    papers = {row.source for row in rows}
    said = [(s["paper"], s[kind]) for kind in ("spread", "note") for s in sources() if s["paper"] in papers and s[kind]]
    return "".join(f" {paper}: {text}." for paper, text in dict.fromkeys(said))


def cell(column: Column, paper: str, rows: Iterable[Row]) -> str:
    """Return what a paper says, among some rows, of a column."""
    found = [row for row in rows if (row.metric, row.source) == (column.name, paper)]
    return column.text(found[0].mean, found[0].std, finer_digits(paper)) if found else ""


def beside(ours: Mapping[Column, Sequence[str]], printed: Sequence[Sequence[Row]]) -> list[Cells]:
    """Return lines of a table: our cells of each column, and right of them what papers have for the same line."""
    columns: dict[str, Sequence[str]] = {}
    for column, cells in ours.items():
        columns[column.title] = cells
        for paper in dict.fromkeys(source["paper"] for source in sources()):
            columns[f"{column.title} ({paper})"] = [cell(column, paper, rows) for rows in printed]
    return [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
