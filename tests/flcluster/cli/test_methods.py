"""``flcluster methods`` and ``data --list`` list what there is; the README and docs/ list the same."""

import io
import re
from pathlib import Path

import pytest

from flcluster import algorithms, datamodules
from flcluster.cli import data, listing, main, methods
from flcluster.data import FederatedDataModule
from flcluster.protocol import Algorithm

ROOT = Path(__file__).parents[3]


def table(page: str, head: str) -> list[list[str]]:
    """The cells of a Markdown table's rows."""
    text = (ROOT / page).read_text().split(f"\n{head}\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[1:]]


def named(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_every_method_is_a_line_with_its_paper_and_file(capsys):
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    own = {name for name in algorithms.__all__ if issubclass(getattr(algorithms, name), Algorithm)}
    assert {line.split()[0] for line in lines} == own and len(lines) == len(own)
    (line,) = [line for line in lines if line.startswith("FedAsync ")]
    assert "Xie et al., 2019" in line and line.endswith("uploads/fedasync.py")
    for row in methods.rows():
        assert (ROOT / "algorithms" / row["File"]).exists() and row["What it does"]
        assert row["Paper"] != "–" or row["Method"] in ("Local", "LocalRounds")


def test_words_choose(capsys):
    assert main(["methods", "GOSSIP", "kirch"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["DFCA", "AsyncDFCA"]


def test_every_datamodule_is_a_line(capsys):
    assert main(["data", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    own = {
        name
        for name in datamodules.__all__
        if getattr(datamodules, name) in listing.classes_of("datamodules", FederatedDataModule)
    }
    assert {line.split()[0] for line in lines} == own and "RotatedDigits" in own and "Rotated" not in own
    assert all((ROOT / "datamodules" / row["File"]).exists() for row in data.rows())
    assert main(["data", "--list", "faces"]) == 0
    assert capsys.readouterr().out == ""


def test_the_readmes_table_is_that_list():
    rows = {row["Method"]: row for row in methods.rows()}
    told = set()
    for names, paper, files in table("README.md", "| method | paper | file |"):
        places = re.findall(r"`algorithms/([\w/.]+)`", files)
        for name in named(names):
            assert any(rows[name]["File"].startswith(place) for place in places)
            who = rows[name]["Paper"].partition(",")[0].replace(" et al.", "")
            assert who.split(" ")[0] in paper or name in ("Local", "LocalRounds", "FedAvgFT", "QFedAvg", "FedProx")
            year = re.search(r"\d{4}", rows[name]["Paper"])
            assert year is None or year[0] in paper or name == "FedAvgFT"
        told |= named(names)
    ablations = {name for name, row in rows.items() if row["File"].startswith("drift/fielding")} - {"Fielding"}
    assert told == set(rows) - ablations


def test_the_docs_table_is_that_list():
    lines = table("docs/methods/index.md", "| method | what it does | kind |")
    told = [(name, kind) for names, _, kind in lines for name in named(names)]
    rows = {row["Method"]: row["File"].partition("/")[0] for row in methods.rows()}
    assert sorted(name for name, _ in told) == sorted(rows)
    kinds = {"uploads": "uploads", "gossip": "gossip"}
    assert {name: kind for name, kind in told} == {name: kinds.get(folder, "rounds") for name, folder in rows.items()}


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_terminal_has_one_line_each_whatever_its_width(width):
    from rich.console import Console

    rows = methods.rows()
    widths = {head: max(len(text) for text in [head, *(row[head] for row in rows)]) for head in rows[0]}
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
    console.print(listing._table("Methods", rows, widths, "Say.", width))
    text = console.export_text().splitlines()
    assert max(map(len, text)) <= width
    for row in rows:
        (line,) = [line for line in text if re.match(rf" {row['Method']} ", line)]
        assert row["File"] in line and row["Paper"] in line
    assert ("also shows: what it does" in " ".join(" ".join(text).split())) == (width < 120)
