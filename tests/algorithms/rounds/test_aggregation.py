"""Aggregator steps, by hand and against plain loops over clients in double precision."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms import Average, QFair, Yogi
from flcluster.federation.jobs import Trained

EXAMPLES = settings(deadline=None, max_examples=60, database=None)
NAN = math.nan


def rows(*values):
    return torch.tensor(values, dtype=torch.float32)


def close(actual, expected, tolerance=1e-5):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


def combine(server, trained, labels, old, memory=None, parameters=None, lr=0.1):
    memory = server.start(old) if memory is None else memory
    return server.combine(iter(trained), labels, old, memory, parameters or old.shape[1], lr)


# ---------------------------------------------------------------------------------------------------------- averaging


def test_average_by_size_and_uniform(result):
    """Cluster 0: (1·(1, 2) + 3·(3, 6))/4 = (2.5, 5), or ((1, 2) + (3, 6))/2 = (2, 4); nobody trains cluster 2."""
    old = rows([0, 0], [0, 0], [7, 8])
    trained = [result(0, [1, 2], 1), result(1, [10, 20], 5), result(2, [3, 6], 3)]
    by_size, memory = combine(Average(), trained, [0, 1, 0], old)
    close(by_size, [[2.5, 5], [10, 20], [7, 8]])
    close(combine(Average("uniform"), trained, [0, 1, 0], old)[0], [[2, 4], [10, 20], [7, 8]])
    assert Average().by == "size"
    assert memory == {}
    close(old, [[0, 0], [0, 0], [7, 8]])


@pytest.mark.parametrize("server", [Average(), Average("uniform"), Yogi(), QFair()])
@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_rows_that_are_not_finite_are_left_out_with_their_weight(server, bad, result):
    """The same as if that client had not been there; a cluster that has only such clients stays."""
    old = rows([0, 0], [3, 4])
    good = [result(0, [1, 2], 1, start_loss=0.5), result(1, [3, 6], 3, start_loss=1.5)]
    spoiled = [good[0], result(5, [1, bad], 100, start_loss=9.0), good[1], result(6, [bad, 1], 1, start_loss=NAN)]
    without = combine(server, good, [0, 0], old)
    models, memory = combine(server, spoiled, [0, 0, 0, 1], old)
    assert torch.equal(models, without[0])
    assert torch.equal(models[1], old[1])
    for name, value in without[1].items():
        assert torch.equal(memory[name], value)


# --------------------------------------------------------------------------------------------------------------- yogi


def test_yogi_is_what_fedscale_runs():
    """The command line's defaults, and v starts at τ."""
    yogi = Yogi()
    assert (yogi.eta, yogi.tau, yogi.beta1, yogi.beta2) == (3e-3, 1e-8, 0.9, 0.99)
    memory = Yogi(tau=0.04).start(torch.ones(2, 3))
    assert torch.equal(memory["m"], torch.zeros(2, 3))
    assert torch.equal(memory["v"], torch.full((2, 3), 0.04))


def test_yogi_two_steps_by_hand(result):
    """η = .5, τ = .01, so v₀ = .01.

    First number, from 1: g₁ = .5 (g² = .25 > v): m = .05, v = .01 + .0025 = .0125, w = 1 + .5·.05/(.111803 + .01)
    = 1.205252. Then the clients' mean is 1.305252, g₂ = .1 (g² = .01 < v): m = .055, v = .0125 − .0001 = .0124,
    w = 1.205252 + .5·.055/(.111355 + .01) = 1.431861.
    Second number, from 2: g₁ = −.05 (g² = .0025 < v): m = −.005, v = .009975, w = 2 − .0025/(.099875 + .01)
    = 1.977246. Then g₂ = −.4 (g² = .16 > v): m = −.0445, v = .011575, w = 1.977246 − .02225/(.107587 + .01) = 1.788026.
    No step is larger for being the first: there is no bias correction.
    """
    yogi = Yogi(by="uniform", eta=0.5, tau=0.01)
    old = rows([1.0, 2.0])
    first, memory = combine(yogi, [result(0, [1.7, 1.9], 9), result(1, [1.3, 2.0], 1)], [0, 0], old)
    close(first, [[1.205252, 1.977246]])
    close(memory["m"], [[0.05, -0.005]])
    close(memory["v"], [[0.0125, 0.009975]])
    target = first + rows([0.1, -0.4])
    second, memory = combine(yogi, [result(0, target[0].tolist())], [0], first, memory)
    close(memory["m"], [[0.055, -0.0445]])
    close(memory["v"], [[0.0124, 0.011575]])
    close(second, [[1.431861, 1.788026]])


def test_yogi_steps_parameters_and_averages_statistics(result):
    """Of three numbers the last two are BatchNorm statistics."""
    old = rows([1.0, 5.0, 5.0])
    trained = [result(0, [2.0, 6.0, 0.0]), result(1, [4.0, 9.0, 1.0])]
    models, _ = combine(Yogi(), trained, [0, 0], old, parameters=1)
    assert models[0, 1:].tolist() == [7.5, 0.5]
    v = 1e-8 + 0.01 * 4.0
    close(models[0, 0], 1 + 3e-3 * 0.2 / (math.sqrt(v) + 1e-8))


