"""Tables in narrow terminals, and as files."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from flcluster.cli import main
from flcluster.report import tables
from flcluster.report.paper_tables import list_tables, paper_grid
from flcluster.report.tables import Grid, fitting, terminal

ROW = {
    "Method": "CDFL",
    "Dataset": "Digits",
    "K": "4",
    "Client before": "0.819 ±0.050",
    "Cluster": "0.906",
    "KL": "0.221",
}


@pytest.fixture
def narrow(monkeypatch):
    """Eighty columns on a terminal."""
    console = Console(width=80, file=io.StringIO(), record=True, force_terminal=True)
    monkeypatch.setattr(tables, "Console", lambda: console)
    return console


@pytest.mark.parametrize("name", list_tables())
def test_no_line_is_wider_than_the_terminal_and_no_number_is_broken(name, narrow):
    grid = paper_grid(name)
    narrow.print(terminal(grid))
    text = narrow.export_text()
    assert max(map(len, text.splitlines())) <= 80
    shown = fitting(grid, 80)
    absent = [head for head in grid.heads if head not in shown]
    assert ("Left out in 80 columns:" in " ".join(text.split())) == bool(absent)
    for row in grid.rows:
        for head in shown:
            if row.get(head, "")[:1].isdigit() and " " not in row[head]:
                assert row[head] in text


def test_by_hand(narrow):
    """1 + (6+1) + (7+1) + (1+1) + (12+1) + (7+1) + (5+1): all fit in 45 columns, without KL in 44."""
    grid = Grid("Runs", [ROW])
    assert fitting(grid, 45) == list(ROW)
    assert fitting(grid, 44) == list(ROW)[:-1]
    assert fitting(grid, 3) == ["Method"]


def test_files(capsys):
    assert main(["tables", "cdfl_table1", "dfca_table1", "--output", "two.md"]) == 0
    text = Path("two.md").read_text()
    assert text.count("\n# ") + text.startswith("# ") == 2 and "0.834" in text
    assert main(["tables", "cdfl_table1", "--output", "one.csv"]) == 0
    assert list(csv.DictReader(Path("one.csv").read_text().splitlines())) == [
        {head: row[head] for head in paper_grid("cdfl_table1").heads} for row in paper_grid("cdfl_table1").rows
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["cdfl_table1", "--output", "x.pdf"], "--output x.pdf: tables are written as .md or .csv"),
        (["cdfl_table1", "dfca_table1", "--output", "x.csv"], "one table"),
        (["--output", "x.md"], "name the tables"),
        (["cdfl_table9"], "choose one of"),
    ],
)
def test_what_cannot_be_written(argv, said, capsys):
    assert main(["tables", *argv]) == 2
    assert said in capsys.readouterr().err and not list(Path().glob("x.*"))


def test_help(capsys):
    with pytest.raises(SystemExit) as end:
        main(["tables", "--help"])
    assert end.value.code == 0 and "--output" in capsys.readouterr().out
