"""What all aggregators do with rows that are not finite."""

import math

import pytest
import torch
from by_hand import combine, rows

from flcluster.algorithms import Average, QFair, Yogi


@pytest.mark.parametrize("server", [Average(), Average("uniform"), Yogi(), QFair()])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rows_that_are_not_finite_are_left_out_with_their_weight(server, bad, result):
    """The same as if that client had not been there; a cluster that has only such clients stays."""
    old = rows([0, 0], [3, 4])
    good = [result(0, [1, 2], 1, start_loss=0.5), result(1, [3, 6], 3, start_loss=1.5)]
    spoiled = [good[0], result(5, [1, bad], 100, start_loss=9.0), good[1], result(6, [bad, 1], 1, start_loss=math.nan)]
    without = combine(server, good, [0, 0], old)
    models, memory = combine(server, spoiled, [0, 0, 0, 1], old)
    assert torch.equal(models, without[0])
    assert torch.equal(models[1], old[1])
    for name, value in without[1].items():
        assert torch.equal(memory[name], value)
