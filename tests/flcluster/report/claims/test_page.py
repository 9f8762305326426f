"""The pages that are made of claims and gathered runs, and that those of the repository are made of results/."""

import re
from pathlib import Path

import pytest

from flcluster.cli import main
from flcluster.errors import UserError
from flcluster.report.claims.page import BEGIN, END, PLACE, placed, render
from flcluster.report.claims.pictures import digest, digest_of
from flcluster.report.claims.results import Results

ROOT = Path(__file__).parents[4]
PAGES = [ROOT / "README.md", ROOT / "docs" / "results.md"]
CURVES = """run,commit,update,epoch,time,client_acc
A-seed0,abcdefghi,0,0,0,0.1
A-seed0,abcdefghi,1,1,60,0.70
A-seed0,abcdefghi,2,2,120,0.80
A-seed0,other,1,1,60,0.99
B-seed0,abcdefghi,1,1,60,0.60
B-seed0,abcdefghi,2,2,240,0.70
"""


def made(folder, template):
    (folder / "x.md.in").write_text(template)
    return render(Results(folder), "x.md")


@pytest.fixture
def curves(folder):
    (folder / "curves").mkdir()
    (folder / "curves" / "s.csv").write_text(CURVES)
    return folder


def test_a_template_has_words_and_the_runs_have_the_numbers(folder):
    page = made(
        folder,
        '{{ value("s", "A", "client_acc") }}; {{ gap("s", "A", "B", "client_acc") }}\n'
        '{{ table("s", "client_acc", against="B", paper={"A": ".9"}) }}\n{{ claims("P") }}\n{{ counts() }}\n'
        "{{ counts(examples=true) }}",
    ).text
    assert page.startswith("0.800 ±0.010; +7.7 ±2.1\n")
    assert "| A | 3 | 0.800 ±0.010 | +7.7 ±2.1 | .9 |" in page and "`results/s.csv`, commit abcdefg." in page
    assert "- 5: not tried: a week" in page and "- 4: not run yet." in page
    assert "| P | 5 | 3 | 0 | 0 | 0 | 0 | 2 |\n" in page
    assert "| 2 | A is ahead: 0.800 ±0.010 / 0.723 ±0.025 (paper: .9 / .8) |" in page


def test_what_has_not_run_is_said_or_left_out(folder):
    page = made(
        folder,
        '{{ table("t", "client_acc") }}{{ lines("p", "t", "client_acc", title="T") }}\n'
        '{{ table("s", "client_acc", only=["A", "C"]) }}\n{{ has("s", "A") }} {{ has("s", "C") }} {{ has("t") }}\n',
    )
    assert page.text.startswith("*Not run yet: `results/t.csv`.*\n| variant") and page.pictures == {}
    assert "| A |" in page.text and "| C |" not in page.text and "True False False" in page.text


def test_rows_of_one_variant_that_are_no_repeats_are_named(folder):
    rows = (folder / "s.csv").read_text().replace("A-seed2,M,D,1,4,2,abcdefghi,c", "A-seed2,M,D,1,4,2,other,d")
    (folder / "s.csv").write_text(rows)
    page = made(folder, '{{ table("s", "client_acc") }}').text
    assert "commits abcdefg, other. Seeds of A differ in more than the seed." in page


def test_papers_numbers_stand_beside_runs_of_their_setting(folder):
    rows = (folder / "s.csv").read_text().replace("A-seed0,M,D,1,4", "IFCA-seed0,IFCA,MNIST,2,100")
    (folder / "s.csv").write_text(rows)
    page = made(
        folder,
        '{{ table("s", "client_acc") }} {{ printed("dfca_table2", "mean_pct", method="IFCA", dataset="MNIST") }}',
    )
    assert "| IFCA | 1 | 0.800 | 0.939 ±0.0006 |" in page.text and page.text.endswith("0.931\n")
    with pytest.raises(UserError, match="3 lines of the paper's table dfca_table2"):
        made(folder, '{{ printed("dfca_table2", "mean_pct", method="IFCA") }}')


