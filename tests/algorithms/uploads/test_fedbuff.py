"""FedBuff's weights and steps, by hand and against plain loops."""

import random

import pytest
from by_hand import check, vec
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms.uploads.fedbuff import buffer_step, fedbuff_weight

EXAMPLES = settings(deadline=None, max_examples=50, database=None)


@pytest.mark.parametrize(("staleness", "weight"), [(0, 1.0), (3, 0.5), (8, 1 / 3), (15, 0.25), (1, 0.5**0.5)])
def test_fedbuff_weight_is_an_inverse_square_root(staleness, weight):
    """Not divided by its value at an average staleness, as FLSim does: staleness 0 weighs 1."""
    assert fedbuff_weight(staleness) == pytest.approx(weight, rel=1e-14)


@pytest.mark.parametrize(("exponent", "weight"), [(0.0, 1.0), (0.5, 0.5), (1.0, 0.25), (2.0, 0.0625)])
def test_fedbuff_weight_exponent(exponent, weight):
    assert fedbuff_weight(3, exponent) == pytest.approx(weight, rel=1e-14)


def test_buffer_step_by_hand():
    """(1, 2) + .5 * (4, -8)/4 = (1.5, 1)."""
    model, total = vec(1, 2), vec(4, -8)
    check(buffer_step(model, total, 4, 0.5), [1.5, 1.0])
    assert model.tolist() == [1, 2]
    assert total.tolist() == [4, -8]


def test_fedbuff_divides_by_the_size_and_not_by_the_weights():
    """Deltas 4 (staleness 0) and 2 (staleness 3): (4 + 1)/2 = 2.5; divided by the weights' sum it would be 5/1.5."""
    total = vec(4) * fedbuff_weight(0) + vec(2) * fedbuff_weight(3)
    check(buffer_step(vec(10), total, 2, 1.0), [12.5])


def test_fedbuff_sequence_by_hand():
    """
    Targets: every client's delta is (target - model received)/2, B = 2, server rate 1, model starts at 0.
    A (target 8), B (target 4), C (target 16) all start at version 0 with model 0.
    A: delta 4, staleness 0; B: delta 2, staleness 0 -> flush: 0 + 6/2 = 3, version 1. A was told 0 (before the flush,
    version 0), B is told 3 (version 1).
    C: delta 8, staleness 1, weight 2^-.5; B again: delta (4 - 3)/2 = .5, staleness 0 -> flush: 3 + (8/sqrt 2 + .5)/2.
    """
    targets = {"A": 8.0, "B": 4.0, "C": 16.0}
    received = {name: (vec(0), 0) for name in targets}
    model, version = vec(0), 0
    total, held = vec(0), 0
    for name in "ABCB":
        start, seen = received[name]
        total = total + fedbuff_weight(version - seen) * (targets[name] - start) / 2
        held += 1
        if held == 2:
            model, version = buffer_step(model, total, held, 1.0), version + 1
            total, held = vec(0), 0
        received[name] = model, version
    assert version == 2
    check(model, [3 + (8 / 2**0.5 + 0.5) / 2])


@EXAMPLES
@given(st.integers(1, 6), st.integers(1, 5), st.sampled_from([0.1, 1.0]), st.integers(0, 2**16))
def test_fedbuff_sequence_follows_plain_loops(N, B, lr, seed):
    """A random run on two coordinates; the loop keeps the whole log and recomputes every flush from it."""
    draw = random.Random(seed)
    arrivals = [draw.randrange(N) for _ in range(20)]
    targets = [(draw.uniform(-5, 5), draw.uniform(-5, 5)) for _ in range(N)]

    model, version, received = vec(1, -1), 0, [(vec(1, -1), 0)] * N
    total, held = vec(0, 0), 0
    for client in arrivals:
        start, seen = received[client]
        total += fedbuff_weight(version - seen) * 0.5 * (vec(*targets[client]) - start)
        held += 1
        if held == B:
            model, version = buffer_step(model, total, B, lr), version + 1
            total, held = vec(0, 0), 0
        received[client] = model, version

    versions = [[1.0, -1.0]]
    last = [0] * N
    log = []
    for arrival, client in enumerate(arrivals):
        delta = [0.5 * (target - start) for target, start in zip(targets[client], versions[last[client]], strict=True)]
        log.append((delta, len(versions) - 1 - last[client]))
        if (arrival + 1) % B == 0:
            step = [sum(d[i] / (1 + s) ** 0.5 for d, s in log[-B:]) / B for i in range(2)]
            versions.append([versions[-1][i] + lr * step[i] for i in range(2)])
        last[client] = len(versions) - 1
    assert version == len(versions) - 1
    check(model, versions[-1])
