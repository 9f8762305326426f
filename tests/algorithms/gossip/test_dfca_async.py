"""DFCA without a barrier: small cases by hand, event by event against a plain simulation, clocks and runs."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from async_events import CLOSE, COMMON, SOON, Replay, trained_rows
from gossip import WIDTH, graph, rows_of, scatter, two_kinds

from flcluster.algorithms import DFCA, AsyncDFCA
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.records.checkpoint import load_checkpoint, save_checkpoint
from flcluster.topology.families import Complete, EdgeList

# --------------------------------------------------------------------------------------------------------- by hand


def test_two_clients_by_hand(script, federate, spied):
    """Both train for one unit and messages take no time: they arrive when the other ends and wait for its next end.

    Both end with a0 and b0 and have no mail. Then 0, which began from a0, ends with a1 and takes in b0: (a1 + b0)/2,
    and 1 ends with b1 and takes in a0: neither number is ahead. After that each takes in the other's second model
    alone: a mean of two and not of three, since the first was counted in the round before.
    """
    fed = federate(script({0: two_kinds(2, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=1, spread=0.0, latency=0.0, topology=Complete())
    state = algorithm.init(fed)
    assert state.ends.tolist() == [1.0, 1.0]
    start, log = algorithm.models(fed)[0], spied(fed)
    state, done = algorithm.step(state, 0, fed)
    (zero, a0), (one, b0) = trained_rows(log)
    assert (zero, one) == (0, 1)
    assert all(torch.equal(job.start, start) for job, _ in log)
    np.testing.assert_allclose(rows_of(algorithm, fed), [a0, b0], **CLOSE)
    assert (state.messages, state.lost, len(state.mail)) == (2, 0, 2)
    assert (state.clock, state.ends.tolist()) == (1.0, [2.0, 2.0])
    assert (list(done.uploads), list(done.downloads)) == ([1, 1], [0, 0])
    log.clear()
    state, done = algorithm.step(state, 1, fed)
    (zero, a1), (one, b1) = trained_rows(log)
    assert (zero, one) == (0, 1)
    np.testing.assert_allclose(log[0][0].start.double(), a0, **CLOSE)
    np.testing.assert_allclose(log[1][0].start.double(), b0, **CLOSE)
    np.testing.assert_allclose(rows_of(algorithm, fed), [(a1 + b0) / 2, (b1 + a0) / 2], **CLOSE)
    assert (state.messages, len(state.mail)) == (4, 2)
    assert list(done.downloads) == [1, 1]
    assert state.cycles.tolist() == [2, 2]
    log.clear()
    state, done = algorithm.step(state, 2, fed)
    (_, a2), (_, b2) = trained_rows(log)
    np.testing.assert_allclose(rows_of(algorithm, fed), [(a2 + b1) / 2, (b2 + a1) / 2], **CLOSE)


def test_messages_that_come_during_training_wait_for_its_end(script, federate, spied, tmp_path):
    """All trainings take one unit and messages hardly any: what was sent at the end of one is averaged after the next.

    So everyone averages the model it has just trained with what the neighbours had trained the time before.
    """
    n, k = 6, 2
    fed = federate(script({0: two_kinds(n, 3)}))
    topology, adjacency = graph(tmp_path, 6, 0.5, 3)
    algorithm = AsyncDFCA(**COMMON, num_clusters=k, spread=0.0, latency=SOON, topology=topology)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    log, waiting = spied(fed), []
    for t in range(5):
        log.clear()
        before = rows_of(algorithm, fed)
        replay = Replay(algorithm, fed, k, adjacency)
        labels = [replay.label(i) for i in range(n)]
        state, done = algorithm.step(state, t, fed)
        assert [client for client, _ in trained_rows(log)] == list(range(n))
        half, new = before.copy(), []
        for job, row in log:
            assert np.array_equal(job.start.double().numpy(), before[job.client * k + labels[job.client]])
            half[job.client * k + labels[job.client]] = row.double().numpy()
            new.append((job.client, labels[job.client], row.double().numpy()))
        expected = half.copy()
        for i in range(n):
            for j in range(k):
                found = [row for m, label, row in waiting if adjacency[i, m] and label == j]
                expected[i * k + j] = (half[i * k + j] + sum(found, np.zeros(WIDTH))) / (1 + len(found))
        np.testing.assert_allclose(rows_of(algorithm, fed), expected, **CLOSE)
        assert list(done.downloads) == ([0] * n if t == 0 else adjacency.sum(1).tolist())
        assert list(done.uploads) == adjacency.sum(1).tolist()
        waiting = new
        assert len(state.mail) == adjacency.sum()
        assert state.clock == pytest.approx(t + 1, abs=1e-6)
    assert state.messages == 5 * adjacency.sum()


@pytest.mark.parametrize(("spread", "seed"), [(0.0, 0), (0.5, 1), (1.0, 2)])
@pytest.mark.parametrize("k", [1, 3])
def test_event_by_event(spread, seed, k, script, federate, spied, tmp_path):
    """One training a round, messages that take no time: who is next, from where, on which model, and all rows."""
    n = 6
    fed = federate(script({0: two_kinds(n, 3)}), seed=seed)
    topology, adjacency = graph(tmp_path, 6, 0.5, 3)
    algorithm = AsyncDFCA(**COMMON, num_clusters=k, spread=spread, latency=0.0, topology=topology, participants=1)
    state = algorithm.init(fed)
    scatter(algorithm, fed, seed)
    replay, log, seen = Replay(algorithm, fed, k, adjacency), spied(fed), []
    for t in range(30):
        log.clear()
        ends = state.ends.tolist()
        client, now = ends.index(min(ends)), min(ends)
        expected = replay.label(client)
        start = replay.rows[client * k + expected].copy()
        began, state = state, None
        state, done = algorithm.step(began, t, fed)
        ((who, trained),) = trained_rows(log)
        assert who == client
        np.testing.assert_allclose(log[0][0].start.double(), start, **CLOSE)
        label, taken = replay.end(client, trained, now)
        assert label == expected == int(state.labels[client])
        assert list(done.cohort.labels) == [label]
        np.testing.assert_allclose(rows_of(algorithm, fed), replay.rows, rtol=0, atol=1e-5)
        replay.rows = rows_of(algorithm, fed)  # so that rounding does not add up
        assert state.clock == pytest.approx(now, abs=1e-9)
        assert done.cohort.seconds == pytest.approx(now - began.clock, abs=1e-9)
        assert float(state.ends[client]) > now
        assert [e for i, e in enumerate(state.ends.tolist()) if i != client] == [
            e for i, e in enumerate(ends) if i != client
        ]
        assert int(state.cycles[client]) == int(began.cycles[client]) + 1
        assert (list(done.uploads), list(done.downloads)) == ([int(adjacency[client].sum())], [taken])
        assert (state.messages, state.lost) == (replay.sent, 0)
        assert len(state.mail) == replay.sent - replay.taken
        assert torch.equal(done.row(0), algorithm.models(fed)[client * k + label])
        seen.append(client)
    assert set(seen) == set(range(n))
    in_turn = [t % n for t in range(30)]
    assert seen != in_turn if spread else seen == in_turn  # at their own pace, or in order of their numbers


def test_who_is_offline_loses_its_mail(script, federate, spied, tmp_path):
    """For the length of one training: it neither trains nor sends, and what came meanwhile is lost."""
    n, k = 6, 2
    fed = federate(script({0: two_kinds(n, 3)}))
    path, adjacency = graph(tmp_path, 6, 0.5, 3)
    topology = EdgeList(path=path.path, node_dropout=0.4)
    algorithm = AsyncDFCA(**COMMON, num_clusters=k, latency=0.0, topology=topology, participants=1)
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    replay, log, lost, offline = Replay(algorithm, fed, k, adjacency), spied(fed), 0, 0
    for t in range(50):
        log.clear()
        ends = state.ends.tolist()
        client, now = ends.index(min(ends)), min(ends)
        state, done = algorithm.step(state, t, fed)
        if log:
            ((who, trained),) = trained_rows(log)
            assert who == client
            replay.end(client, trained, now)
        else:
            assert done.results == []
            lost += len(replay.boxes[client])
            replay.boxes[client] = []
            offline += 1
        np.testing.assert_allclose(rows_of(algorithm, fed), replay.rows, rtol=0, atol=1e-5)
        replay.rows = rows_of(algorithm, fed)
        assert (state.messages, state.lost, state.clock) == (replay.sent, lost, min(ends))
        assert float(state.ends[client]) > min(ends)
    assert 7 <= offline <= 33  # 50 · 0.4, ± 3.7 standard deviations


def test_a_client_without_data_only_watches(script, federate, spied):
    """It never trains or sends; its models stay as they are, and messages to it do not pile up."""
    fed = federate(script({0: {0: [0, 1] * 4, 1: [], 2: [2, 3] * 4, 3: [1, 2] * 4}}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=2, topology=Complete(), measure="all")
    state = algorithm.init(fed)
    before, log, taken = rows_of(algorithm, fed), spied(fed), 0
    for t in range(6):
        state, done = algorithm.step(state, t, fed)
        taken += sum(done.downloads)
        assert state.messages == taken + state.lost + len(state.mail)
    assert {job.client for job, _ in log} == {0, 2, 3}
    assert np.array_equal(rows_of(algorithm, fed)[2:4], before[2:4])
    assert int(state.labels[1]) == int(algorithm.served(state, 5, fed).labels[1]) == -1
    assert len(state.mail) < len(log)


def test_rounds_are_only_a_way_of_counting(script, federate):
    """Twenty-four trainings are the same trainings in two, four, eight or twenty-four rounds."""
    ends = []
    for size in (1, 3, 6, 12):
        fed = federate(script({0: two_kinds(6, 3)}))
        algorithm = AsyncDFCA(**COMMON, num_clusters=2, topology=Complete(), participants=size, latency=0.3)
        state = algorithm.init(fed)
        scatter(algorithm, fed)
        sent = 0
        for t in range(24 // size):
            state, done = algorithm.step(state, t, fed)
            assert len(done.results) == size
            sent += sum(done.uploads)
        ends.append(
            (rows_of(algorithm, fed), state.labels.tolist(), state.messages, state.clock, state.cycles.tolist())
        )
        assert sent == state.messages
    for rows, *rest in ends[1:]:
        assert tuple(rest) == ends[0][1:]
        np.testing.assert_allclose(rows, ends[0][0], rtol=0, atol=1e-5)


def test_by_default_a_round_is_one_training_per_client(script, federate):
    fed = federate(script({0: two_kinds(5, 3)}))
    whole, half = (AsyncDFCA(**COMMON, num_clusters=2, participation=share) for share in (1.0, 0.4))
    for algorithm, size in ((whole, 5), (half, 2)):
        _, done = algorithm.step(algorithm.init(fed), 0, fed)
        assert len(done.results) == size


# ------------------------------------------------------------------------------------------------------------ the rest


def test_beginnings_are_those_of_dfca(script, federate):
    for how in ("global", "local"):
        fed, twin = federate(script({0: two_kinds(4, 3)})), federate(script({0: two_kinds(4, 3)}))
        algorithm = AsyncDFCA(**COMMON, num_clusters=2, initialisation=how)
        state = algorithm.init(fed)
        plain = DFCA(**COMMON, num_clusters=2, initialisation=how)
        plain.init(twin)
        assert np.array_equal(rows_of(algorithm, fed), rows_of(plain, twin))
        assert state.labels.tolist() == [-1] * 4
        assert (state.clock, state.messages, len(state.mail), state.cycles.tolist()) == (0, 0, 0, [0] * 4)


def test_paces_are_lognormal_around_one(script, federate):
    """The logarithm of a training's time has mean 0 and the given standard deviation (or the times the mean 1)."""
    fed = federate(script({0: two_kinds(400, 3)}))
    times = AsyncDFCA(**COMMON, num_clusters=1, spread=0.5).init(fed).ends.log()
    assert float(times.std()) == pytest.approx(0.5, abs=0.07)
    assert -0.125 - 0.1 < float(times.mean()) < 0.1


