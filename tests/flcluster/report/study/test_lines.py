"""The data that a study's figures draw."""

import math

import numpy as np
import pytest
from runs import make_run, make_study

from flcluster.report import style as drawing
from flcluster.report.study.figures import draw
from flcluster.report.study.file import Picture, Target
from flcluster.report.study.lines import common
from flcluster.report.study.looks import styles


def rounds(seed=0, **columns):
    """A run with a row a round, a minute apart."""
    length = len(next(iter(columns.values())))
    base = {"epoch": range(length), "time": [60 * i for i in range(length)]}
    return make_run("FedAvg", seed, {**base, **columns})


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_come_to_common_places():
    x, values = common(
        [(np.array([0.0, 2.0, 4.0]), np.array([0.0, 2.0, 4.0])), (np.array([1.0, 5.0]), np.array([1.0, 9.0]))]
    )
    np.testing.assert_array_equal(x, [1, 2, 4])  # where both are, at the places of either
    np.testing.assert_allclose(values, [[1, 2, 4], [1, 3, 7]])
    same = np.array([0.0, 1.0, 1.0])  # repeated places are kept as they are if all agree
    np.testing.assert_array_equal(common([(same, same), (same, same)])[0], same)


def test_lines_are_means_over_seeds_with_a_band():
    runs = {"A": {0: rounds(client_acc=[0.1, 0.2, 0.4]), 1: rounds(1, client_acc=[0.1, 0.4, 0.6])}}
    runs["B"] = {0: rounds(client_acc=[0.1, math.nan, 0.3])}
    figure = draw(make_study("A", "B", "C"), Picture("lines", "epoch", "client_acc", title="Mine"), runs)
    (axes,) = figure.axes
    a, b = axes.lines
    np.testing.assert_allclose(a.get_xydata(), [[0, 0.1], [1, 0.3], [2, 0.5]])
    np.testing.assert_allclose(b.get_xydata(), [[0, 0.1], [2, 0.3]])
    (band,) = axes.collections  # one run has no spread
    low, high = (f(band.get_paths()[0].vertices[:, 1]) for f in (np.min, np.max))
    assert (low, high) == pytest.approx((0.1, 0.5 + math.sqrt(0.02)))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "mean client accuracy")
    assert legend_of(figure) == ["A", "B"]
    assert figure.get_suptitle() == "Mine"


@pytest.mark.parametrize(
    ("step", "unit", "label"),
    [
        (1, 1, "time (rounds)"),
        (60, 1, "simulated time (s)"),
        (900, 60, "simulated time (min)"),
        (90_000, 3600, "simulated time (h)"),
    ],
)
def test_time_is_labelled_with_its_unit(step, unit, label):
    run = rounds(client_acc=[0.1, 0.2, 0.3], time=[0, step, 2 * step])
    (axes,) = draw(make_study("A"), Picture("lines", "time"), {"A": {0: run}}).axes
    assert axes.get_xlabel() == label
    np.testing.assert_allclose(axes.lines[0].get_xdata(), np.array([0, step, 2 * step]) / unit)


def test_every_column_gets_a_panel_and_an_odd_place_stays_empty():
    run = rounds(client_acc=[0.1, 0.2, 0.3], clusters=[1, 2, 3], delta=[0.1, 0.2, 0.4])
    figure = draw(make_study("A"), Picture("lines", y=("client_acc", "clusters", "delta")), {"A": {0: run}})
    assert [axes.axison for axes in figure.axes] == [True, True, True, False]
    assert [axes.get_ylabel() for axes in figure.axes[1:3]] == ["clusters", "threshold Δ"]
    np.testing.assert_array_equal(figure.axes[2].lines[0].get_ydata(), [0.1, 0.2, 0.4])


def test_the_target_is_a_level_with_a_mark_where_it_is_reached():
    runs = {"Global": {0: rounds(client_acc=[0.1, 0.2, 0.4, 0.4])}}
    runs |= {"Fast": {0: rounds(client_acc=[0.1, 0.5, 0.5, 0.5])}, "Never": {0: rounds(client_acc=[0.1] * 4)}}
    study = make_study("Fast", "Never", "Global", target=Target("Global", last=2))
    figure = draw(study, Picture("lines", "time", target=True), runs)
    (axes,) = figure.axes
    drawn = {line.get_marker(): line for line in axes.lines}
    assert drawn["o"].get_xydata().tolist() == [[60, pytest.approx(0.4)]]
    dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert [list(line.get_ydata()) for line in dotted] == [[pytest.approx(0.4)] * 2]
    assert len(axes.lines) == 3 + 1 + 1
    assert legend_of(figure) == ["Fast (2.00×)", "Never", "Global", "target accuracy"]


