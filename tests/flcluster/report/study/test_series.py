"""Which variants make up a line, and where they are on it."""

import pytest

from flcluster.errors import UserError
from flcluster.report.study.series import line_name, merged, series, setting


def graph(p, **more):
    return {"algorithm": {"init_args": {"topology": {"class_path": "ErdosRenyi", "init_args": {"p": p}}, **more}}}


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("DFCA-GI, p = 0.02", "DFCA-GI"),
        ("DFCA-GI p=.02", "DFCA-GI"),
        ("DFCA-GI (0.5)", "DFCA-GI"),
        ("DFCA-GI: 1e-3", "DFCA-GI"),
        ("A -2", "A"),
        ("A b 3", "A b"),
        ("m = 1.5", ""),
        ("1.5", ""),
        ("CA2FL", "CA2FL"),
        ("CA2", "CA2"),
        ("DFCA-GI", "DFCA-GI"),
        ("5 neighbours", "5 neighbours"),
    ],
)
def test_a_line_is_named_like_its_variants_without_their_number(variant, name):
    assert line_name(variant) == name


@pytest.mark.parametrize("path", ["algorithm.topology.p", "algorithm.init_args.topology.init_args.p"])
def test_a_setting_is_found_with_and_without_init_args(path):
    assert setting(graph(0.1), path) == 0.1
    assert setting({"algorithm": {"topology": {"p": 0.1}}}, path) == 0.1


@pytest.mark.parametrize("tree", [{}, {"algorithm": "IFCA"}, {"algorithm": {"init_args": None}}, graph(None)])
def test_what_is_not_there_is_none(tree):
    assert setting(tree, "algorithm.topology.p") is None


def test_settings_above_win_and_a_class_alone_replaces_all_below():
    below = graph(0.1, rounds=5)
    assert setting(merged(below, graph(0.2)), "algorithm.topology.p") == 0.2
    assert setting(merged(below, graph(0.2)), "algorithm.rounds") == 5
    assert merged(below, {"algorithm": "IFCA", "seed": 1}) == {"algorithm": "IFCA", "seed": 1}
    assert below == graph(0.1, rounds=5)


def test_variants_are_sorted_into_lines_and_levels():
    variants = {"GI 0.5": graph(0.5), "LI 1e-3": graph("1e-3"), "GI 0.02": graph(0.02), "IFCA": {"algorithm": "IFCA"}}
    lines, levels = series({}, variants, "algorithm.topology.p")
    assert lines == {"GI": [(0.02, "GI 0.02"), (0.5, "GI 0.5")], "LI": [(0.001, "LI 1e-3")]}
    assert list(levels) == ["IFCA"]
    lines, levels = series(graph(0.1), {"IFCA": {"algorithm": "IFCA"}, "GI 0.1": {}}, "algorithm.topology.p")
    assert (lines, list(levels)) == ({"GI": [(0.1, "GI 0.1")]}, ["IFCA"])


@pytest.mark.parametrize(
    ("variants", "says"),
    [
        ({"GI": {}, "IFCA": {"algorithm": "IFCA"}}, "no variant sets algorithm.topology.p"),
        ({"GI 1": graph(0.1), "GI 2": graph("high")}, "algorithm.topology.p is 'high' in variant 'GI 2', not a number"),
        ({"GI 1": graph(True)}, "is True in variant 'GI 1', not a number"),
        ({"GI 1": graph([0.1])}, "not a number"),
        ({"GI 1": graph(".nan")}, "not a number"),
        ({"GI 1": graph(0.1), "GI 2": graph(0.2), "GI 3": graph(0.1)}, "'GI 1' and 'GI 3' would be one point"),
    ],
)
def test_mistakes_are_named(variants, says):
    with pytest.raises(UserError, match=says):
        series({}, variants, "algorithm.topology.p")
