"""A few of the mistakes in an author's code that ``python3 dev.py faults`` tries, and of what is right but odd."""

import sys

import pytest
import try_code
from bad_code import RIGHT, WRONG
from good_code import KINDS

SHORT = [next(case for case in WRONG if case.kind == kind) for kind in KINDS]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked")


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.kind)
def test_a_mistake_is_told_by_class_and_file(case, tmp_path):
    what, said = try_code.outcome(case, 0, tmp_path / "case")
    assert what == "refused", said


def test_what_is_right_but_odd_runs_and_is_said_once(tmp_path):
    case = next(case for case in RIGHT if case.said)
    what, said = try_code.outcome(case, 0, tmp_path / "case")
    assert what == "ran" and " ".join(said.split()).count(case.said) == 1


def test_the_whole_trace_is_in_the_log(tmp_path):
    """On the terminal it is one line."""
    case = next(case for case in WRONG if "ZeroDivisionError" in case.said)
    assert try_code.outcome(case, 0, tmp_path / "case")[0] == "refused"
    log = (tmp_path / "case" / "run" / "run.log").read_text()
    assert "Traceback" in log and log.count("mine.py") >= 1


def test_every_kind_of_file_is_tried_wrong_and_right():
    assert {case.kind for case in WRONG} == {case.kind for case in RIGHT} == set(KINDS)
    assert all(case.text != KINDS[case.kind][0] or case.flags for case in WRONG)
