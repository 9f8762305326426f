"""Simulated device time: hand-computed times, who is kept against brute force, and traces in FedScale's layout."""

import math
import os
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest

from flcluster.devices.availability import DAY, DAYS, from_periods
from flcluster.devices.profiles import Profile, SyntheticDevices, TraceDevices
from flcluster.devices.schedule import DeviceArrivals, Workload
from flcluster.errors import UserError

RESNET18 = 11.18e6 * 4


def profile(ms, kbps, **more):
    return Profile(np.array(ms, dtype=float), np.array(kbps, dtype=float), **more)


def write(path, held, protocol=pickle.DEFAULT_PROTOCOL):
    path.write_bytes(pickle.dumps(held, protocol))
    return str(path)


# ------------------------------------------------------------------------------------------------------------ times


def test_seconds_by_hand():
    """Client 2: 3 · 1.5 · 400 · 10 ms = 18 s; 1 MB down and 0.5 MB up = 12,000 kbit at 2000 kbps = 6 s."""
    devices = profile([5, 7, 10], [1000, 500, 2000], model_factor=1.5)
    assert devices.seconds(np.array([2]), 400, 1_000_000, 500_000) == pytest.approx([24.0])
    both = devices.seconds(np.array([2, 0]), np.array([400, 100]), 1_000_000, np.array([500_000, 0]))
    assert both == pytest.approx([24.0, 3 * 1.5 * 100 * 0.005 + 8.0])
    assert devices.seconds(np.array([1]), 200, 0, 0, passes=1.0) == pytest.approx([200 * 1.5 * 0.007])


def test_synthetic_times_have_the_reported_means():
    """FIELDING on FMoW: 116.7 s for ResNet-18 down and up, 50.4 s for 20 batches of 20; spread 0.6 in the logarithm."""
    n = 400_000
    devices, everyone = SyntheticDevices().profile(n, 1), np.arange(n)
    transfer = devices.seconds(everyone, 0, RESNET18, RESNET18)
    compute = devices.seconds(everyone, 20 * 20, 0, 0)
    for seconds, mean in ((transfer, 116.7), (compute, 50.4)):
        error = mean * math.sqrt(math.exp(0.6**2) - 1) / math.sqrt(n)
        assert abs(seconds.mean() - mean) < 4 * error + 0.02  # 6.131 Mbit/s is rounded
        assert np.log(seconds).std() == pytest.approx(0.6, rel=0.01)
        assert np.median(seconds) == pytest.approx(mean * math.exp(-0.18), rel=0.01)
    assert abs(np.corrcoef(np.log(transfer), np.log(compute))[0, 1]) < 0.01


def test_synthetic_devices_repeat_and_differ():
    a, b, c = (SyntheticDevices(online_share=0.5).profile(50, seed) for seed in (3, 3, 4))
    assert (a.kbps == b.kbps).all() and (a.kbps != c.kbps).all() and (a.ms_per_sample != c.ms_per_sample).all()
    assert (a.availability.ends == b.availability.ends).all() and (a.availability.ends != c.availability.ends).all()
    same = SyntheticDevices(spread=0.0).profile(5, 0)
    assert same.ms_per_sample.tolist() == [42.0] * 5 and same.kbps == pytest.approx([6131.0] * 5)
    slower = SyntheticDevices(model_factor=2.0).profile(5, 0).seconds(np.arange(5), 10, 0, 0)
    assert slower == pytest.approx(2 * SyntheticDevices().profile(5, 0).seconds(np.arange(5), 10, 0, 0))


@pytest.mark.parametrize(
    ("key", "value"),
    [("mbps", 0), ("ms_per_sample", -1), ("online_share", 0), ("online_share", 1.1), ("spread", math.nan)],
)
def test_impossible_devices_are_refused(key, value):
    with pytest.raises(UserError, match=rf"^devices\.{key} must be .* got {value}$"):
        SyntheticDevices(**{key: value})
    with pytest.raises(UserError, match=r"^devices\.model_factor must be above 0 and finite, got 0$"):
        TraceDevices("capacity", model_factor=0)


