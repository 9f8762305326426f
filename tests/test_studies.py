"""Every shipped study is whole: its variants build, and one that switches the class keeps what the base says."""

from pathlib import Path

import pytest

from flcluster.fit import instantiated
from flcluster.study import check
from flcluster.study_file import read_study

STUDIES = Path(__file__).parents[1] / "configs" / "studies"
FIGURES = {f"fielding_figure{n}" for n in ("1", "2a", "2b", "4", "5", "6", "7", "8", "9", "11", "12", "13")}


def test_there_is_one_for_each_of_the_papers_figures_and_tables():
    assert {path.stem for path in STUDIES.glob("*.yaml")} >= FIGURES | {"fielding_table3", "fielding_table6"}


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_study_builds(path, monkeypatch):
    """All clients are measured in every variant, or there would be nothing to draw."""
    study = read_study(path)
    built = []
    monkeypatch.setattr("flcluster.fit.instantiated", lambda plan: built.append(instantiated(plan)))
    check(study, list(study.variants), [])
    assert len(built) == len(study.variants)
    assert {made.algorithm.measure for made in built} == {"all"}
    assert len({(made.algorithm.rounds, made.algorithm.participants, made.data.num_clients) for made in built}) == 1
    assert study.figures and study.table