def test_numbers_over_time_come_from_the_curves_of_the_same_code(curves):
    """B ends at the mean of .6 and .7: A is there after a minute, B itself after four."""
    page = made(curves, '{{ value("s", "A", "time to B") }} {{ value("s", "B", "time to B") }}').text
    assert page == "1 min 4 min\n"
    told = '{{ value("s", "B", "client_acc_last") }} {{ value("s", "A", "other_last") }} {{ value("s", "A", "none") }}'
    assert made(curves, told).text == "0.650 – –\n"


def test_a_picture_tells_what_is_drawn_in_it(curves):
    (curves / "x.md.in").write_text(
        '{{ lines("p", "s", "client_acc", title="T") }}{{ bars("b", "s", "before", title="U") }}'
    )
    assert main(["claims", "--results", str(curves), "--write", "x.md"]) == 0
    assert Path("x.md").read_text() == f"![T]({PLACE}/p.png)![U]({PLACE}/b.png)\n"
    page = render(Results(curves), "x.md")
    told = {name: digest_of(Path(PLACE) / name) for name in ("p.png", "b.png")}
    assert told == {name: digest(figure) for name, figure in page.pictures.items()}
    for old, new in [("60,0.70", "60,0.71"), ("A-seed0", "C-seed0")]:
        (curves / "curves" / "s.csv").write_text(CURVES.replace(old, new))
        assert digest(render(Results(curves), "x.md").pictures["p.png"]) != told["p.png"]
    (figure,) = (page.pictures["p.png"],)
    assert [line.get_ydata().tolist() for line in figure.axes[0].lines] == [[0.7, 0.8], [0.6, 0.7]]


def test_only_what_stands_between_the_marks_is_made(folder):
    (folder / "x.md.in").write_text('{{ value("s", "A", "client_acc") }}')
    for before in ("old", "older and longer"):
        Path("x.md").write_text(f"mine\n{BEGIN}\n{before}\n{END}\nmine too\n")
        assert main(["claims", "--results", str(folder), "--write", "x.md"]) == 0
        assert Path("x.md").read_text() == f"mine\n{BEGIN}\n0.800 ±0.010\n{END}\nmine too\n"


def test_the_command_prints_writes_and_says_what_is_wrong(folder, capsys):
    (folder / "page.md.in").write_text('{{ claims("P") }}\n')
    assert main(["claims", "--results", str(folder), "--write", "page.md"]) == 0
    assert "A is ahead" in capsys.readouterr().out and "holds" in Path("page.md").read_text()
    for template, said in [
        ('{{ value("s", "D", "client_acc") }}', "s.csv has no runs of 'D'; It has A, B"),
        ("\n{{ typo }}", "page.md.in: 'typo' is undefined"),
        ("{% if %}", "page.md.in, line 1: "),
        ('{{ claims("Q") }}', "has no claims of 'Q': it has P"),
    ]:
        (folder / "page.md.in").write_text(template)
        assert main(["claims", "--results", str(folder), "--write", "page.md"]) == 2
        assert said in capsys.readouterr().err.replace("  ", " ")
    assert main(["claims", "Q", "--results", str(folder)]) == 2
    assert main(["claims", "--results", str(folder), "--write", "other.md"]) == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_pages_are_what_the_results_make_of_them(page):
    """Whoever changes results/ makes the pages anew: flcluster claims --write docs/results.md README.md."""
    wanted, text = render(Results(ROOT / "results"), page.name), page.read_text()
    assert text == placed(text, wanted.text)
    shown = {name: digest_of(page.parent / PLACE / name) for name in wanted.pictures}
    assert shown == {name: digest(figure) for name, figure in wanted.pictures.items()}


def test_there_are_no_pictures_of_runs_that_are_gone():
    wanted = {name for page in PAGES for name in render(Results(ROOT / "results"), page.name).pictures}
    assert {path.name for path in (ROOT / "docs" / PLACE).iterdir()} == wanted


@pytest.mark.parametrize("template", sorted((ROOT / "results").glob("*.in")), ids=lambda path: path.name)
def test_no_result_is_typed(template):
    """All tables are made; outside of {{ … }} the only numbers with three decimals are settings."""
    words = re.sub(r"{{.*?}}|{%.*?%}", "", template.read_text(), flags=re.DOTALL)
    assert not [line for line in words.splitlines() if line.startswith("|")]
    assert set(re.findall(r"(?<!\d)0?\.\d{3}\b", words)) <= {".001", ".025"}