# ----------------------------------------------------------------------------------------------------- availability


def brute_online(periods, t):
    starts, ends, cycle = periods
    return any(a <= t % cycle <= b for a, b in zip(starts, ends, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_online_against_brute_force(seed):
    """Unsorted, overlapping, nested, empty and reversed periods, times at the very boundaries, many cycles."""
    draw = np.random.default_rng(seed)
    periods = []
    for _ in range(30):
        count = int(draw.integers(0, 6))
        starts, ends = (draw.integers(0, 21, count).astype(float).tolist() for _ in range(2))
        periods.append((starts, ends, float(draw.integers(15, 25))))
    device = draw.integers(0, 30, 200)
    held = profile(np.ones(200), np.ones(200), availability=from_periods(periods, device))
    clients = draw.permutation(200)
    for t in [0.0, 3.0, 7.5, 14.0, 20.0, 61.0, 1e6 + 3]:
        expected = [brute_online(periods[device[c]], t) for c in clients]
        assert held.online(clients, t).tolist() == expected
    times = draw.integers(0, 100, 200) / 2
    assert held.online(clients, times).tolist() == [
        brute_online(periods[device[c]], t) for c, t in zip(clients, times, strict=True)
    ]


def test_a_devices_time_may_begin_anywhere():
    """Online from 2 to 4 of every 10 seconds; at 0 it is in second 3."""
    one = np.array([0])
    held = profile([1.0], [1.0], availability=replace(from_periods([([2.0], [4.0], 10.0)], one), shift=np.array([3.0])))
    found = {t: bool(held.online(one, float(t))[0]) for t in range(20)}
    assert [t for t, online in found.items() if online] == [0, 1, 9, 10, 11, 19]


def test_devices_that_are_never_online():
    held = profile([1.0], [1.0], availability=from_periods([([], [], 10.0)], np.array([0])))
    assert held.online(np.array([0]), 3.0).tolist() == [False]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_synthetic_availability(share):
    """Every client is online for ``share`` of its week in seven periods, and of all clients so many at any time."""
    n = 20_000
    held = SyntheticDevices(online_share=share).profile(n, 2)
    weeks = held.availability
    lengths = (weeks.ends - weeks.starts).reshape(n, DAYS)
    assert lengths.sum(axis=1) == pytest.approx(np.full(n, share * DAYS * DAY))
    assert 0.4 < np.log(lengths).std() < 0.6  # 0.6, less what the common scale of a week takes
    gaps = weeks.starts.reshape(n, DAYS)[:, 1:] - weeks.ends.reshape(n, DAYS)[:, :-1]
    assert gaps.min() > 0
    for t in (0.0, 5000.0, 3.3 * DAY, 40 * DAY):
        assert abs(held.online(np.arange(n), t).mean() - share) < 4 * math.sqrt(share * (1 - share) / n)
    assert (held.online(np.arange(n), 100.0) == held.online(np.arange(n), 100.0 + 7 * DAY)).all()


# ------------------------------------------------------------------------------------------------------------- keep


def test_keep_by_hand():
    """Of five candidates one is offline now, one will be when it finishes, and the two fastest of the rest stay."""
    always, first, later = ([0.0], [100.0], 100.0), ([0.0], [10.0], 100.0), ([50.0], [60.0], 100.0)
    held = profile(
        np.ones(6),
        np.ones(6),
        availability=from_periods([always, first, later], np.array([0, 0, 0, 1, 2, 0])),
    )
    kept = held.keep(np.array([5, 3, 1, 4, 2]), np.array([30.0, 6.0, 9.0, 1.0, 20.0]), now=5.0, count=2)
    assert kept.clients.tolist() == [1, 2]
    assert (kept.seconds, kept.lost) == (20.0, 2)


@pytest.mark.parametrize("seed", range(20))
def test_keep_against_brute_force(seed):
    draw = np.random.default_rng(seed)
    n, now = 40, 3.0
    bounds = np.sort(draw.integers(0, 40, (n, 6)), axis=1)
    periods = [(b[::2].tolist(), b[1::2].tolist(), 40.0) for b in bounds]
    held = profile(np.ones(n), np.ones(n), availability=from_periods(periods, np.arange(n)))
    for count in (0, 1, 3, 100):
        clients = draw.permutation(n)[:25]
        seconds = draw.integers(1, 12, 25).astype(float)  # ties
        alive = [
            (s, i)
            for i, (c, s) in enumerate(zip(clients.tolist(), seconds.tolist(), strict=True))
            if brute_online(periods[c], now) and brute_online(periods[c], now + s)
        ]
        best = sorted(alive)[:count]
        kept = held.keep(clients, seconds, now, count)
        assert kept.clients.tolist() == [clients[i] for i in sorted(i for _, i in best)]
        assert kept.seconds == max((s for s, _ in best), default=0.0)
        assert kept.lost == 25 - len(alive)


def test_keep_without_availability():
    held = profile(np.ones(4), np.ones(4))
    assert held.keep(np.array([3, 0, 2]), np.array([2.0, 1.0, 3.0]), 0.0, 2)[:] == (pytest.approx([3, 0]), 2.0, 0)
    nobody = held.keep(np.array([], dtype=np.int64), np.array([]), 0.0, 5)
    assert (len(nobody.clients), nobody.seconds, nobody.lost) == (0, 0.0, 0)


def test_a_hundred_thousand_clients():
    begin, everyone = time.process_time(), np.arange(100_000)
    held = SyntheticDevices(online_share=0.5).profile(100_000, 0)
    seconds = held.seconds(everyone, 400, RESNET18, RESNET18)
    kept = held.keep(everyone, seconds, 1000.0, 10_000)
    assert len(kept.clients) == 10_000 and 45_000 < kept.lost < 55_000
    assert time.process_time() - begin < 2.0


# ----------------------------------------------------------------------------------------------------------- traces

CAPACITY = {
    1: {"computation": 20.0, "communication": 4000.0},
    2: {"computation": np.float64(60.0), "communication": np.float32(500.0)},
    3: {"computation": np.int64(30), "communication": 1000},
}
BEHAVIOUR = {
    0: {
        "duration": 211_625,
        "inactive": [65_881, 133_574, 208_292],
        "finish_time": 518_400,
        "active": [12_788, 100_044, 188_992],
        "model": "CPH1801",
    },
    7: {"duration": 3, "inactive": [1, 4, 7, 10], "finish_time": 10, "active": [1, 3, 6, 9], "model": "x"},
}


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_fedscale_traces(tmp_path, protocol):
    """Clients take the entries in turn; the second availability entry and its answers are those of FedScale's test."""
    traces = TraceDevices(write(tmp_path / "c", CAPACITY, protocol), write(tmp_path / "a", BEHAVIOUR, protocol), 2.44)
    held = traces.profile(5, 0)
    assert held.ms_per_sample.tolist() == [20.0, 60.0, 30.0, 20.0, 60.0]
    assert held.kbps.tolist() == [4000.0, 500.0, 1000.0, 4000.0, 500.0]
    assert held.model_factor == 2.44
    second = np.array([1])
    asked = {t: held.online(second, t).item() for t in (2, 6, 8, 9, 10, 15)}
    assert asked == {2: False, 6: True, 8: False, 9: True, 10: False, 15: False}
    first = {t: held.online(np.array([2]), t).item() for t in (12_787, 12_788, 65_881, 65_882, 518_400 + 20_000)}
    assert first == {12_787: False, 12_788: True, 65_881: True, 65_882: False, 538_400: True}


def test_shuffled_traces(tmp_path):
    path = write(tmp_path / "c", {i: {"computation": 1.0 + i, "communication": 9.0} for i in range(40)})
    one, two = (TraceDevices(path, order="shuffle").profile(80, seed).ms_per_sample for seed in (0, 1))
    assert sorted(one[:40].tolist()) == [1.0 + i for i in range(40)]
    assert (one[:40] == one[40:]).all() and (one != two).any()


def test_profiles_as_csv_serve_both_kinds_of_run(tmp_path):
    path = tmp_path / "profiles.csv"
    path.write_text("name,ms_per_sample,mbps\na,4,8\nb,2,1.5\n")
    held = TraceDevices(str(path)).profile(3, 0)
    assert held.ms_per_sample.tolist() == [4.0, 2.0, 4.0] and held.kbps.tolist() == [8000.0, 1500.0, 8000.0]
    work = Workload(samples=lambda client, cycle: 100, epochs=1, model_bytes=1_000_000)
    schedule = DeviceArrivals(idle=0.0, profiles=str(path)).schedule(1, 2, 0, work)
    assert schedule.times == pytest.approx(np.cumsum(2 * [held.seconds(np.array([0]), 100, 1e6, 1e6).item()]))


@pytest.mark.parametrize("text", ["", "ms_per_sample,mbps\n", "ms,mbps\n1,2\n", "ms_per_sample,mbps\n1\n"])
def test_broken_profiles(tmp_path, text):
    path = tmp_path / "profiles.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=r"profiles\.csv"):
        TraceDevices(str(path)).profile(3, 0)


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({1: {"compute": 1.0, "communication": 2.0}}, "'computation': milliseconds a sample"),
        ({1: {"computation": "slow", "communication": 2.0}}, "'communication': kilobit a second"),
        ({1: [1.0, 2.0]}, "'computation'"),
        ({1: {"computation": 1.0, "communication": 0.0}}, "device 1 has the speeds"),
        ({}, "one entry a device"),
        ([1, 2], "one entry a device"),
    ],
)
def test_wrong_capacity_files(tmp_path, held, says):
    with pytest.raises(UserError, match=says) as error:
        TraceDevices(write(tmp_path / "capacity", held)).profile(2, 0)
    assert "capacity" in str(error.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"active": [1]},
        {"active": [1], "inactive": [2, 3], "finish_time": 4},
        {"active": [], "inactive": [], "finish_time": 0},
        {"active": "12", "inactive": [3, 4], "finish_time": 5},
        {"active": [1, float("inf")], "inactive": [2, 3], "finish_time": 4},
    ],
)
def test_wrong_availability_files(tmp_path, entry):
    behaviour = write(tmp_path / "behave", {**BEHAVIOUR, "bad": entry})
    with pytest.raises(UserError, match=r"behave is no availability trace.*'active'.*'bad'"):
        TraceDevices(write(tmp_path / "c", CAPACITY), behaviour).profile(2, 0)


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        TraceDevices(str(tmp_path / "nowhere")).profile(2, 0)
    (tmp_path / "text").write_text("these are no devices")
    with pytest.raises(UserError, match="no pickle file of plain data"):
        TraceDevices(str(tmp_path / "text")).profile(2, 0)


class Run:
    def __init__(self, function, *arguments):
        self.called = function, arguments

    def __reduce__(self):
        return self.called


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, protocol):
    mark = tmp_path / "mark"
    for evil in (
        Run(os.mkdir, str(mark)),
        Run(eval, f"__import__('os').mkdir({str(mark)!r})"),
        Run(getattr, "", "join"),
    ):
        path = write(tmp_path / "capacity", {1: {"computation": 1.0, "communication": evil}}, protocol)
        with pytest.raises(UserError, match="refused"):
            TraceDevices(path).profile(2, 0)
        assert not mark.exists()
    with pytest.raises(UserError, match="refused"):
        TraceDevices(write(tmp_path / "object", {1: np.array([None])[0:1].dtype})).profile(1, 0)
