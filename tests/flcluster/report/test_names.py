"""Names that are code, mark-up or control characters are shown as text: in a terminal, in Markdown, in a page."""

import io
import json

import pytest
from pages import cdfl_run
from rich.console import Console

from flcluster.errors import UserError, harmless
from flcluster.files import refuse_alike, write_json
from flcluster.records.reader import Run
from flcluster.report.html.content import content
from flcluster.report.html.page import page
from flcluster.report.latex import latex
from flcluster.report.study.file import read_study
from flcluster.report.tables import Grid, markdown, terminal

HOSTILE = "\x1b[31mred|<script>alert(1)</script>[bold]x[/bold]\r\n../..\u202e"
GRID = Grid(HOSTILE, [{"name": HOSTILE, HOSTILE: "1"}], caption=HOSTILE)


def test_a_terminal_gets_no_control_characters():
    console = Console(file=io.StringIO(), width=300, force_terminal=False)
    console.print(terminal(GRID))
    shown = console.file.getvalue()
    assert not {"\x1b", "\r", "\u202e"} & set(shown) and "[bold]" in shown and "\\x1b[31m" in shown


def test_markdown_keeps_its_cells_and_has_no_mark_up():
    text = markdown(GRID)
    head, line, row = text.splitlines()[:3]
    assert "<" not in text and "\x1b" not in text
    assert [each.replace("\\|", "").count("|") for each in (head, line, row)] == [3, 3, 3]


def test_latex_has_no_control_characters():
    assert not {"\x1b", "\r"} & set(latex(GRID, "x"))


def test_a_page_reads_names_as_text(tmp_path):
    text = page(content([Run.load(cdfl_run(tmp_path / "run", algorithm=HOSTILE, dataset=HOSTILE))]))
    assert "<script>alert" not in text and "\x1b" not in text


def test_messages_are_short_and_printable():
    assert harmless("\x1b[0m \x00") == "\\x1b[0m \\x00" and len(harmless("x" * 9000)) < 300


@pytest.mark.parametrize("name", ["..", ".", "...", "../", "/"])
def test_a_variant_has_a_folder_of_its_own(name):
    with pytest.raises(UserError, match="no directory name of its own"):
        refuse_alike([name], "variants")


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "..", ".", "a\\b", "a\0b", "x" * 500])
def test_a_figure_stays_in_its_folder(name, tmp_path):
    (tmp_path / "base.yaml").write_text("{}")
    study = {"base": "base.yaml", "variants": {"A": {}}, "figures": [{"kind": "lines", "file": name}]}
    (tmp_path / "s.yaml").write_text(json.dumps(study))
    with pytest.raises(UserError, match=r"figures\[0\].file must be a plain file name"):
        read_study(tmp_path / "s.yaml")


def test_a_summary_is_json_whatever_came_out(tmp_path):
    def refuse(word):
        raise AssertionError(word)

    content = {"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}}
    write_json(tmp_path / "summary.json", content)
    found = json.loads((tmp_path / "summary.json").read_text(), parse_constant=refuse)
    assert found == {"a": None, "b": [None, 1.5], "c": {"d": None}}
