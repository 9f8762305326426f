"""Lay runs beside the papers: in the terminal and as a report."""

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flcluster.errors import UserError
from flcluster.files import slug
from flcluster.records.reader import Key, Run, Summary, key_of, load_runs, number
from flcluster.report import printed as beside
from flcluster.report import summaries as tables
from flcluster.report.figures import accuracy as figures
from flcluster.report.paper_tables import list_tables, paper_table
from flcluster.report.summaries import Row, plus_minus

__all__ = ["Run", "list_tables", "load_runs", "paper_table", "summary_table", "write_report"]


SPREADS = "CDFL paper: ± over 5 repeats; CCFL paper: ± across clients; DFCA paper: ± over 5 seeds"


BASE = "Download: per update, relative to CDFL (to CCFL where CDFL was not run)."


ACCURACIES = {"All\nclients": "client_acc", "Client\nbefore": "client_acc_before", "Client\nafter": "client_acc_after"}


ACCURACIES |= {"Cluster": "cluster_acc"}


SKEW = {"Global\ntest": "acc_global", "Local\ntest": "acc_local", "Friends": "friend_acc_global"}


SKEW |= {"Dropouts,\nglobal": "acc_global_dropouts", "Dropouts,\nlocal": "acc_local_dropouts"}


SKEW |= {"Dropouts'\nfriends": "friend_acc_global_dropouts"}
"""Columns of runs whose clients differ in their labels; friends on the global test set."""


COLUMNS = ("Method", "Dataset", "K", "Clients", "Updates", *SKEW, *ACCURACIES, "Purity", "Hetero-\ngeneity")


COLUMNS += ("Re-clus-\nterings", "KL", "Fresh\n%", "Depr.\n%", "Downl.\n/ CDFL", "Time")


def wide_console() -> Console:
    """Return a console wide enough for the tables, also where output is piped."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 140))


def summary_table(runs: Sequence[Run]) -> Table:
    """Return one row a run, and a dim row for each paper that prints the same dataset, K and method.

    A column that is empty in every row is left out, and so are shares of uploads that no run has.
    """
    table = Table(title="Runs", box=box.SIMPLE_HEAD, padding=0, caption_justify="left")
    table.caption = f"Bright rows: OURS (± across a run's clients). Dim rows: printed in the PAPER ({SPREADS})."
    rows: list[tuple[dict[str, str], str | None]] = []
    groups, found = tables.repeats(run.summary for run in runs), list[Row]()
    for key, group in groups.items():
        for summary, download in zip(group, tables.ratios(groups, key, "download_bytes"), strict=True):
            rows.append((_run_cells(key, summary, plus_minus(download, digits=2)), None))
        printed = beside.paper_rows(*key, group[0])
        found += printed
        rows += [(_paper_cells(key, paper, printed), "dim") for paper in dict.fromkeys(row.source for row in printed)]
    none = {"", "0.0"} if all(run.summary.get("client_acc") is not None for run in runs) else {""}
    shown = [title for title in COLUMNS if any(cells.get(title, "") not in none for cells, _ in rows)]
    table.caption += f" {BASE}" if "Downl.\n/ CDFL" in shown else ""
    table.caption += beside.notes(found)
    for title in shown:
        side: Literal["left", "right"] = "left" if title in ("Method", "Dataset") else "right"
        table.add_column(title, justify=side, overflow="fold", no_wrap=title == "Method")
    for cells, style in rows:
        table.add_row(*(cells.get(title, "") for title in shown), style=style)
    return table


def _run_cells(key: Key, summary: Summary, download: str) -> dict[str, str]:
    def share(name: str) -> str:
        return plus_minus(100 * number(summary, name), digits=1)

    cells = {"Method": escape(key[2]), "Dataset": escape(key[0]), "K": str(key[1])}
    sizes = {"Clients": "num_clients", "Updates": "updates"}
    cells |= {title: "" if summary.get(name) is None else str(summary[name]) for title, name in sizes.items()}
    for title, name in (SKEW | ACCURACIES).items():
        cells[title] = plus_minus(number(summary, name), number(summary, f"{name}_std"))
    cells |= {"Purity": plus_minus(number(summary, "purity"))}
    cells |= {"Hetero-\ngeneity": plus_minus(number(summary, "heterogeneity"))}
    cells |= {"Re-clus-\nterings": plus_minus(number(summary, "reclusterings"), digits=0)}
    cells |= {"KL": plus_minus(number(summary, "kl")), "Downl.\n/ CDFL": download}
    cells |= {"Fresh\n%": share("fresh_share"), "Depr.\n%": share("deprecated_share")}
    seconds = number(summary, "wall_seconds")
    return cells | {"Time": str(timedelta(seconds=round(seconds))) if math.isfinite(seconds) else ""}


def _paper_cells(key: Key, paper: str, rows: Iterable[Row]) -> dict[str, str]:
    finer = beside.finer_digits(paper)
    cell = {row.metric: plus_minus(row.mean, row.std, finer=finer) for row in rows if row.source == paper}
    cells = {"Method": f" {paper}", "Dataset": key[0], "K": str(key[1]), "Cluster": cell.get("cluster", "")}
    after = cell.get("client_after", cell.get("client", ""))
    cells |= {"All\nclients": cell.get("client_all", "")}
    cells |= {title: cell.get(name, "") for title, name in SKEW.items()}
    return cells | {"Client\nbefore": cell.get("client_before", ""), "Client\nafter": after}


def write_report(runs: Sequence[Run], out_dir: str | Path) -> list[Path]:
    """Write ``report.md``, ``report.csv`` and the pictures; return what was written."""
    if not runs:
        raise UserError("There is no run to report on: give at least one finished run's directory.")
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    groups = tables.repeats(run.summary for run in runs)
    rows = tables.our_rows(groups) + [row for key, group in groups.items() for row in beside.paper_rows(*key, group[0])]
    tables.write_rows(sorted(rows, key=lambda row: tables.order(row[:3])), out / "report.csv")
    pictures = _pictures(runs, out)
    lines = ["# Runs beside the papers", "", beside.markdown(groups, rows), ""]
    lines += [f"Columns marked *ours* are measured here, mean ± standard deviation over runs. {SPREADS}. {BASE}"]
    lines[-1] += beside.notes(rows)
    lines += ["", *(f"- {note}" for note in tables.cautions(groups)), ""]
    lines += [f"![{picture.stem}]({picture.name})\n" for picture in pictures]
    lines += ["## Runs", "", *(f"- {run.label}: `{run.path}`" for run in runs), ""]
    (out / "report.md").write_text("\n".join(lines), encoding="utf-8")
    return [out / "report.md", out / "report.csv", *pictures]


def _pictures(runs: Sequence[Run], out: Path) -> list[Path]:
    settings: dict[str, list[Run]] = {}
    methods: dict[str, Run] = {}
    for run in runs:
        dataset, K, method = key_of(run.summary)
        settings.setdefault(slug(f"{dataset}_K{K}"), []).append(run)
        methods.setdefault(slug(f"{dataset}_K{K}_{method}"), run)
    drawn = [figures.accuracy_over_time(group, out / f"accuracy_{name}.png") for name, group in settings.items()]
    drawn += [figures.kl_per_method(runs, out / "kl.png"), figures.overheads(runs, out / "overheads.png")]
    drawn += [figures.mixtures(run, out / f"mixtures_{name}.png") for name, run in methods.items()]
    return [path for path in drawn if path is not None]
