"""What a figure against a setting draws."""

import math

import numpy as np
import pytest
from runs import make_run, make_study

from flcluster.report.study.against import setting_label
from flcluster.report.study.figures import draw
from flcluster.report.study.file import Picture
from flcluster.report.style import OKABE_ITO

P = "algorithm.topology.p"


def ended(seed=0, **columns):
    return make_run("DFCA-GI", seed, columns)


def graph(p):
    return {"algorithm": {"init_args": {"topology": {"init_args": {"p": p}}}}}


STUDY = make_study(GI_2=graph(0.2), GI_1=graph(0.1), LI_1=graph(0.1), IFCA={"algorithm": "IFCA"}, GI_3=graph(0.5))
RUNS = {
    "GI 2": {0: ended(client_acc=[0.1, 0.8], purity=[0.5, 1.0]), 1: ended(1, client_acc=[0.1, 0.9])},
    "GI 1": {0: ended(client_acc=[0.1, 0.6])},
    "LI 1": {0: ended(client_acc=[0.1, 0.5], purity=[0.5, 0.75])},
    "IFCA": {0: ended(client_acc=[0.1, 0.7]), 1: ended(1, client_acc=[0.1, 0.9])},
}


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def labelled(axes):
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_lines_are_final_means_at_the_setting_and_levels_go_from_side_to_side():
    figure = draw(STUDY, Picture("against", P, "client_acc", title="Mine"), RUNS)
    (axes,) = figure.axes
    lines = labelled(axes)
    np.testing.assert_allclose(lines["GI"].get_xydata(), [[0.1, 0.6], [0.2, 0.85]])  # GI 3 has not run
    np.testing.assert_allclose(lines["LI"].get_xydata(), [[0.1, 0.5]])
    assert lines["IFCA"].get_ydata() == pytest.approx([0.8, 0.8]) and lines["IFCA"].get_linestyle() == "--"
    assert [line.get_color() for line in lines.values()] == list(OKABE_ITO[:3])
    assert legend_of(figure) == ["GI", "LI", "IFCA"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("edge probability p", "mean client accuracy")
    assert figure.get_suptitle() == "Mine"


def test_the_deviation_over_seeds_is_a_bar_at_a_point_and_a_band_along_a_level():
    (axes,) = draw(STUDY, Picture("against", P, "client_acc"), RUNS).axes
    segments = [np.array(segment) for bars in axes.collections for segment in bars.get_segments()]
    drawn = [segment for segment in segments if len(segment) and np.isfinite(segment).all()]
    half = math.sqrt(2 * 0.05**2)
    assert len(drawn) == 1  # the only point of two seeds
    np.testing.assert_allclose(drawn[0], [[0.2, 0.85 - half], [0.2, 0.85 + half]])
    (band,) = axes.patches
    half = math.sqrt(2 * 0.1**2)
    assert (band.get_y(), band.get_height()) == pytest.approx((0.8 - half, 2 * half))


def test_several_columns_get_a_panel_each():
    first, second = draw(STUDY, Picture("against", P, ("client_acc", "purity")), RUNS).axes
    assert list(labelled(first)) == ["GI", "LI", "IFCA"] and list(labelled(second)) == ["GI", "LI"]
    np.testing.assert_allclose(labelled(second)["GI"].get_xydata(), [[0.2, 1.0]])
    assert labelled(second)["LI"].get_color() == labelled(first)["LI"].get_color()


def test_only_the_chosen_variants_are_drawn():
    figure = draw(STUDY, Picture("against", P, "client_acc", of=("LI 1", "IFCA")), RUNS)
    assert legend_of(figure) == ["LI", "IFCA"]


def test_one_line_without_a_name_needs_no_legend():
    study = make_study(**{"m = 1": graph(0.1), "m = 2": graph(0.2)})
    figure = draw(study, Picture("against", P, "client_acc"), {"m = 1": RUNS["GI 1"], "m = 2": RUNS["GI 2"]})
    assert figure.legends == []
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xydata(), [[0.1, 0.6], [0.2, 0.85]])


@pytest.mark.parametrize("runs", [{"IFCA": RUNS["IFCA"]}, {"GI 1": {0: ended(loss=[1.0])}}])
def test_without_a_point_there_is_no_figure(runs):
    assert draw(STUDY, Picture("against", P, "client_acc"), runs) is None


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("algorithm.init_args.topology.init_args.p", "edge probability p"),
        ("data.init_args.num_clients", "num clients"),
        ("seed_everything", "seed everything"),
    ],
)
def test_the_axis_says_what_the_setting_is(path, label):
    assert setting_label(path) == label
