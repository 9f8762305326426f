"""Claims held against gathered runs, and that those of the repository are about studies and numbers that there are."""

import re
from pathlib import Path

import pytest

from flcluster.errors import UserError
from flcluster.files import slug
from flcluster.report.claims.claim import judge, read_claims
from flcluster.report.claims.results import Results
from flcluster.report.paper_tables import list_tables, read_table
from flcluster.report.study.file import read_study

ROOT = Path(__file__).parents[4]
SHIPPED = [
    pytest.param(paper, claim, id=f"{paper} {at}")
    for paper, claims in (read_claims(path) for path in sorted((ROOT / "results" / "claims").glob("*.yaml")))
    for at, claim in enumerate(claims, start=1)
]


def test_every_claim_is_judged_by_the_runs_that_are_there(folder):
    _, claims = read_claims(folder / "claims" / "p.yaml")
    found = [judge(claim, Results(folder).studies.get) for claim in claims]
    assert [each.found.verdict for each in found] == ["holds", "holds", "holds", "not tried", "not tried"]
    assert [each.found.seeds for each in found] == [3, 3, 3, 0, 0]
    assert found[0].found.mean == pytest.approx((0.1 + 0.06 + 0.07) / 3)
    assert found[0].ours == "0.800 ±0.010 / 0.723 ±0.025" and found[3].ours == ""
    assert claims[1].sentence == "A is at .8 (within 1 point)"


def test_numbers_are_paired_by_seed(folder):
    """By hand: seeds 1 and 2 alone, .81 - .75 = .06 and .79 - .72 = .07; one would be seen twice, not hold."""
    rows = (folder / "s.csv").read_text().replace("B-seed0,M,D,1,4,0", "B-seed7,M,D,1,4,7")
    (folder / "s.csv").write_text(rows)
    _, (claim, *_) = read_claims(folder / "claims" / "p.yaml")
    found = judge(claim, Results(folder).studies.get)
    assert found.found.text == "seen twice" and found.found.mean == pytest.approx(0.065)
    assert found.ours == "0.800 ±0.014 / 0.735 ±0.021"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("paper: P", "must have two keys"),
        ("paper: P\nclaims: [7]", "claim 1: must be a mapping"),
        ("paper: P\nclaims: [{says: a, source: b, setting: c}]", "claim 1: one that was not tried has cost"),
        ("paper: P\nclaims: [{says: a, source: b, setting: c, study: s, first: A}]", "has first, and second or number"),
        ("paper: P\nclaims: [{says: a, source: b, setting: c, cost: d, rule: near}]", "near has a margin above 0"),
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
    (folder / "s.csv").write_text((folder / "s.csv").read_text() + "A-seed0,M,D,1,4,0,other,c,1,0.9,0.7\n")
    _, claims = read_claims(folder / "claims" / "p.yaml")
    with pytest.raises(UserError, match=r"s.csv has two rows of A-seed0"):
        judge(claims[0], Results(folder).studies.get)


@pytest.mark.parametrize(("paper", "claim"), [case for case in SHIPPED if case.values[1].study])
def test_a_claim_is_about_variants_of_a_study_that_is_shipped(paper, claim):
    """PAPER_STUDY.csv is of configs/PAPER/studies/STUDY.yaml, also with other data or another precision."""
    folder, _, name = re.sub("_(days|cifar100|bf16)$", "", claim.study).partition("_")
    known = {slug(variant) for variant in read_study(ROOT / "configs" / folder / "studies" / f"{name}.yaml").variants}
    sides = [side for side in (claim.first, claim.second) if side is not None]
    targets = [claim.column.removeprefix("time to ")] if claim.column.startswith("time to ") else []
    assert {*(side.of for side in sides), *targets} <= known


@pytest.mark.parametrize(("paper", "claim"), SHIPPED)
def test_a_papers_number_stands_in_its_tables(paper, claim):
    prefixes = tuple(word.lower().replace("-", "") for word in paper.split(" and "))
    tables = [name for name in list_tables() if name.startswith(prefixes)]
    cells = [cell for name in tables for row in read_table(name) for cell in row.values()]
    printed = [float(cell) for cell in cells if re.fullmatch(r"[\d.]+", cell)]
    for number in map(float, re.findall(r"(?<![\w.])\.?\d[\d.]*\b", claim.paper)):
        assert any(min(abs(cell - number), abs(cell / 100 - number)) < 6e-4 for cell in printed), number
