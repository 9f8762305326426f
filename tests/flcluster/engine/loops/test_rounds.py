"""Rounds in virtual time: who is asked, who is kept, how long it takes; and what all clients get."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from replay import begun

from flcluster.algorithms import IFCA, FedAvg
from flcluster.algorithms.rounds.selection import Selection
from flcluster.data import View
from flcluster.devices.availability import from_periods
from flcluster.devices.profiles import Devices, Profile
from flcluster.engine.measures import local_accuracies, measured
from flcluster.errors import UserError
from flcluster.records.checkpoint import load_checkpoint, save_checkpoint
from flcluster.records.recorder import MEASURED

COMMON = {"local_epochs": 2, "batch_size": 16, "rounds": 6}
BYTES = 4 * (6 * 8 + 8 + 8 * 3 + 3)
"""One model."""


class Given(Devices):
    """Devices as the test has them; periods are (starts, ends, cycle) of each client."""

    def __init__(self, ms, kbps, periods=None):
        self.ms, self.kbps, self.periods = np.array(ms, dtype=float), np.array(kbps, dtype=float), periods

    def profile(self, clients, seed):
        online = None if self.periods is None else from_periods(self.periods, np.arange(clients))
        return Profile(self.ms, self.kbps, online)


@dataclass(frozen=True)
class First(Selection):
    """Takes the first of the pool, and notes how many were wanted."""

    wanted: list = field(default_factory=list)

    def pick(self, pool, count, t, memory, look, draw):
        self.wanted.append((pool.tolist(), count))
        return pool[:count]


def seconds(data, devices, client, t, epochs=2):
    """Download and upload at the client's bandwidth, three passes over each sample of each epoch."""
    compute = 3 * epochs * len(data.shard(client, t).train) * devices.ms[client] / 1000
    return compute + 2 * BYTES * 8 / 1000 / devices.kbps[client]


ALWAYS = ([0.0], [1e9], 1e9)


# ----------------------------------------------------------------------------------------------------------- the race


def test_the_fastest_are_kept_and_the_slowest_of_them_sets_the_time(federation, blobs):
    """Two wanted, four asked (2·2); of clients 0 to 3 the two fastest train, in order of their number."""
    data, devices, first = blobs(), Given([50, 1, 90, 5, 0, 0], [10, 1, 10, 10, 99, 99]), First()
    algorithm = FedAvg(**COMMON, participants=2, overcommit=2.0, devices=devices, selection=first)
    loop = begun(algorithm, federation(data))
    time = 0.0
    for t in range(3):
        took = {m: seconds(data, devices, m, t) for m in range(4)}
        fastest = sorted(sorted(took, key=took.get)[:2])
        exchanges = loop.advance()
        assert [e.client for e in exchanges] == fastest
        time += max(took[m] for m in fastest)
        assert loop.time == pytest.approx(time, rel=1e-9)
        assert all(e.time == loop.time for e in exchanges)
        assert first.wanted[-1] == (list(range(6)), 4)
    assert loop.lost == 0


@pytest.mark.parametrize(("wanted", "asked"), [(1, 2), (5, 7), (10, 13), (20, 26)])
def test_three_tenths_more_are_asked(wanted, asked):
    """1.3·M, rounded up; only where devices are simulated."""
    devices = Given([1], [1])
    assert FedAvg(devices=devices).asked(wanted) == asked
    assert FedAvg().asked(wanted) == wanted


def test_steps_count_samples_not_epochs(federation, blobs):
    """Forty samples in batches of 10: five local steps go through fifty; FedScale's 3·B·L·ms."""
    data, devices = blobs(samples=(40, 40)), Given([7.0] * 6, [3.0] * 6)
    algorithm = FedAvg(rounds=2, local_steps=5, batch_size=10, devices=devices)
    loop = begun(algorithm, federation(data))
    exchanges = loop.advance()
    assert loop.time == pytest.approx(3 * 10 * 5 * 7.0 / 1000 + 2 * BYTES * 8 / 1000 / 3.0)
    assert [e.client_compute for e in exchanges] == [3 * 50] * 6


