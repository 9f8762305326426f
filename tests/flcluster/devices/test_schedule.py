"""Schedules of uploads: their laws, and what they mean for staleness."""

import math

import numpy as np
import pytest
from scipy import stats

from flcluster.devices.schedule import (
    DeviceArrivals,
    PermutationArrivals,
    PoissonArrivals,
    RoundRobinArrivals,
    Schedule,
    UniformArrivals,
    Workload,
)
from flcluster.seeds import rng


def samples(client, cycle):
    return 50 + 10 * client + cycle % 3


WORK = Workload(samples=samples, epochs=2, model_bytes=1_000_000)
ARRIVALS = [
    UniformArrivals(),
    PoissonArrivals(),
    PoissonArrivals(spread=0.0),
    PermutationArrivals(),
    RoundRobinArrivals(),
    DeviceArrivals(),
    DeviceArrivals(idle=0.0, spread=0.0),
]
RANDOM = [a for a in ARRIVALS if a not in (RoundRobinArrivals(), DeviceArrivals(idle=0.0, spread=0.0))]


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=repr)
@pytest.mark.parametrize(("clients", "total"), [(7, 40), (7, 3), (1, 5)])
def test_a_schedule(arrivals, clients, total):
    """``total`` uploads of clients that exist, in the order of their times; the same when drawn again."""
    schedule = arrivals.schedule(clients, total, 3, WORK)
    assert len(schedule) == len(schedule.clients) == len(schedule.times) == total
    assert set(schedule.clients.tolist()) <= set(range(clients))
    assert all(a <= b for a, b in zip(schedule.times[:-1], schedule.times[1:], strict=True))
    assert all(t > 0 for t in schedule.times)
    again = arrivals.schedule(clients, total, 3, WORK)
    assert again.clients.tolist() == schedule.clients.tolist()
    assert again.times.tolist() == schedule.times.tolist()


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=lambda a: type(a).__name__)
def test_an_empty_schedule(arrivals):
    """algorithm.cycles = 0.01 with few clients rounds to no upload at all."""
    assert len(arrivals.schedule(5, 0, 3, WORK)) == 0


@pytest.mark.parametrize("arrivals", RANDOM, ids=repr)
def test_the_seed_matters(arrivals):
    a, b = (arrivals.schedule(7, 60, seed, WORK) for seed in (3, 4))
    assert a.clients.tolist() != b.clients.tolist()


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=repr)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_longer_schedule_begins_like_a_shorter_one(arrivals, seed):
    """So that a run can be made longer."""
    long = arrivals.schedule(7, 501, seed, WORK)
    for total in (1, 6, 7, 8, 100, 255, 256, 257):
        short = arrivals.schedule(7, total, seed, WORK)
        assert short.clients.tolist() == long.clients[:total].tolist()
        assert short.times.tolist() == long.times[:total].tolist()


def test_round_robin():
    schedule = RoundRobinArrivals().schedule(3, 8, 0, WORK)
    assert schedule.clients.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert schedule.times.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_permutations():
    """Every session has every client once, and sessions differ."""
    sessions = PermutationArrivals().schedule(10, 200, 1, WORK).clients.reshape(20, 10)
    assert all(sorted(session) == list(range(10)) for session in sessions.tolist())
    assert len({tuple(session) for session in sessions.tolist()}) == 20


def test_uniform_shares():
    """Chi-square over 20 clients and 20,000 uploads, and over pairs of successive clients (independence)."""
    clients = UniformArrivals().schedule(20, 20_000, 5, WORK).clients
    assert stats.chisquare(np.bincount(clients, minlength=20)).pvalue > 1e-3
    pairs = np.bincount(clients[:-1:2] * 20 + clients[1::2], minlength=400)
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_poisson_with_equal_rates():
    """One upload a client and unit of time; gaps exponential; shares uniform."""
    schedule = PoissonArrivals(spread=0.0).schedule(10, 20_000, 2, WORK)
    assert stats.chisquare(np.bincount(schedule.clients, minlength=10)).pvalue > 1e-3
    gaps = np.diff(schedule.times)
    assert gaps.min() > 0
    assert stats.kstest(gaps, "expon", args=(0, 1 / 10)).pvalue > 1e-3
    own = np.diff(schedule.times[schedule.clients == 4])
    assert stats.kstest(own, "expon").pvalue > 1e-3


