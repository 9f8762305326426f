"""The buffered asynchronous baselines: FedBuff and CA2FL."""

import itertools
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms.uploads.ca2fl import ca2fl_step
from flcluster.algorithms.uploads.fedbuff import buffer_step, fedbuff_weight

EXAMPLES = settings(deadline=None, max_examples=50, database=None)


def vec(*values):
    return torch.tensor(values, dtype=torch.float64)


def check(actual, expected, tolerance=1e-12):
    """Compare in float64, element by element, to an absolute and relative tolerance."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------------------------- FedBuff


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


# ---------------------------------------------------------------------------------------------- CA2FL


def run_ca2fl(arrivals, N, B, lr, model):
    """The server as the specification words it, with `ca2fl_step` at the flush: (client, delta) in, models out."""
    zero = torch.zeros_like(model)
    cache = [zero for _ in range(N)]
    mean = zero
    total, held = zero, 0
    models = []
    for client, delta in arrivals:
        total = total + delta - cache[client]
        cache[client] = delta
        held += 1
        if held == B:
            model = ca2fl_step(model, mean, total, B, lr)
            models.append(model)
            mean = sum(cache, zero) / N
            total, held = zero, 0
    return models


def loop_ca2fl(arrivals, N, B, lr, model):
    """The same from the log alone, coordinate by coordinate: what was a client's last delta before some arrival?"""

    def last(client, before, i):
        for name, delta in reversed(arrivals[:before]):
            if name == client:
                return delta[i].item()
        return 0.0

    model = model.tolist()
    models = []
    for start in range(0, len(arrivals) - B + 1, B):
        step = []
        for i in range(len(model)):
            calibration = 0.0
            for client in range(N):
                calibration += last(client, start, i)
            correction = 0.0
            for j in range(start, start + B):
                client, delta = arrivals[j]
                correction += delta[i].item() - last(client, j, i)
            step.append(calibration / N + correction / B)
        model = [model[i] + lr * step[i] for i in range(len(model))]
        models.append(model)
    return models


def test_ca2fl_step_by_hand():
    """(1, 2) + .5 * ((2, 0) + (8, -4)/4) = (1, 2) + .5 * (4, -1) = (3, 1.5)."""
    model, mean, total = vec(1, 2), vec(2, 0), vec(8, -4)
    check(ca2fl_step(model, mean, total, 4, 0.5), [3.0, 1.5])
    assert model.tolist() == [1, 2]
    assert mean.tolist() == [2, 0]
    assert total.tolist() == [8, -4]


def test_ca2fl_from_a_zero_cache_with_every_client_once_is_the_plain_average():
    """B = N = 4, deltas 1, 2, 3, 10 -> 4; also with rate .25."""
    arrivals = [(2, vec(3)), (0, vec(1)), (3, vec(10)), (1, vec(2))]
    check(run_ca2fl(arrivals, 4, 4, 1.0, vec(100))[-1], [104.0])
    check(run_ca2fl(arrivals, 4, 4, 0.25, vec(100))[-1], [101.0])


def test_ca2fl_by_hand_with_a_client_twice_in_one_buffer():
    """
    N = 4, B = 2, rate 1, from 0. Buffer 1: client 0 sends 4, then 6: acc = 4 + (6 - 4) = 6, h = 0: x = 0 + 6/2 = 3;
    h_0 = 6, h = 6/4 = 1.5 (client 1 to 3 never seen, still divided by 4).
    Buffer 2: client 1 sends 2: acc = 2; client 0 sends 8: acc = 2 + (8 - 6) = 4: x = 3 + 1.5 + 4/2 = 6.5; h = 10/4.
    Buffer 3: client 2 sends 0, client 1 sends 2: acc = 0: x = 6.5 + 2.5 + 0 = 9.
    """
    arrivals = [(0, vec(4)), (0, vec(6)), (1, vec(2)), (0, vec(8)), (2, vec(0)), (1, vec(2))]
    models = run_ca2fl(arrivals, 4, 2, 1.0, vec(0))
    check(torch.stack(models), [[3.0], [6.5], [9.0]])


@EXAMPLES
@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([0.3, 1.0]), st.integers(0, 2**16))
def test_ca2fl_follows_plain_loops(N, B, lr, seed):
    generator = torch.Generator().manual_seed(seed)
    clients = torch.randint(N, (24,), generator=generator).tolist()
    clients[1] = clients[0]  # for B > 1, the first buffer holds one client twice
    arrivals = [(client, torch.randn(3, dtype=torch.float64, generator=generator)) for client in clients]
    model = torch.randn(3, dtype=torch.float64, generator=generator)
    models = run_ca2fl(arrivals, N, B, lr, model)
    assert len(models) == 24 // B
    check(torch.stack(models), loop_ca2fl(arrivals, N, B, lr, model))


def test_ca2fl_is_free_of_participation_bias_once_all_are_cached():
    """Constant deltas 1, 2, 6: after all were seen, every step is their mean 3, though only client 2 arrives."""
    arrivals = [(client, vec(delta)) for client, delta in [(0, 1), (1, 2), (2, 6), (2, 6), (2, 6), (2, 6), (2, 6)]]
    models = run_ca2fl(arrivals, 3, 1, 1.0, vec(0))
    for before, after in itertools.pairwise(models[2:]):
        check(after - before, [3.0])