def test_yogi_leaves_what_nobody_trained_alone(result):
    """Model and moments; a cluster's own are stepped whatever the others do."""
    old, memory = rows([1.0, 1.0], [2.0, 2.0], [3.0, 3.0]), {"m": rows(*[[0.3, 0.3]] * 3), "v": rows(*[[0.2, 0.2]] * 3)}
    before = {name: value.clone() for name, value in memory.items()}
    trained = [result(4, [2.5, 1.5]), result(7, [NAN, 1.0])]
    models, after = combine(Yogi(eta=0.1), trained, [1, 2], old, memory)
    for k in (0, 2):
        assert torch.equal(models[k], old[k])
        assert torch.equal(after["m"][k], before["m"][k])
        assert torch.equal(after["v"][k], before["v"][k])
    alone, _ = combine(Yogi(eta=0.1), trained[:1], [0], old[1:2], {k: v[1:2] for k, v in before.items()})
    assert torch.equal(models[1], alone[0])
    assert not torch.equal(models[1], old[1])
    assert all(torch.equal(memory[name], before[name]) for name in memory)  # what was given is not changed


# -------------------------------------------------------------------------------------------------------------- q-fair


def plain_qfair(old, trained, losses, q, lr):
    """One cluster: w − Σ f^q δ / Σ (q f^(q−1) ‖δ‖² + L f^q) with δ = L (w − w_k), L = 1/lr."""
    top, bottom, L = [0.0] * len(old), 0.0, 1 / lr
    for row, f in zip(trained, losses, strict=True):
        delta = [L * (a - b) for a, b in zip(old, row, strict=True)]
        top = [s + f**q * d for s, d in zip(top, delta, strict=True)]
        bottom += q * f ** (q - 1) * sum(d * d for d in delta) + L * f**q
    return [w - s / bottom for w, s in zip(old, top, strict=True)]


@st.composite
def clients(draw):
    n = draw(st.integers(1, 5))
    numbers = st.integers(-20, 20).map(lambda v: v / 8)
    trained = draw(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=n, max_size=n))
    losses = draw(st.lists(st.integers(1, 40).map(lambda v: v / 10), min_size=n, max_size=n))
    return trained, losses


@EXAMPLES
@given(clients(), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.sampled_from([0.05, 0.5]))
def test_qfair_follows_the_formula_per_cluster(found, q, lr):
    trained, losses = found
    old = rows([0.5, -1.0, 2.0], [1.0, 1.0, 1.0], [-1.0, 0.0, 0.25])
    results = [
        Trained(m, torch.tensor(row), 1 + m, 1, 9.9, start_loss=f)
        for m, (row, f) in enumerate(zip(trained, losses, strict=True))
    ]
    labels = [2 * (m % 2) for m in range(len(results))]
    models, _ = combine(QFair(q), results, labels, old, lr=lr)
    for k in (0, 2):
        mine = [m for m, label in enumerate(labels) if label == k]
        if mine:
            expected = plain_qfair(old[k].tolist(), [trained[m] for m in mine], [losses[m] for m in mine], q, lr)
            close(models[k], expected, 1e-4)
    assert torch.equal(models[1], old[1])


def test_qfair_without_fairness_is_the_plain_mean(result):
    """q = 0: Σ L (w − w_k) / Σ L, whatever the losses and sizes."""
    old = rows([5.0, 5.0])
    trained = [result(0, [1, 2], 1, start_loss=0.01), result(1, [3, 6], 50, start_loss=8.0)]
    close(combine(QFair(0.0), trained, [0, 0], old, lr=0.05)[0], [[2, 4]])


def test_qfair_asks_for_the_loss_of_the_received_model():
    assert QFair.needs_start_loss
    assert not Average.needs_start_loss
    assert not Yogi.needs_start_loss
    assert QFair().q == 1.0


@pytest.mark.parametrize("q", [0.5, 1.0, 3.0])
def test_a_larger_loss_weighs_more(q, result):
    """Two clients pull equally far in two directions; the share of the pull is that of f^q."""
    old = rows([0.0, 0.0])
    trained = [result(0, [1, 0], start_loss=2.0), result(1, [0, 1], start_loss=0.5)]
    (model,), _ = combine(QFair(q), trained, [0, 0], old)
    assert float(model[0] / model[1]) == pytest.approx(4.0**q, rel=1e-4)
    assert 0 < float(model[1]) < float(model[0]) < 1


def test_qfair_averages_statistics_and_does_not_measure_them(result):
    """The last number is a BatchNorm statistic: its large change must not shrink the step."""
    old = rows([1.0, 2.0, 1000.0])
    trained = [result(0, [0.5, 2.0, 0.0], start_loss=1.0), result(1, [0.0, 3.0, 10.0], start_loss=2.0)]
    models, _ = combine(QFair(), trained, [0, 0], old, parameters=2, lr=0.1)
    close(models[0, :2], plain_qfair([1.0, 2.0], [[0.5, 2.0], [0.0, 3.0]], [1.0, 2.0], 1.0, 0.1))
    assert float(models[0, 2]) == 5.0
