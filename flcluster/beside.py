"""Our rows beside those that the papers print for the same dataset, K and method."""

from collections.abc import Iterable, Mapping
from typing import Any

from flcluster.tables import (
    OURS,
    Groups,
    Key,
    Row,
    markdown_table,
    mean_std,
    method_name,
    plus_minus,
    ratios,
    read_table,
)

PAPERS = {"CDFL paper": ("cdfl_table1",), "CCFL paper": ("ccfl_table1",), "DFCA paper": ("dfca_table1", "dfca_table2")}
"""How a paper is called in our tables, and the tables of it that have results by dataset, K and method."""


def paper_rows(dataset: str, K: int, method: str) -> list[Row]:
    """Return what the papers print for a dataset, K and method; accepts our class names too."""
    wanted = (dataset, K, method_name(method))
    lines = [(paper, line) for paper, names in PAPERS.items() for name in names for line in read_table(name)]
    rows = [_percent_row(line, paper) if "mean_pct" in line else _share_row(line, paper) for paper, line in lines]
    return [row for row in rows if row[:3] == wanted]


def _share_row(line: Mapping[str, str], paper: str) -> Row:
    mean, std = float(line["mean"]), float(line["std"])
    return Row(line["dataset"], int(line["K"]), line["method"], line["metric"], mean, std, paper)


def _percent_row(line: Mapping[str, str], paper: str) -> Row:
    """DFCA's tables are in percent, and of all clients."""
    mean, std = (round(float(line[name]) / 100, 6) for name in ("mean_pct", "std_pct"))
    return Row(line["dataset"], int(line["k"]), line["method"], "client_all", mean, std, paper)


def finer_digits(source: str) -> int:
    """Return how many digits more a paper prints of its deviations than of its means."""
    return 1 if source == "DFCA paper" else 0


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
    cells |= {f"All clients ({source})": cell("client_all", source) for source in (OURS, *PAPERS)}
    cells |= {"All clients, last 5 rows (ours)": cell("client_all_last"), "Purity (ours)": cell("purity")}
    for title, metric in (("Client before", "client_before"), ("Client after", "client_after"), ("Cluster", "cluster")):
        metric = "client" if key[2] == "Local" and metric == "client_after" else metric
        cells |= {f"{title} ({source})": cell(metric, source) for source in (OURS, *PAPERS)}
    cells |= {"Heterogeneity (ours)": cell("heterogeneity"), "Re-clusterings (ours)": cell("reclusterings", digits=1)}
    shares = {name: cell(f"{name.lower()}_share", scale=100, digits=1) for name in ("Fresh", "Deprecated")}
    cells |= {"KL (ours)": cell("kl"), **{f"{name} % (ours)": share for name, share in shares.items()}}
    download = plus_minus(*mean_std(ratios(groups, key, "download_bytes")), digits=2)
    return cells | {"Download, CDFL = 1 (ours)": download, "Seconds (ours)": cell("wall_seconds", digits=0)}