def test_clients_offline_when_they_finish_are_lost(federation, blobs):
    """Client 0 goes offline .1 s into the round, client 1 is offline already: the one is lost, the other not asked."""
    data, first = blobs(), First()
    periods = [([0.0], [0.1], 1e9), ([1e6], [1e7], 1e9), *[ALWAYS] * 4]
    devices = Given([5.0] * 6, [10.0] * 6, periods)
    algorithm = FedAvg(**COMMON, participants=3, overcommit=1.0, devices=devices, selection=first, measure="all")
    loop = begun(algorithm, federation(data))
    exchanges = loop.advance()
    assert first.wanted[0] == ([0, 2, 3, 4, 5], 3)
    assert [e.client for e in exchanges] == [2, 3]
    assert loop.time == pytest.approx(max(seconds(data, devices, m, 0) for m in (2, 3)))
    assert loop.gauges()["lost"] == 1
    loop.advance()  # client 0 is offline for good
    assert first.wanted[1][0] == [2, 3, 4, 5]
    assert loop.gauges()["lost"] == 1


def test_a_spare_client_takes_the_place_of_a_lost_one(federation, blobs):
    """Three asked for two: client 0, the fastest, is lost; the others make the round."""
    periods = [([0.0], [0.01], 1e9), *[ALWAYS] * 5]
    devices = Given([1, 5, 9, 1, 1, 1], [10.0] * 6, periods)
    algorithm = FedAvg(**COMMON, participants=2, overcommit=1.5, devices=devices, selection=First())
    loop = begun(algorithm, federation(blobs()))
    assert [e.client for e in loop.advance()] == [1, 2]
    assert loop.lost == 1


def test_clusters_run_in_parallel(federation, blobs):
    """Clients 0 to 2 use one model and 3 to 5 another: the slower cluster sets the time, losses add up."""
    data = blobs()
    periods = [*[ALWAYS] * 2, ([0.0], [0.01], 1e9), *[ALWAYS] * 2, ([0.0], [0.01], 1e9)]
    devices = Given([1, 2, 3, 70, 90, 80], [10.0] * 6, periods)
    algorithm = FedAvg(**COMMON, participants=6, overcommit=1.0, devices=devices)
    loop = begun(algorithm, federation(data))
    models = loop.state.models.repeat(2, 1)
    loop.state = replace(loop.state, models=models, labels=torch.tensor([0, 0, 0, 1, 1, 1]))
    exchanges = loop.advance()
    assert [e.client for e in exchanges] == [0, 1, 3, 4]
    assert loop.time == pytest.approx(max(seconds(data, devices, m, 0) for m in (0, 1, 3, 4)))
    assert loop.lost == 2


# ---------------------------------------------------------------------------------------------------------------- time


def test_without_devices_time_is_the_number_of_rounds(federation):
    loop = begun(FedAvg(**COMMON), federation())
    for t in range(3):
        assert {e.time for e in loop.advance()} == {t + 1}
    assert loop.time == 3


def empty_at(data, *rounds):
    """Nobody holds anything at some rounds."""
    shard, size = data.shard, data.size
    data.size = lambda client, cycle=0: 0 if cycle in rounds else size(client, cycle)

    def held(client, cycle=0):
        found = shard(client, cycle)
        return type(found)(View(()), View(()), found.mixture) if cycle in rounds else found

    data.shard = held
    return data


def test_a_round_in_which_nobody_holds_data_is_a_round(federation, blobs):
    """Without devices the time is the number of the round, whoever took part."""
    loop = begun(FedAvg(**COMMON), federation(empty_at(blobs(), 1)))
    loop.advance()
    before = loop.state.models.clone()
    assert loop.advance() == []
    assert torch.equal(loop.state.models, before)
    assert loop.advance()
    assert loop.time == 3


def test_time_goes_on_while_nobody_is_online(federation, blobs):
    """Everyone comes online after 150 s and stays: the clock must get there, and the model must wait."""
    devices = Given([5.0] * 6, [10.0] * 6, [([150.0], [1e8], 1e9)] * 6)
    loop = begun(FedAvg(**{**COMMON, "rounds": 50}, devices=devices), federation(blobs()))
    first, times = loop.state.models.clone(), [0.0]
    for _ in range(50):
        exchanges = loop.advance()
        times.append(loop.time)
        if exchanges:
            break
        assert torch.equal(loop.state.models, first)
    assert exchanges
    assert times == sorted(set(times))
    assert times[-2] >= 150
    assert (loop.epoch, loop.position) == (len(times) - 1, len(times) - 1)