def test_poisson_with_spread_rates():
    """Shares are log-normal over clients: log-rates of 400 clients have mean 0 and the given deviation."""
    schedule = PoissonArrivals(spread=1.0).schedule(400, 400_000, 2, WORK)
    rates = np.bincount(schedule.clients, minlength=400) / schedule.times[-1]
    logs = np.log(rates)
    assert abs(logs.mean()) < 4 / math.sqrt(400)
    assert abs(logs.std() - 1.0) < 4 / math.sqrt(2 * 400)
    halves = [np.bincount(half, minlength=400) for half in np.split(schedule.clients, 2)]
    busy = halves[0] > 1000
    assert busy.sum() > 20
    z = (halves[0] - halves[1])[busy] / np.sqrt((halves[0] + halves[1])[busy])
    assert np.abs(z).max() < 4.5  # a client keeps its rate


def test_devices_against_one_client_by_hand():
    """One client alone: its times are sums of training, two transfers and idle time."""
    arrivals = DeviceArrivals(ms_per_sample=4.0, mbps=8.0, spread=0.0, idle=0.0)
    schedule = arrivals.schedule(1, 6, 0, WORK)
    now, expected = 0.0, []
    for cycle in range(6):
        # 3 · samples · epochs · 4 ms, and 1 MB = 8 Mbit each way at 8 Mbit/s
        now += 3 * (50 + cycle % 3) * 2 * 0.004 + 1.0 + 1.0
        expected.append(now)
    assert schedule.times == pytest.approx(expected, rel=1e-12)


def test_devices_do_not_wait_for_each_other():
    """Each client's own times are those it has alone, merged in order of time."""
    arrivals = DeviceArrivals(ms_per_sample=4.0, mbps=8.0, spread=0.0, idle=30.0)
    schedule = arrivals.schedule(5, 100, 7, WORK)
    merged = []
    for m in range(5):
        now = 0.0
        for cycle in range(100):
            idle = rng(7, "idle", m, cycle).exponential(30.0)
            now += 3 * samples(m, cycle) * 2 * 0.004 + 2.0 + idle
            merged.append((now, m))
    merged = sorted(merged)[:100]
    assert schedule.clients.tolist() == [m for _, m in merged]
    assert schedule.times == pytest.approx([t for t, _ in merged], rel=1e-9)


def test_slow_devices_upload_less_often():
    """Client m trains on 50 + 10·m samples: without spread and idle time the counts fall with m."""
    arrivals = DeviceArrivals(ms_per_sample=20.0, spread=0.0, idle=0.0)
    counts = np.bincount(arrivals.schedule(8, 2000, 0, WORK).clients, minlength=8)
    assert (np.diff(counts) < 0).all()
    spread = DeviceArrivals(spread=1.0, idle=0.0).schedule(30, 3000, 0, WORK)
    counts = np.bincount(spread.clients, minlength=30)
    assert counts.max() > 3 * max(counts.min(), 1)
    # a device that needs d seconds a cycle uploads T/d times until T
    last = spread.times[-1]
    firsts = np.array([spread.times[spread.clients == m][0] for m in range(30) if counts[m]])
    assert counts[counts > 0] == pytest.approx(last / firsts, rel=0.1, abs=1.0)


@pytest.mark.parametrize("seed", range(3))
def test_cycles(seed):
    clients = np.random.default_rng(seed).integers(5, size=60)
    cycles = Schedule(clients, np.arange(60.0)).cycles()
    assert cycles.tolist() == [clients[:i].tolist().count(c) for i, c in enumerate(clients.tolist())]
    assert cycles.dtype == np.int64


# ------------------------------------------------------------------------------------------- staleness × arrivals

CYCLES = 25