@pytest.mark.parametrize("wrong", [{"spread": -0.1}, {"latency": -1.0}])
def test_wrong_settings_name_their_key(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        AsyncDFCA(**wrong)


def test_a_slow_device_trains_less_often(script, federate, given_devices, spied):
    """Client 0 needs ten times as long for a sample as the others."""
    fed = federate(script({0: two_kinds(4, 3)}))
    devices = given_devices([50.0, 5.0, 5.0, 5.0], [1e9] * 4)
    algorithm = AsyncDFCA(**COMMON, num_clusters=2, devices=devices, topology=Complete())
    state = algorithm.init(fed)
    log = spied(fed)
    for t in range(8):
        state, _ = algorithm.step(state, t, fed)
    counts = np.bincount([job.client for job, _ in log], minlength=4)
    assert counts.sum() == 32
    assert 1 <= counts[0] < counts[1:].min() / 3


def test_the_state_survives_a_checkpoint_at_any_moment(script, federate, tmp_path):
    """Through a checkpoint file into another federation: messages under way arrive as if nothing had happened."""

    def make():
        fed = federate(script({0: two_kinds(5, 3)}))
        topology = Complete(link_failure=0.2, node_dropout=0.1)
        algorithm = AsyncDFCA(**COMMON, num_clusters=2, rounds=9, latency=1.5, topology=topology)
        return algorithm, fed, make_loop(algorithm, fed, None, None)

    algorithm, fed, whole = make()
    whole.begin()
    for stop in range(1, 6):
        whole.advance()
        assert len(whole.state.mail) > 0
        path = tmp_path / f"{stop}.ckpt"
        save_checkpoint(path, {"loop": whole.save(), "bank": fed.bank.save()})
        fed.bank.committed()
    for _ in range(3):
        whole.advance()
    for stop in range(1, 6):
        _, other, loop = make()
        content = load_checkpoint(tmp_path / f"{stop}.ckpt")
        other.bank.restore(content["bank"])
        loop.restore(content["loop"])
        while loop.position < 8:
            loop.advance()
        assert np.array_equal(rows_of(algorithm, other), rows_of(algorithm, fed))
        assert (loop.time, loop.state.messages, loop.state.lost) == (whole.time, whole.state.messages, whole.state.lost)
        assert torch.equal(loop.state.ends, whole.state.ends)
        assert len(loop.state.mail) == len(whole.state.mail)
        assert loop.gauges() == whole.gauges()


def test_pack_and_unpack_give_the_same_state(script, federate):
    fed = federate(script({0: two_kinds(5, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=2, topology=Complete())
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    back = algorithm.unpack(algorithm.pack(state), fed.layout.row)
    assert type(back) is type(state)
    for name, value in vars(state).items():
        other = getattr(back, name)
        assert torch.equal(other, value) if isinstance(value, torch.Tensor) else other == value


def test_time_is_the_states_clock(script, federate):
    fed = federate(script({0: two_kinds(5, 3)}))
    loop = make_loop(AsyncDFCA(**COMMON, num_clusters=2, topology=Complete(), rounds=4), fed, None, None)
    loop.begin()
    for _ in range(4):
        before = loop.time
        exchanges = loop.advance()
        assert loop.time == pytest.approx(loop.state.clock)
        assert loop.time > before
        assert all(type(e.uploaded) is int and type(e.downloaded) is int for e in exchanges)
        assert [e.uploaded for e in exchanges] == [4 * WIDTH * 4] * 5


def test_everyone_is_served_the_best_of_its_own_models(script, federate):
    fed = federate(script({0: two_kinds(5, 3)}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=3, topology=Complete(), participants=2, measure="all")
    state = algorithm.init(fed)
    scatter(algorithm, fed)
    state, _ = algorithm.step(state, 0, fed)
    replay, served = Replay(algorithm, fed, 3, np.zeros((5, 5))), algorithm.served(state, 0, fed)
    assert served.labels.tolist() == [replay.label(i) for i in range(5)]
    assert served.model_of.tolist() == [3 * i + replay.label(i) for i in range(5)]


# ------------------------------------------------------------------------------------------------------ runs on digits


def test_a_run_on_digits_learns(tiny_run):
    flags = ["--algorithm", "AsyncDFCA", "--algorithm.local_epochs", "3", "--algorithm.batch_size", "10"]
    flags += ["--algorithm.measure", "all", "--algorithm.rounds", "9", "--algorithm.topology", "Complete"]
    tiny_run("a", "--data.main_share", "[1.0,1.0]", *flags, "--data.samples", "[60,80]")
    with open("a/metrics.csv") as file:
        accuracies = [float(row["client_acc"]) for row in csv.DictReader(file)]
    assert accuracies[0] < 0.3
    assert accuracies[-1] > 0.7


@pytest.mark.parametrize("memory", ["1", "0"])
def test_a_run_resumes_bit_for_bit(memory, tiny_run):
    flags = ["--algorithm", "AsyncDFCA", "--algorithm.local_epochs", "1", "--algorithm.batch_size", "16"]
    flags += ["--algorithm.rounds", "6", "--algorithm.latency", "0.7", "--engine.memory_gb", memory]
    flags += ["--algorithm.topology", "Complete", "--algorithm.topology.link_failure", "0.2"]
    flags += ["--algorithm.topology.node_dropout", "0.2"]
    tiny_run("whole", "--data.main_share", "[1.0,1.0]", *flags)
    tiny_run("cut", "--data.main_share", "[1.0,1.0]", *flags, "--engine.max_updates", "3")
    tiny_run("cut", "--ckpt_path", "last", "--engine.max_updates", "null", new=False)
    for name in ("metrics.csv", "clients.csv"):
        assert Path("cut", name).read_text() == Path("whole", name).read_text()


@dataclass(frozen=True)
class Changing(Complete):
    """Everyone is linked at first, and nobody from the next round on."""

    def edges(self, n, t, seed):
        return super().edges(n, t, seed) if t == 0 else np.empty((0, 2), dtype=np.int64)


def test_the_first_trainings_take_as_long_as_the_first_rounds_graph_says(script, federate, given_devices):
    """28 numbers are 896 bits; at 0.896 kbps a model takes a second each way, to and from three neighbours. Two samples
    of 1 ms: a pass to choose a model, and three passes' worth of training. Without neighbours only that counts."""
    fed = federate(script({0: {m: [0, 1] for m in range(4)}}))
    devices = given_devices([1.0] * 4, [0.896] * 4)
    algorithm = AsyncDFCA(**COMMON, num_clusters=1, topology=Changing(), devices=devices)
    state = algorithm.init(fed)
    assert state.ends.tolist() == pytest.approx([6 + 4 * 2 * 0.001] * 4, rel=1e-6)
    after, _ = algorithm.step(state, 1, fed)
    assert after.ends.tolist() == pytest.approx([6.008 + 0.008] * 4, rel=1e-6)


def test_a_client_begins_when_its_first_data_arrive(script, federate):
    """Client 2 holds nothing before round 1. Everyone needs one unit: it ends one unit after the clock then."""
    fed = federate(script({0: {0: [0, 1], 1: [1, 2]}, 1: {2: [0, 2]}}))
    algorithm = AsyncDFCA(**COMMON, num_clusters=1, spread=0.0, latency=0.0, topology=Complete(), participants=2)
    state = algorithm.init(fed)
    assert state.ends.tolist() == [1.0, 1.0, np.inf]
    state, done = algorithm.step(state, 0, fed)
    assert [result.client for result in done.results] == [0, 1]
    state, done = algorithm.step(state, 1, fed)
    assert (state.clock, [result.client for result in done.results]) == (2.0, [0, 1])
    assert state.ends.tolist() == [3.0, 3.0, 2.0]
    state, done = algorithm.step(state, 2, fed)
    assert [result.client for result in done.results] == [2, 0]