def test_a_round_begins_when_the_last_one_ended(federation, blobs):
    """Client 0 is online for the first .5 s of every 1,000 s: it takes part when the clock says so."""
    periods = [([0.0], [0.5], 1000.0), *[ALWAYS] * 5]
    devices = Given([0.001] + [1000.0] * 5, [1e6] + [1e3] * 5, periods)
    algorithm = FedAvg(**{**COMMON, "rounds": 5}, devices=devices, overcommit=1.0)
    loop = begun(algorithm, federation(blobs(), seed=3))
    there = []
    for _ in range(5):
        there.append(loop.time % 1000 <= 0.5)
        assert (0 in [e.client for e in loop.advance()]) == there[-1]
    assert there[:2] == [True, False]


def test_time_and_losses_survive_a_checkpoint(federation, blobs, tmp_path):
    def make():
        periods = [([0.0], [0.1], 5.0), *[ALWAYS] * 5]
        devices = Given([5, 10, 15, 20, 25, 30], [10.0] * 6, periods)
        return begun(FedAvg(**COMMON, devices=devices, measure="all"), federation(blobs()))

    whole, cut = make(), make()
    for _ in range(6):
        whole.advance()
    for _ in range(3):
        cut.advance()
    save_checkpoint(tmp_path / "c.ckpt", {"loop": cut.save()})
    other = make()
    other.restore(load_checkpoint(tmp_path / "c.ckpt")["loop"])
    assert other.time == cut.time > 0
    for _ in range(3):
        other.advance()
    assert (other.time, other.lost, other.position) == (whole.time, whole.lost, 6)
    assert whole.lost > 0
    assert torch.equal(other.state.models, whole.state.models)
    assert other.gauges() == whole.gauges()


# ------------------------------------------------------------------------------------------------------------ everyone


def test_measuring_everyone_is_on_the_data_of_the_last_round(federation, blobs):
    """A session's numbers are of the models as they are and the data of the round just run."""
    fed = federation(blobs())
    algorithm = FedAvg(**COMMON, measure="all", participation=0.5)
    loop = begun(algorithm, fed)
    assert set(loop.gauges()) <= {*algorithm.extra_metrics, *MEASURED}
    for t in range(3):
        exchanges = loop.advance()
        assert len(exchanges) == 3
        assert all(math.isnan(e.acc_before) and math.isnan(e.acc_after) for e in exchanges)
        served = algorithm.served(loop.state, t, fed)
        expected = measured(served, local_accuracies(served, t, fed), t, fed)
        assert {k: v for k, v in loop.gauges().items() if k != "lost"} == expected
        by_hand = [fed.accuracy(loop.state.models[0], fed.data.shard(m, t).test) for m in range(6)]
        assert loop.gauges()["client_acc"] == pytest.approx(np.mean(by_hand), abs=1e-9)
        assert loop.gauges()["clusters"] == 1
        assert loop.gauges()["cluster_size_0"] == 6


def test_measuring_participants_shows_no_population(federation):
    loop = begun(FedAvg(**COMMON), federation())
    exchanges = loop.advance()
    assert "client_acc" not in loop.gauges()
    assert "client_acc" not in loop.algorithm.extra_metrics
    assert all(0 <= e.acc_after <= 1 for e in exchanges)


def test_measuring_changes_nothing_else(federation, blobs):
    states = []
    for measure in ("participants", "all"):
        loop = begun(FedAvg(**COMMON, measure=measure), federation(blobs()))
        for _ in range(3):
            loop.advance()
            loop.gauges()
        states.append(loop.state.models)
    assert torch.equal(*states)


def test_ifca_serves_the_model_with_the_smallest_training_loss(federation, blobs):
    fed = federation(blobs())
    algorithm = IFCA(**COMMON, num_clusters=3, measure="all")
    loop = begun(algorithm, fed)
    loop.advance()
    labels = algorithm.served(loop.state, 0, fed).labels
    for client in range(6):
        losses = [fed.loss(row, fed.data.shard(client, 0).train) for row in loop.state.models]
        assert labels[client] == losses.index(min(losses))
    by_hand = [fed.accuracy(loop.state.models[labels[m]], fed.data.shard(m, 0).test) for m in range(6)]
    assert loop.gauges()["client_acc"] == pytest.approx(np.mean(by_hand), abs=1e-9)


@pytest.mark.parametrize(
    "wrong", [{"participants": 0}, {"local_steps": 0}, {"overcommit": 0.9}, {"prox": -0.1}, {"participation": 1.5}]
)
def test_wrong_settings_name_their_key(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        FedAvg(**wrong)
