"""Our rows beside those that the papers print for the same dataset, K and method."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from flcluster.records.reader import Key, Summary, family, method_name
from flcluster.report import printed_apfl as beside_apfl
from flcluster.report.paper_tables import read_table
from flcluster.report.summaries import OURS, Groups, Row, markdown_table, mean_std, plus_minus, ratios

PAPERS = {"CDFL paper": ("cdfl_table1",), "CCFL paper": ("ccfl_table1",), "DFCA paper": ("dfca_table1", "dfca_table2")}
"""How a paper is called in our tables, and the tables of it that have results by dataset, K and method."""


SOURCES = (OURS, *PAPERS, beside_apfl.PAPER)


SKEW = {"Global test": "acc_global", "Local test": "acc_local", "Friends, global test": "friend_acc_global"}


SKEW |= {f"{title}, dropouts": f"{metric}_dropouts" for title, metric in SKEW.items()}
"""What is compared where clients differ in their labels."""


def paper_rows(
    dataset: str, K: int, method: str, summary: Summary | None = None, names: Collection[str] | None = None
) -> list[Row]:
    """Return what the papers print for a dataset, K and method; accepts our class names too.

    Args:
        dataset: Of the key of a run, like K and method.
        K: Number of clusters.
        method: Name of the method.
        summary: That of the run, which tells all that AP-FL's tables ask; without it they are left out.
        names: The tables to look in; all if not given.
    """
    wanted = (dataset, K, method_name(method))
    printed = (family(dataset), K, family(wanted[2]))  # what tells our variants apart is in no paper's table
    lines = [
        (paper, line)
        for paper, tables in PAPERS.items()
        for name in tables
        if names is None or name in names
        for line in read_table(name)
    ]
    rows = [_percent_row(line, paper) if "mean_pct" in line else _share_row(line, paper) for paper, line in lines]
    found = [row._replace(dataset=dataset, method=wanted[2]) for row in rows if row[:3] == printed]
    if summary is None:
        return found
    return found + beside_apfl.apfl_rows(wanted, summary, beside_apfl.TABLES if names is None else names)


def notes(rows: Iterable[Row]) -> str:
    """Return what must be known of some rows' sources, as a sentence to follow others."""
    return f" {beside_apfl.NOTE}." if any(row.source == beside_apfl.PAPER for row in rows) else ""


def _share_row(line: Mapping[str, str], paper: str) -> Row:
    mean, std = float(line["mean"]), float(line["std"])
    return Row(line["dataset"], int(line["K"]), line["method"], line["metric"], mean, std, paper)


def _percent_row(line: Mapping[str, str], paper: str) -> Row:
    """DFCA's tables are in percent, and of all clients."""
    mean, std = (round(float(line[name]) / 100, 6) for name in ("mean_pct", "std_pct"))
    return Row(line["dataset"], int(line["k"]), line["method"], "client_all", mean, std, paper)


def finer_digits(source: str) -> int:
    """Return how many digits more of a paper's deviations are shown than of its means."""
    return 1 if source in ("DFCA paper", beside_apfl.PAPER) else 0


def markdown(groups: Groups, rows: Iterable[Row]) -> str:
    """Return a Markdown table, one line a dataset, K and method: ours and the papers' in columns side by side."""
    values = {(row[:3], row.metric, row.source): row for row in rows}
    lines = [_markdown_cells(groups, key, values) for key in groups]
    columns = [name for name in lines[0] if any(line[name] for line in lines)]
    return markdown_table([columns, *([line[name] for name in columns] for line in lines)])


def _markdown_cells(groups: Groups, key: Key, rows: Mapping[Any, Row]) -> dict[str, str]:
    def cell(metric: str, source: str = OURS, scale: float = 1.0, digits: int = 3) -> str:
        row = rows.get((key, metric, source))
        return plus_minus(scale * row.mean, scale * row.std, digits, finer_digits(source)) if row else ""

    cells = {"Dataset": key[0], "K": str(key[1]), "Method": key[2], "Runs": str(len(groups[key]))}
    cells |= {f"{title} ({source})": cell(metric, source) for title, metric in SKEW.items() for source in SOURCES}
    cells |= {"Global model, global test (ours)": cell("global_model_acc")}
    cells |= {f"All clients ({source})": cell("client_all", source) for source in SOURCES}
    cells |= {"All clients, last 5 rows (ours)": cell("client_all_last"), "Purity (ours)": cell("purity")}
    for title, metric in (("Client before", "client_before"), ("Client after", "client_after"), ("Cluster", "cluster")):
        metric = "client" if family(key[2]) == "Local" and metric == "client_after" else metric
        cells |= {f"{title} ({source})": cell(metric, source) for source in SOURCES}
    cells |= {"Heterogeneity (ours)": cell("heterogeneity"), "Re-clusterings (ours)": cell("reclusterings", digits=1)}
    shares = {name: cell(f"{name.lower()}_share", scale=100, digits=1) for name in ("Fresh", "Deprecated")}
    cells |= {"KL (ours)": cell("kl"), **{f"{name} % (ours)": share for name, share in shares.items()}}
    download = plus_minus(*mean_std(ratios(groups, key, "download_bytes")), digits=2)
    return cells | {"Download, CDFL = 1 (ours)": download, "Seconds (ours)": cell("wall_seconds", digits=0)}
