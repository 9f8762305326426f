"""Claims held against gathered runs, and the page that is made of them."""

from pathlib import Path

import pytest

from flcluster.cli import main
from flcluster.errors import UserError
from flcluster.report.claims.claim import judge, read_claims
from flcluster.report.claims.page import Results, render

ROOT = Path(__file__).parents[4]
CLAIMS = """
paper: P
claims:
  - {says: A is ahead, source: Table 1, setting: digits, study: s, first: A, second: B, paper: .9 / .8}
  - {says: A is at .8, source: Table 1, setting: digits, study: s, first: A, number: 0.8, rule: near, margin: 0.01}
  - {says: later is better, source: text, setting: digits, study: s, first: {of: A}, second: {of: A, column: before}}
  - {says: C is ahead, source: text, setting: digits, study: s, first: C, second: B}
  - {says: large, source: text, setting: CIFAR, cost: a week}
"""
ROWS = """run,method,dataset,K,clients,seed,commit,config,seconds,client_acc,before
A-seed0,M,D,1,4,0,abcdefghi,c,1,0.80,0.7
A-seed1,M,D,1,4,1,abcdefghi,c,1,0.81,0.7
A-seed2,M,D,1,4,2,abcdefghi,c,1,0.79,0.7
B-seed0,M,D,1,4,0,abcdefghi,c,1,0.70,
B-seed1,M,D,1,4,1,abcdefghi,c,1,0.75,
B-seed2,M,D,1,4,2,abcdefghi,c,1,0.72,
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "r" / "claims").mkdir(parents=True)
    (tmp_path / "r" / "claims" / "p.yaml").write_text(CLAIMS)
    (tmp_path / "r" / "s.csv").write_text(ROWS)
    return tmp_path / "r"


def test_every_claim_is_judged_by_the_runs_that_are_there(folder):
    _, claims = read_claims(folder / "claims" / "p.yaml")
    found = [judge(claim, folder) for claim in claims]
    assert [each.found.verdict for each in found] == ["holds", "holds", "holds", "not tried", "not tried"]
    assert [each.found.seeds for each in found] == [3, 3, 3, 0, 0]
    assert found[0].found.mean == pytest.approx((0.1 + 0.06 + 0.07) / 3)
    assert found[0].ours == "0.800 ±0.010 / 0.723 ±0.025" and found[3].ours == ""


def test_a_template_has_words_and_the_runs_have_the_numbers(folder):
    (folder / "x.md.in").write_text(
        '{{ value("s", "A", "client_acc") }}; {{ gap("s", "A", "B", "client_acc") }}; {{ seeds("s") }}; '
        '{{ commits("s") }}\n\n{{ table("s", "client_acc", printed={"A": ".9"}) }}\n\n{{ claims("P") }}\n\n'
        "{{ counts() }}\n"
    )
    page = render(Results(folder), "x.md")
    assert page.startswith("0.800 ±0.010; +7.7 ±2.1; 3 seeds; abcdefg\n")
    assert "| A | 3 | 0.800 ±0.010 | .9 |" in page and "- 5, not tried: a week" in page
    assert "- 4, not tried: its runs are not in s.csv yet." in page
    assert "| P | 5 | 3 | 0 | 0 | 0 | 2 |" in page


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("paper: P", "must have two keys"),
        ("paper: P\nclaims: [7]", "claim 1: must be a mapping"),
        ("paper: P\nclaims: [{says: a, source: b, setting: c}]", "claim 1: one that was not tried has cost"),
        ("paper: P\nclaims: [{says: a, source: b, setting: c, study: s, first: A}]", "has first, and second or number"),
        ("paper: P\nclaims: [{says: a, source: b, setting: c, cost: d, rule: larger}]", "rule"),
        ("paper: P\nclaims: [{says: a, source: b, setting: c, cost: d, prose: e}]", "prose"),
        ("paper: [", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_by_its_name_and_the_claims_number(tmp_path, told, said):
    path = tmp_path / "wrong.yaml"
    path.write_text(told)
    with pytest.raises(UserError, match=said) as caught:
        read_claims(path)
    assert "wrong.yaml" in str(caught.value)


def test_two_rows_of_one_run_are_refused(folder):
    (folder / "s.csv").write_text(ROWS + "A-seed0,M,D,1,4,0,other,c,1,0.9,0.7\n")
    _, claims = read_claims(folder / "claims" / "p.yaml")
    with pytest.raises(UserError, match=r"s.csv has two rows of A-seed0"):
        judge(claims[0], folder)


def test_the_command_prints_and_writes(folder, capsys):
    (folder / "page.md.in").write_text('{{ claims("P") }}\n')
    assert main(["claims", "--results", str(folder), "--write", "page.md"]) == 0
    assert "A is ahead" in capsys.readouterr().out and "holds" in Path("page.md").read_text()
    (folder / "page.md.in").write_text('{{ value("s", "D", "client_acc") }}\n')
    assert main(["claims", "--results", str(folder), "--write", "page.md"]) == 2
    assert "s.csv has no runs of 'D'; It has A, B" in capsys.readouterr().err.replace("  ", " ")
    assert main(["claims", "Q", "--results", str(folder)]) == 2
    assert main(["claims", "--results", str(folder), "--write", "other.md"]) == 2


@pytest.mark.parametrize("template", sorted((ROOT / "results").glob("*.in")), ids=lambda path: path.stem)
def test_the_pages_are_what_the_results_make_of_them(template):
    """Whoever changes results/ or a template makes the page anew: flcluster claims --write docs/NAME.md."""
    page = template.name.removesuffix(".in")
    assert (ROOT / "docs" / page).read_text() == render(Results(ROOT / "results"), page)