def lags(arrivals, clients, seed):
    """t − τ of every upload after the first M, where τ is the epoch of the client's last upload (0 before)."""
    synced, out = [0] * clients, []
    for t, m in enumerate(arrivals.schedule(clients, CYCLES * clients, seed, WORK).clients.tolist(), start=1):
        if t > clients:
            out.append(t - synced[m])
        synced[m] = t
    return np.array(out)


def shares(arrivals, K, seeds):
    clients = 20 * K
    found = [lags(arrivals, clients, seed) for seed in range(seeds)]
    fresh = np.array([np.mean(lag < 5) for lag in found])
    deprecated = np.array([np.mean(lag > clients) for lag in found])
    ratio = np.array([np.where(lag < 5, 1.0, 1 / (10 * lag + 1))[lag <= clients].sum() for lag in found])
    return fresh, deprecated, ratio


@pytest.mark.parametrize(("K", "spec_fresh"), [(2, 0.104), (3, 0.067), (4, 0.051), (6, 0.032)])
def test_uniform_arrivals_are_often_fresh(K, spec_fresh):
    """Lags are geometric: 1 − (1 − 1/M)^4 fresh, (1 − 1/M)^M = 36–37 % deprecated.

    The SPEC's numbers are one simulation each, so they may differ by its own noise of about √(p(1−p)/24M).
    """
    M, seeds = 20 * K, 60
    fresh, deprecated, ratio = shares(UniformArrivals(), K, seeds)
    expected = 1 - (1 - 1 / M) ** 4
    noise = math.sqrt(expected * (1 - expected) / (24 * M))
    assert abs(fresh.mean() - expected) < 4 * noise / math.sqrt(seeds)
    assert abs(fresh.mean() - spec_fresh) < 2 * noise
    assert abs(deprecated.mean() - (1 - 1 / M) ** M) < 4 * deprecated.std(ddof=1) / math.sqrt(seeds)
    assert 0.36 - 0.01 < deprecated.mean() < 0.37 + 0.01
    law = sum((1 - 1 / M) ** (s - 1) / M * (1 if s < 5 else 1 / (10 * s + 1)) for s in range(1, M + 1))
    assert abs(ratio.mean() - 24 * M * law) < 4 * ratio.std(ddof=1) / math.sqrt(seeds)
    assert abs(ratio.mean() - 100) < 6


@pytest.mark.parametrize(
    ("K", "spec_fresh", "spec_ratio"), [(2, 0.006, 8.4), (3, 0.003, 7.0), (4, 0.002, 5.5), (6, 0.001, 5.1)]
)
def test_permutations_are_seldom_fresh(K, spec_fresh, spec_ratio):
    """Positions p, q in two sessions: lag M − p + q, so 10/M² fresh and (M − 1)/2M deprecated."""
    M, seeds = 20 * K, 40
    fresh, deprecated, ratio = shares(PermutationArrivals(), K, seeds)
    assert abs(fresh.mean() - 10 / M**2) < 4 * fresh.std(ddof=1) / math.sqrt(seeds)
    assert abs(fresh.mean() - spec_fresh) < 0.0005 + 4 * fresh.std(ddof=1) / math.sqrt(seeds)
    assert abs(deprecated.mean() - (M - 1) / (2 * M)) < 4 * deprecated.std(ddof=1) / math.sqrt(seeds)
    assert 0.48 < deprecated.mean() < 0.50
    assert abs(ratio.mean() - spec_ratio) < 3 * ratio.std(ddof=1)  # the SPEC's is one simulation


@pytest.mark.parametrize("K", [2, 3, 4, 6])
def test_round_robin_is_never_fresh(K):
    """Every lag is M: nothing fresh, nothing deprecated, Σβ2 = 24·M/(10·M + 1) = 2.4."""
    fresh, deprecated, ratio = shares(RoundRobinArrivals(), K, 1)
    assert (fresh.item(), deprecated.item()) == (0.0, 0.0)
    assert ratio.item() == pytest.approx(24 * 20 * K / (200 * K + 1), rel=1e-12)
    assert round(ratio.item(), 1) == 2.4
