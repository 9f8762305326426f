"""CA2FL's calibrated steps, by hand, against plain loops and through the loop."""

import itertools

import torch
from by_hand import check, vec
from hypothesis import given, settings
from hypothesis import strategies as st
from upload_methods import COMMON, close, make

from flcluster.algorithms import CA2FL
from flcluster.algorithms.uploads.ca2fl import ca2fl_step
from flcluster.devices.schedule import RoundRobinArrivals

EXAMPLES = settings(deadline=None, max_examples=50, database=None)


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


def test_ca2fl_with_all_clients_once_is_the_plain_average(federation):
    """B = N, from empty caches: the model moves by the mean of the updates."""
    algorithm = CA2FL(**{**COMMON, "cycles": 1.0}, buffer_size=6, arrivals=RoundRobinArrivals())
    deltas = []

    class Watch:
        def on_upload(self, loop, upload):
            deltas.append(upload.row - upload.start)

    loop = make(federation, algorithm, callbacks=[Watch()])
    first = loop.state.model.clone()
    for _ in range(6):
        loop.advance()
    close(loop.state.model, first + torch.stack(deltas).mean(0), "model")
