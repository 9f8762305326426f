"""Numbers in rows: the papers' printed tables, and our own runs aggregated over seeds in the same schema."""

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from flcluster.errors import UserError

OURS = "ours"

METHODS = ("CDFL", "CCFL", "FedSoft-Async", "FedBuff", "CA2FL", "Local", "FedAvg", "IFCA")
DRIFT_METHODS: tuple[str, ...] = ("Fielding", "AlwaysRecluster", "MoveIndividuals", "StaticClustering", "SelectedOnly")
DRIFT_METHODS += ("FlexCFL", "Auxo", "FedDrift")
GOSSIP_METHODS = ("DFCA-GI", "DFCA-LI", "DFedAvgM", "FedSPD", "AsyncDFCA-GI", "AsyncDFCA-LI")
SKEW_METHODS = ("FedProx", "SCAFFOLD", "FedGen", "FedDF", "FedAvg-FT", "AP-FL")
"""The order of methods in tables and pictures, first those for uploads; others follow by name."""

METRICS = {"client_before": "client_acc_before", "client_after": "client_acc_after", "cluster": "cluster_acc"}
METRICS |= {"client": "client_acc_after", "cluster_trajectory_mean": "cluster_acc_mean"}
METRICS |= {"client_all": "client_acc", "client_all_last": "client_acc_last"}
METRICS |= {name: name for name in ("heterogeneity", "reclusterings", "clusters", "coordinator_seconds", "lost")}
METRICS |= {name: name for name in ("purity", "disagreement", "messages", "isolated", "ifca_style_acc")}
METRICS |= {name: name for name in ("acc_global", "acc_local", "acc_global_dropouts", "acc_local_dropouts")}
METRICS |= {f"friend_{name}": f"friend_{name}" for name in list(METRICS) if name.startswith("acc_")}
METRICS |= {name: name for name in ("global_model_acc", "generator_loss")}
METRICS |= {name: name for name in ("kl", "fresh_share", "deprecated_share", "refused", "updates", "wall_seconds")}
METRICS |= {name: name for name in ("upload_bytes", "download_bytes", "client_compute", "server_compute")}
"""A metric's name in the rows (the papers' where they have it) and its key in a run's summary."""


class Row(NamedTuple):
    """One number: what was measured, where, by which method, and who says so (``ours`` or a paper's name)."""

    dataset: str
    K: int
    method: str
    metric: str
    mean: float
    std: float
    source: str


Summary = Mapping[str, Any]
"""A run's ``summary.json``."""
Key = tuple[str, int, str]
"""Dataset (and who holds what of it), number of clusters and method: runs that share it are repeats of each other."""
Groups = Mapping[Key, Sequence[Summary]]


def method_name(algorithm: str) -> str:
    """Return the papers' spelling of an algorithm's class name.

    >>> method_name("FedSoftAsync (staleness in epochs)")
    'FedSoft-Async (staleness in epochs)'
    """
    name, variant = family(algorithm), algorithm[len(family(algorithm)) :]
    return {"FedSoftAsync": "FedSoft-Async"}.get(name, name) + variant


def family(method: str) -> str:
    """Return a method's or a dataset's name without what tells its variants apart.

    >>> family("AP-FL (one-hot (control))"), family("MNIST (pixels in [0, 1])")
    ('AP-FL', 'MNIST')
    """
    return method.partition(" (")[0]


def key_of(summary: Summary) -> Key:
    """Return what a run is a repeat of; where clients differ in their labels, who holds what belongs to the dataset."""
    dataset = str(summary["dataset"])
    if summary.get("partition"):
        dataset = f"{dataset}, {summary['partition']}, {summary.get('num_clients', '?')} clients"
    return dataset, int(summary["num_clusters"]), method_name(summary["algorithm"])


def order(key: Key) -> tuple[str, int, int, str]:
    """Sort key: by dataset, K, then the methods' fixed order."""
    dataset, K, method = key
    known, name = METHODS + DRIFT_METHODS + GOSSIP_METHODS + SKEW_METHODS, family(method)
    return dataset, K, known.index(name) if name in known else len(known), method


def repeats(summaries: Iterable[Summary]) -> Groups:
    """Gather summaries that differ only in their seed, in table order."""
    groups: dict[Key, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(key_of(summary), []).append(summary)
    return {key: groups[key] for key in sorted(groups, key=order)}


def number(summary: Summary, name: str) -> float:
    """Return a summary's value as a float, NaN where it is absent or null."""
    value = summary.get(name)
    return math.nan if value is None else float(value)


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
    """Write rows as CSV with the columns of :class:`Row`; NaN becomes an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(["" if cell != cell else cell for cell in row] for row in rows)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells, the first being the head, as a Markdown table."""
    head, *body = ([cell.replace("|", "\\|") for cell in cells] for cells in rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *body])


def list_tables() -> list[str]:
    """Return the names of the papers' tables that ship with the package."""
    names = (item.name for item in resources.files("flcluster").joinpath("papers").iterdir())
    return sorted(name.removesuffix(".csv") for name in names if name.endswith(".csv"))


def read_table(name: str) -> list[dict[str, str]]:
    """Return a paper table's rows as printed, one dictionary a row."""
    if name not in list_tables():
        raise UserError(f"There is no paper table {name!r}; choose one of: {', '.join(list_tables())}.")
    text = resources.files("flcluster").joinpath("papers", f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def paper_table(name: str) -> Table:
    """Return any of the papers' tables for printing."""
    rows = read_table(name)
    table = Table(title=f"{name} (as printed in the paper)", caption="From the paper; none of it is ours.")
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    return table


def paper_markdown(name: str) -> str:
    """Return any of the papers' tables as Markdown, as printed."""
    rows = read_table(name)
    return markdown_table([list(rows[0]), *(list(row.values()) for row in rows)])
