"""The papers' printed tables, which ship with the package."""

import csv
from importlib import resources

from rich.table import Table

from flcluster.errors import UserError
from flcluster.report.tables import Grid, terminal


def list_tables() -> list[str]:
    """Return the names of the papers' tables that ship with the package."""
    names = (item.name for item in resources.files("flcluster.report.papers").iterdir())
    return sorted(name.removesuffix(".csv") for name in names if name.endswith(".csv"))


def read_table(name: str) -> list[dict[str, str]]:
    """Return a paper table's rows as printed, one dictionary a row."""
    if name not in list_tables():
        raise UserError(f"There is no paper table {name!r}; choose one of: {', '.join(list_tables())}.")
    return read_csv("flcluster.report.papers", name)


def read_csv(package: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file that ships with a package."""
    text = resources.files(package).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def paper_grid(name: str) -> Grid:
    """Return any of the papers' tables, as printed."""
    return Grid(f"{name} (as printed in the paper)", read_table(name), "From the paper; none of it is ours.")


def paper_table(name: str) -> Table:
    """Return any of the papers' tables for printing."""
    return terminal(paper_grid(name))
