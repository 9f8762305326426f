"""Yogi's steps by hand, and rounds of FedYogi."""

import math

import torch
from by_hand import COMMON, close, combine, rows, two_kinds, weighted_mean

from flcluster.algorithms import FedYogi, Yogi


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
    trained = [result(4, [2.5, 1.5]), result(7, [math.nan, 1.0])]
    models, after = combine(Yogi(eta=0.1), trained, [1, 2], old, memory)
    for k in (0, 2):
        assert torch.equal(models[k], old[k])
        assert torch.equal(after["m"][k], before["m"][k])
        assert torch.equal(after["v"][k], before["v"][k])
    alone, _ = combine(Yogi(eta=0.1), trained[:1], [0], old[1:2], {k: v[1:2] for k, v in before.items()})
    assert torch.equal(models[1], alone[0])
    assert not torch.equal(models[1], old[1])
    assert all(torch.equal(memory[name], before[name]) for name in memory)  # what was given is not changed


def test_fedyogi_remembers_its_moments_over_rounds(script, federate, spied):
    """Two rounds: the second goes on with the first's m and v, on the mean weighted by size."""
    fed = federate(two_kinds(script))
    algorithm = FedYogi(**COMMON)
    state = algorithm.init(fed)
    m, v, w = 0.0, 1e-8, state.models[0].double()
    log = spied(fed)
    for t in range(2):
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        g = weighted_mean([row for _, row in log], [len(job.view) for job, _ in log]).double() - w
        m = 0.9 * m + 0.1 * g
        v = v - 0.01 * g**2 * torch.sign(v - g**2)
        w = w + 3e-3 * m / (v.sqrt() + 1e-8)
        torch.testing.assert_close(state.models[0].double(), w, rtol=1e-4, atol=2e-5)
        w = state.models[0].double()
