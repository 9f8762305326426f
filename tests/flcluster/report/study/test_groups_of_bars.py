"""Groups of bars in a study: which variants stand where, and what is wrong with groups."""

import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.colors import to_hex
from runs import make_run, make_study

from flcluster.errors import UserError
from flcluster.report.study.figures import draw
from flcluster.report.study.file import Picture, read_study
from flcluster.report.study.series import grouped
from flcluster.report.style import hue

GROUPS = ("α = 0.01", "α = 0.1")
NAMES = tuple(f"{method} {group}" for group in GROUPS for method in ("Local", "AP-FL"))


def ended(algorithm="Local", seed=0, **values):
    skewed = {"dataset": "CIFAR-10", "num_clusters": 1, "num_clients": 5, "partition": "Dirichlet(0.01)"}
    return make_run(algorithm, seed, **skewed, **values)


PICTURE = Picture("bars", y="acc_global", groups=GROUPS, title="Mine")


def bars(axes):
    return [container[0] for container in axes.containers if hasattr(container, "datavalues")]


def test_bars_of_a_method_have_a_place_in_every_group():
    runs = {NAMES[0]: {0: ended(acc_global=0.2), 1: ended(seed=1, acc_global=0.4)}}
    runs |= {NAMES[1]: {0: ended(acc_global=0.6)}, NAMES[3]: {0: ended(acc_global=0.8)}}
    figure = draw(make_study(*NAMES), PICTURE, runs)
    (axes,) = figure.axes
    found = {
        round(bar.get_x() + bar.get_width() / 2, 6): (bar.get_height(), bar.get_facecolor()[:3]) for bar in bars(axes)
    }
    assert {at: round(height, 6) for at, (height, _) in found.items()} == {0: 0.3, 1: 0.6, 4.2: 0.8}
    assert found[1][1] == found[4.2][1] != found[0][1]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(GROUPS)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Local", "AP-FL"]
    (error,) = [np.array(s) for lines in axes.collections for s in lines.get_segments() if np.isfinite(s).all()]
    assert error[1, 1] - error[0, 1] == pytest.approx(2 * math.sqrt(0.02))
    assert (axes.get_title(), axes.get_ylabel()) == ("Mine", "accuracy on the global test set")


def test_the_papers_numbers_are_marked():
    runs = {NAMES[0]: {0: ended(acc_global=0.2)}, NAMES[1]: {0: ended("AP-FL (MiniLM)", acc_global=0.6)}}
    figure = draw(make_study(*NAMES, paper=("apfl_table2",)), PICTURE, runs)
    marks = [tuple(np.round(line.get_xydata()[0], 6)) for line in figure.axes[0].lines if len(line.get_xydata())]
    assert marks == [(0, 0.1571), (1, 0.6184)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Local", "AP-FL", "AP-FL paper"]


def test_nothing_to_draw_and_a_choice_of_variants():
    assert draw(make_study(*NAMES), PICTURE, {NAMES[0]: {0: ended()}}) is None
    one = Picture("bars", y="acc_global", groups=GROUPS, of=(NAMES[1],))
    runs = {name: {0: ended(acc_global=0.5)} for name in NAMES}
    figure = draw(make_study(*NAMES), one, runs)
    (bar,) = bars(figure.axes[0])
    assert (bar.get_x() + bar.get_width() / 2, to_hex(bar.get_facecolor())) == (pytest.approx(0), hue(0).lower())


def test_the_longest_ending_counts():
    assert grouped(["A, 5", "A, 15"], ["5", "15"]) == {"A": {"5": "A, 5", "15": "A, 15"}}
    assert grouped(["5"], ["5"]) == {"": {"5": "5"}}


@pytest.mark.parametrize(
    ("names", "says"),
    [(["A, 5", "B, 6"], "'B, 6' ends with none of '5'"), (["A, 5", "A 5"], "'A, 5' and 'A 5' would be one bar")],
)
def test_variants_without_a_place_of_their_own_are_refused(names, says):
    with pytest.raises(UserError, match=says):
        grouped(names, ["5"])


@pytest.mark.parametrize(
    ("figure", "says"),
    [
        ({"kind": "lines", "groups": ["x"]}, r"figures\[0\]: groups are for kind bars, not lines"),
        ({"kind": "bars", "groups": ["x"]}, r"figures\[0\].groups: 'A' ends with none of 'x'"),
        ({"kind": "bars", "groups": [{"x": 1}]}, r"figures\[0\]\.groups must be .*{.x.: 1}"),
    ],
)
def test_a_wrong_group_names_its_key(figure, says):
    Path("base.yaml").touch()
    Path("s.yaml").write_text(yaml.safe_dump({"base": "base.yaml", "variants": {"A": {}}, "figures": [figure]}))
    with pytest.raises(UserError, match=says):
        read_study(Path("s.yaml"))
