"""A few of the kills and flipped bits that ``python3 dev.py faults`` tries by the hundred; damage has more of them."""

import sys

import forked
import numpy as np
import pytest
import short_runs
import try_kills
import try_two
import verdict
from everything import PARTS, table

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that is never interrupted, and its flags."""
    flags, run = short_runs.flags("CDFL", "file"), tmp_path_factory.mktemp("runs") / "whole"
    short_runs.whole(flags, run)
    return flags, run


@linux
def test_a_killed_run_goes_on_to_the_same_numbers(whole):
    flags, run = whole
    assert try_kills.tried(flags, run, 0.5, 3, np.random.default_rng(0)) == ["same"] * 3


@linux
def test_two_processes_on_one_directory(whole):
    flags, run = whole
    assert try_two.pair(flags, run.with_name("two"), run, 0.01) in ("one did it", "one after the other")


@linux
def test_a_read_only_folder_is_refused_by_its_name_and_goes_on_later(whole):
    flags, run = whole
    assert try_two.read_only(flags, run.with_name("closed"), run) == "refused by name"


@linux
def test_what_differs_is_seen(whole, tmp_path):
    """Or all of this could never fail."""
    flags, run = whole
    short_runs.whole([*flags, "--algorithm.rho", "0.3"], tmp_path / "other")
    assert short_runs.differences(run, tmp_path / "other")


@linux
def test_a_case_that_hangs_or_takes_all_memory_ends(tmp_path):
    def hang():
        while True:
            pass

    assert forked.forked(hang, tmp_path, seconds=0.2).code == forked.LATE
    end = forked.forked(lambda: len(bytearray(8 * 2**30)), tmp_path, gigabytes=1)
    assert end.code == forked.CRASHED and "MemoryError" in end.said


def test_every_method_is_killed():
    assert not try_kills.uncovered()


def test_the_table_is_made_of_last_lines(capsys):
    with pytest.raises(SystemExit, match="1"):
        verdict.tell("bit flips", {"same": 3, "unnoticed": 1}, ("same",))
    told = verdict.read(capsys.readouterr().out)
    assert (told.tried, told.came_to, told.wrong) == (4, "3 same, 1 unnoticed", 1)
    lines = table([(["try_a.py", "4"], [told], 1), (["try_b.py"], [], 1)])
    assert "| bit flips | 4 | 3 same, 1 unnoticed | 1 | `try_a.py 4` |" in lines and "told no result" in lines
    assert len({part[0] for part in PARTS}) == len(PARTS)
