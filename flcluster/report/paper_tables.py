"""The papers' printed tables, which ship with the package."""

import csv
from importlib import resources

from rich.table import Table

from flcluster.errors import UserError
from flcluster.report.summaries import markdown_table


def list_tables() -> list[str]:
    """Return the names of the papers' tables that ship with the package."""
    names = (item.name for item in resources.files("flcluster.report.papers").iterdir())
    return sorted(name.removesuffix(".csv") for name in names if name.endswith(".csv"))


def read_table(name: str) -> list[dict[str, str]]:
    """Return a paper table's rows as printed, one dictionary a row."""
    if name not in list_tables():
        raise UserError(f"There is no paper table {name!r}; choose one of: {', '.join(list_tables())}.")
    text = resources.files("flcluster.report.papers").joinpath(f"{name}.csv").read_text(encoding="utf-8")
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
