"""Curves of a page: means and bands by hand, places on the axes, and what happened on the way."""

import math

import numpy as np
import pytest
from runs import make_run

from flcluster.report.html.events import events
from flcluster.report.html.group import grouped
from flcluster.report.html.lines import curves_section, group_lines, mean_and_spread, shown_columns

NAN = math.nan


def curves(*runs):
    (block,) = curves_section(grouped(runs))["blocks"]
    return block


def test_a_mean_over_seeds_with_its_band():
    at = {"update": [10, 20], "epoch": [1, 2], "time": [5.0, 9.0]}
    one = make_run("CDFL", 0, {**at, "client_acc_after": [0.5, 0.7]})
    two = make_run("CDFL", 1, {**at, "client_acc_after": [0.7, 0.8]})
    (group,) = curves(one, two)["groups"]
    assert group["x"]["update"] == [10, 20]
    assert group["y"]["client_acc_after"]["mean"] == [0.6, 0.75]
    assert group["y"]["client_acc_after"]["std"] == [0.141, 0.0707]  # |a − b| / √2


def test_one_run_has_no_band_and_no_point_where_nothing_was_measured():
    run = make_run("CDFL", 0, {"update": [1, 2, 3], "cluster_acc": [0.5, NAN, 0.7]})
    (group,) = curves(run)["groups"]
    assert group["y"]["cluster_acc"] == {"mean": [0.5, None, 0.7]}


def test_repeats_of_other_lengths_meet_where_both_were():
    one = make_run("CDFL", 0, {"update": [0, 10, 20], "kl": [0.0, 1.0, 2.0]})
    two = make_run("CDFL", 1, {"update": [0, 5, 10], "kl": [0.0, 2.0, 4.0]})
    (group,) = curves(one, two)["groups"]
    assert group["x"]["update"] == [0, 5, 10]
    assert group["y"]["kl"]["mean"] == [0, 1.25, 2.5]


def test_a_long_run_is_thinned_to_its_ends():
    run = make_run("CDFL", 0, {"update": range(5000), "kl": np.linspace(0, 1, 5000)})
    line = group_lines(grouped([run])[0], ["kl"])
    assert len(line["x"]["update"]) == len(line["y"]["kl"]["mean"]) == 300
    assert (line["x"]["update"][0], line["x"]["update"][-1], line["y"]["kl"]["mean"][-1]) == (0, 4999, 1)


def test_axes_that_say_nothing_are_left_out():
    still = {"update": [1, 2], "epoch": [1, 2], "time": [1.0, 2.0], "kl": [1.0, 2.0]}
    assert [axis["name"] for axis in curves(make_run(metrics=still))["xs"]] == ["update", "epoch"]
    moving = {**still, "time": [30.0, 7200.0], "upload_bytes": [0, 2e6], "download_bytes": [0, 1e6]}
    block = curves(make_run(metrics=moving))
    assert [axis["name"] for axis in block["xs"]] == ["update", "epoch", "time", "traffic"]
    assert block["xs"][2]["title"] == "simulated time (min)"
    assert block["groups"][0]["x"]["time"] == [0.5, 120] and block["groups"][0]["x"]["traffic"] == [0, 3]


def test_accuracies_come_first_and_a_methods_own_last():
    names = ("my_gauge", "kl", "cluster_acc", "client_acc_after", "cluster_size_0", "cluster_acc_1")
    run = make_run(metrics={"update": [1], **{name: [1.0] for name in names}, "delta": [NAN]})
    assert shown_columns([run]) == ["client_acc_after", "cluster_acc", "kl", "my_gauge"]


def test_what_happened_stands_where_it_shows():
    """The first row counts belong to the start; data of 40 changed by update 20, and clusters were made anew."""
    metrics = {
        "update": [0, 10, 20, 30],
        "changed": [0, 0, 40, 0],
        "reclusterings": [1, 1, 2, 2],
        "splits": [0, 0, 0, 2],
    }
    run = make_run("Fielding", metrics=metrics)
    assert events(run, run.metrics["update"]) == [
        {"at": 2, "text": "data of 40 clients changed; clusters made anew"},
        {"at": 3, "text": "split (2 times)"},
    ]
    assert [event["at"] for event in events(run, np.array([0.0, 15.0, 30.0]))] == [2]


@pytest.mark.parametrize("values", [[[1.0, NAN]], [[NAN, NAN], [NAN, NAN]]])
def test_spreads_of_what_is_not_known(values):
    mean, std = mean_and_spread(np.array(values))
    assert np.isnan(std).all() and math.isnan(mean[1])