def test_a_speed_up_that_not_all_seeds_reach_is_not_claimed():
    runs = {"Global": {s: rounds(s, client_acc=[0.1, 0.4, 0.4]) for s in (0, 1)}}
    runs["Half"] = {0: rounds(client_acc=[0.1, 0.5, 0.5]), 1: rounds(1, client_acc=[0.1, 0.2, 0.2])}
    figure = draw(make_study("Half", "Global", target=Target("Global")), Picture("lines", "time", target=True), runs)
    assert legend_of(figure)[0] == "Half"
    assert not [line for line in figure.axes[0].lines if line.get_marker() == "o"]


def test_variants_keep_their_colours_and_pairs_share_one():
    plain = styles(make_study(*"abcdefgh"))
    assert len({ink for ink, _ in plain.values()}) == 8 and "#000000" not in dict(plain.values())
    common_target = styles(make_study("a", "b", "Global", target=Target("Global")))
    assert common_target["Global"] == ("#000000", "-")
    assert common_target["a"] == (drawing.OKABE_ITO[0], "-")
    pairs = Target(baselines={"Oort + X": "Oort", "Near + X": "Near"})
    paired = styles(make_study("Oort", "Oort + X", "Near", "Near + X", target=pairs))
    assert paired["Oort"] == (paired["Oort + X"][0], "--") and paired["Oort + X"][1] == "-"
    assert paired["Near"][0] != paired["Oort"][0]
    shared = styles(make_study("A", "B", "Global", target=Target(baselines={"A": "Global", "B": "Global"})))
    assert len({ink for ink, _ in shared.values()}) == 3


def test_differences_are_of_the_seeds_that_both_have():
    runs = {"A": {0: rounds(client_acc=[0.1, 0.5]), 1: rounds(1, client_acc=[0.2, 0.2]), 2: rounds(client_acc=[9, 9])}}
    runs["B"] = {0: rounds(client_acc=[0.1, 0.3]), 1: rounds(1, client_acc=[0.1, 0.3])}
    figure = draw(make_study("A", "B"), Picture("difference", of=("A", "B")), runs)
    zero, line = figure.axes[0].lines
    assert list(zero.get_ydata()) == [0, 0]
    np.testing.assert_allclose(line.get_ydata(), [5, 5])  # points: mean of (0, 20) and (10, -10)
    assert "percentage points" in figure.axes[0].get_ylabel() and "A − B" in figure.axes[0].get_title()
    assert draw(make_study("A", "B"), Picture("difference", of=("A", "B")), {"A": runs["A"]}) is None


def test_sizes_are_stacked_for_each_variant_that_has_clusters():
    clustered = rounds(
        cluster_size_0=[3, 2, 5], cluster_size_1=[2, 3, 0], cluster_size_2=[0, 0, 0], reclusterings=[0, 0, 1]
    )
    runs = {"A": {4: clustered, 5: rounds(cluster_size_0=[1, 1, 1])}, "Global": {0: rounds(client_acc=[0.1] * 3)}}
    figure = draw(make_study("A", "Global"), Picture("sizes"), runs)
    (axes,) = figure.axes
    assert axes.get_title() == "A" and axes.get_ylim() == (0, 5)
    assert len(axes.collections) == 2  # the third was never used
    assert axes.collections[0].get_paths()[0].vertices[:, 1].max() == 5
    assert [line.get_xdata()[0] for line in axes.lines] == [2]
    assert draw(make_study("Global"), Picture("sizes"), {"Global": runs["Global"]}) is None


def test_bars_are_the_tables_values():
    runs = {"A": {0: rounds(heterogeneity=[0.5, 0.2]), 1: rounds(1, heterogeneity=[0.5, 0.4])}}
    runs |= {"B": {0: rounds(heterogeneity=[0.5, 0.7])}, "C": {0: rounds(client_acc=[0.1, 0.2])}}
    (axes,) = draw(make_study("A", "B", "C"), Picture("bars", y="heterogeneity", of=("B", "A", "C")), runs).axes
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.7, 0.3])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["B", "A"]
    assert draw(make_study("C"), Picture("bars", y="heterogeneity"), {"C": runs["C"]}) is None


def test_nothing_to_draw_is_no_figure():
    assert draw(make_study("A"), Picture("lines", y="delta"), {"A": {0: rounds(client_acc=[0.1])}}) is None
